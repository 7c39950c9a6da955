// What was measured of a policy in, its charts out: the paper's figures 3 to 7, and the segmenters.
import { finder, methodsOf } from './figures.mjs';
import { chart, scatter } from './plot.mjs';
import { OF_MODEL, OF_POLICY } from './prm-study.mjs';

const LASTS = [0.25, 0.5, 0.75, 1];

/** @returns [name, svg] of each chart; the page links to them by name */
export function plotsOf({ policy: { title }, comparison, noise, lengths, segmenters, prm }) {
  const figure = finder(comparison);
  const ceiling = comparison.ceiling?.value;
  const agreement = chart({
    title: `${title}: Pearson of differences with Monte Carlo, inside traces`,
    x: { label: 'last part of each trace', low: 0.25, high: 1, ticks: LASTS.map((v) => [v, `${v * 100} %`]) },
    y: { label: 'Pearson', low: -0.4, high: 1, ticks: [-0.25, 0, 0.25, 0.5, 0.75, 1] },
    lines: [
      ...methodsOf(comparison).map((name) => ({
        name,
        points: LASTS.map((last) => [last, figure('pearson', name, 'all', last)?.value ?? Number.NaN]),
      })),
      { name: 'ceiling', isDashed: true, points: LASTS.map((last) => [last, ceiling ?? Number.NaN]) },
    ],
  });

  const doublings = noise.rows.map(({ M }) => [Math.log2(M), `${M}`]).filter(([at]) => Number.isInteger(at));
  const deviation = chart({
    title: `${title}: bootstrap standard deviation of a Monte Carlo value`,
    x: {
      label: 'completions an exit',
      low: 0,
      high: Math.max(...doublings.map(([at]) => at)),
      ticks: doublings,
    },
    y: { label: 'standard deviation', low: 0, high: 0.4, ticks: [0, 0.1, 0.2, 0.3, 0.4] },
    lines: noise.exits.map((exits, i) => ({
      name: `${exits.toFixed(1)} exits a trace`,
      points: noise.rows.map(({ M, deviations }) => [Math.log2(M), deviations[i]]),
    })),
  });

  const middles = lengths.edges.slice(1).map((edge, i) => (edge + lengths.edges[i]) / 2);
  const lost = chart({
    title: `${title}: completions that a limit of tokens loses`,
    x: {
      label: "the trace's own remaining length, as a share of the limit",
      low: 0,
      high: lengths.edges.at(-1),
      ticks: lengths.edges.map((edge) => [edge, `${edge}`]),
    },
    y: { label: 'share lost', low: 0, high: 1, ticks: [0, 0.25, 0.5, 0.75, 1] },
    lines: lengths.limits.map(({ limit, bins }) => ({
      name: `limit of ${limit}`,
      points: bins.map((bin, i) => [middles[i], bin.lost]),
    })),
  });

  const counts = segmenters.counts.map((K) => [Math.log2(K), `${K}`]);
  const cuts = chart({
    title: `${title}: share of the token-wise credit that a cut keeps`,
    x: { label: 'segments at most', low: counts[0][0], high: counts.at(-1)[0], ticks: counts },
    y: { label: 'share kept', low: 0, high: 1, ticks: [0, 0.25, 0.5, 0.75, 1] },
    lines: segmenters.ways.map(({ name, shares }) => ({
      name,
      isDashed: name === 'best',
      points: shares.map(({ value }, i) => [counts[i][0], value]),
    })),
  });
  return [
    ['last', agreement],
    ['noise', deviation],
    ['lost', lost],
    ['segmenters', cuts],
    ...(prm ? OF_POLICY.map((of) => [`prm-${of}`, judgements(title, of, prm)]) : []),
  ];
}

/** Nats: what changes by more lies at the edge. */
const FARTHEST = 8;

function judgements(title, of, prm) {
  return scatter({
    title: `${title}: the reward model's score and the change of log p of the reference's ${of === 'answer' ? 'answer' : 'solution'}`,
    x: {
      label: 'change of log p by the segment, nats',
      low: -FARTHEST,
      high: FARTHEST,
      ticks: [-8, -4, 0, 4, 8],
    },
    y: { label: 'score of the segment', low: 0, high: 1, ticks: [0, 0.25, 0.5, 0.75, 1] },
    panels: OF_MODEL.filter(({ isChange }) => !isChange).map(({ name, model }) => ({
      name: model === 'prm' ? 'without the reference in its prompt' : 'with the reference in its prompt',
      groups: prm.points(of, name),
    })),
  });
}
