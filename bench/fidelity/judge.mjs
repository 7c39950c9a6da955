// One policy's scored traces and its completions in, all figures of the page out.

import { hasLevel } from '../../dist/estimate/nature.js';
import { ESTIMATORS, estimatorNamed } from '../../dist/estimate/registry.js';
import { ceilingWithInterval } from './ceiling.mjs';
import { forwardTokens, sampledTokens, tailTokens, tokensBeforeAnswer } from './cost.mjs';
import { featureStudy } from './feature-study.mjs';
import { prmStudy } from './prm-study.mjs';
import { rowsOf, toldBy, writeLines } from './program.mjs';
import { atEnds, compactSamples, mean, truncatedValues, valuesBy } from './samples.mjs';
import { segmenterStudy } from './segmenter-study.mjs';
import { cutters } from './segmenters.mjs';
import { FEWER, LIMITS, lengthStudy, noiseStudy } from './studies.mjs';
import { differences, thoughtsOf, valuesOf } from './traces.mjs';

/** Values that are no probabilities of winning under the policy have no level. */
const WITHOUT_LEVEL = new Set([
  ...ESTIMATORS.filter((each) => !hasLevel(each)).map(({ name }) => name),
  'progress',
  'joint',
]);

/** Completions an exit that `--mc-samples` takes where it is not given. */
const METHOD_SAMPLES = 20;

/** Columns that `compare` reads beside the credits. */
const COMPARED = [
  ...['id', 'group', 'reward', 'segments', 'sigma_surprise', 'sigma_entropy'],
  ...['value_start', 'completion_ids', 'status'],
];

/** Mean over traces of the mean |v̂ − v| over exits. */
const levelError = (values, truth) =>
  mean(values.map((own, i) => mean(own.map((value, k) => Math.abs(value - truth[i][k])))));

const mapValues = (of, make) => Object.fromEntries(Object.entries(of).map(([name, x]) => [name, make(x)]));

/**
 * @param prepared of prepare.mjs
 * @param taken seconds of the Monte Carlo run
 */
export async function judge(prepared, samples, taken) {
  const { policy, at, folder, judge: rows, base, scored, fitted, beside, summaries, fine } = prepared;
  const half = samples / 2;
  const all = Array.from(rowsOf(at('mc')), compactSamples);
  const lines = all.map((own, i) =>
    atEnds(
      own,
      thoughtsOf(base[i]).map(({ end }) => end),
    ),
  );
  const values = (from, to) => lines.map((own) => valuesBy(own, from, to));
  const [truth, a, b] = [values(0, samples), values(0, half), values(half, samples)];
  // as the program writes them: those of `joint` are no differences of what it stores
  const deltas = (name, row) => {
    // what has no sign of its own takes that of the return, as the σ rules read it
    const outcome = Math.sign(row.reward - row.baseline);
    return thoughtsOf(row).map(({ delta }) =>
      estimatorNamed(name)?.isMagnitude ? outcome * Math.abs(delta) : delta,
    );
  };
  const methods = Object.fromEntries(
    Array.from(scored, ([name, each]) => [name, each.map((row) => deltas(name, row))]),
  );
  const changes = (each) => each.map(differences);

  const compared = (file, credits, ...flags) => {
    const told = base.map((row, i) => {
      const line = policy.mistake(rows[i]);
      // some mistakes cost nothing: the answer is right in spite of them
      const isSegment = line !== null && line < thoughtsOf(row).length && row.reward <= 0.5;
      const ours = Object.fromEntries(COMPARED.map((name) => [name, row[name]]));
      return { ...ours, credits: mapValues(credits, (of) => of[i]), mistake: isSegment ? line : null };
    });
    writeLines(at(file), told);
    const named = Object.keys(credits).flatMap((name) => ['--credit', `${name}=credits.${name}`]);
    const truth = flags.includes('--truth') ? [] : ['--truth', 'mc'];
    return toldBy('compare', at(file), ...named, ...truth, ...flags, '--json');
  };
  const comparison = {
    ...compared('credits.jsonl', { mc: changes(truth), ...methods }, ...['--label', 'first_wrong=mistake']),
    ceiling: ceilingWithInterval(base, changes(a), changes(b)),
  };
  // how the attributions go with each other
  const attributed = ['gradient', 'attention', 'loo'].filter((name) => name in methods);
  const among = Object.fromEntries(
    attributed.slice(0, -1).map((name, n) => {
      const others = [name, ...attributed.slice(n + 1), 'pr', 'surprise'];
      const own = Object.fromEntries(others.map((each) => [each, methods[each]]));
      return [name, compared('among.jsonl', own, '--truth', name)];
    }),
  );
  const features = await featureStudy({ fitted, scored, truth, compared, levelError });
  const prm = beside.reference && prmStudy({ base, prm: scored.get('prm'), ...beside }, compared);
  // Monte Carlo of less: some of one half by the other
  const less = Object.fromEntries([
    ...FEWER.filter((M) => M <= half).map((M) => [`mc_${M}`, values(0, M)]),
    ...LIMITS.map((limit) => [
      `mc_truncated_${limit}`,
      lines.map((own) => truncatedValues(own, limit, 0, half)),
    ]),
  ]);
  const byHalf = compared('half.jsonl', { mc: changes(b), ...mapValues(less, changes), ...methods });

  const cut = await cutters(folder, base);
  const studied = [...fine].sort((x, y) => x - y);
  const own = (i) => ({ ...lines[i], start: cut[i].start, tokens: rows[i].completion_ids.length });
  return {
    policy,
    comparison,
    byHalf,
    levels: {
      ...mapValues(Object.fromEntries(scored), (each) => levelError(each.map(valuesOf), truth)),
      ...Object.fromEntries([...WITHOUT_LEVEL].map((name) => [name, null])),
      ...mapValues(less, (each) => levelError(each, b)),
    },
    fit: prepared.fit,
    samples,
    taken,
    tokens: rows.reduce((sum, { completion_ids }) => sum + completion_ids.length, 0),
    calibration: prepared.calibration,
    among,
    features,
    prm,
    noise: noiseStudy(lines),
    lengths: lengthStudy(lines.map((_, i) => own(i))),
    segmenters: segmenterStudy(
      studied.map((i) => all[i]),
      studied.map((i) => cut[i]),
    ),
    costs: await costs(),
  };

  async function costs() {
    const before = await tokensBeforeAnswer(folder);
    const written = { lines: writtenBy(lines), all: writtenBy(all) };
    const tails = await tailTokens(base, folder, summaries.get('siblings').config);
    return [
      ...Array.from(scored, ([name, each]) => {
        const own = forwardTokens(name, each, before);
        return {
          name,
          seconds: summaries.get(name).seconds,
          tokens: own + (name === 'siblings' ? tails : 0),
        };
      }),
      // of the states at the ends of lines alone, and of fewer completions, by their part of what was written
      ...[METHOD_SAMPLES, samples].map((M) => {
        const own = (written.lines * M) / samples;
        const tokens = sampledTokens(base, own);
        return { name: `mc, M = ${M}`, seconds: (taken * own) / written.all, tokens };
      }),
    ];
  }
}

/** Tokens of the completions that ended by themselves, which are nearly all. */
function writtenBy(traces) {
  const lengths = traces.flatMap((trace) => trace.lengths.flat());
  return lengths.filter(Number.isFinite).reduce((sum, length) => sum + length, 0);
}
