// The logs of examples/grpo/logs in, the measured part of docs/training.md and its charts out.
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { chart } from '../fidelity/plot.mjs';
import { ROOT } from '../fidelity/program.mjs';
import { readLog } from './logs.mjs';
import { mean, meanCurve, wholeLooks } from './statistics.mjs';
import { byArm, comparisonTable, levelsTable, summaryTable } from './tables.mjs';

const LOGS = join(ROOT, 'examples/grpo/logs');
const DENSITIES = ['sparse', 'dense'];
/** Folders of sweeps by the density of their task: as they are, and with clipped gradients. */
const SWEEPS = DENSITIES.flatMap((density) => [
  [density, density],
  [`${density}-clipped`, density],
]);

const SECOND = ['posterior', 'prm', 'hierarchical'];

const fixed = (value, digits = 2) =>
  value
    .toFixed(digits)
    .replace(/^(-?)0\./, '$1.')
    .replace('-', '−');
const signed = (value) => `${value < 0 ? '−' : '+'}${fixed(Math.abs(value), 3)}`;

/** Groups: a limit or an efficiency of fewer says nothing. */
const FEW = 100;
const limitOf = (limit) => (limit === null ? '' : fixed(limit));

/** Of a gradient with that cosine the square of the part along the reference over that of all beside it; none for one that points away. */
const signalToNoise = (cosine) => Math.max(0, cosine) ** 2 / (1 - cosine ** 2);

/** The variance of a block's gradient over the square of its mean; none where the mean points nowhere that is known. */
const variance = ({ cosine, limit }) =>
  limit === null || cosine <= 0 ? undefined : (limit / cosine) ** 2 - 1;

/** Stage 0 of one density as a table: arms by cosine. @param mark behind the density in the file's name */
function stageZero(density, mark = '') {
  const path = join(LOGS, `stage0-${density}${mark}.json`);
  if (!existsSync(path)) return '';
  const found = JSON.parse(readFileSync(path, 'utf8'));
  const { arms, groups, reference_groups, halves_cosine, wrong } = found;
  const isLarge = groups >= FEW;
  const second = isLarge ? found.return : undefined;
  const heads = ['arm', 'blocks', 'cosine with the reference', "less plain GRPO's"];
  if (isLarge) heads.push('efficiency', 'variance', 'limit');
  if (second !== undefined)
    heads.push(`limit, by the return (${second.reference_groups.toLocaleString('en')} groups)`);
  const rows = Object.entries(arms)
    .sort(([, a], [, b]) => b.cosine - a.cosine)
    .map(([name, figures]) => {
      const { blocks, cosine, limit, gain } = figures;
      const [low, high] = figures.gain_interval;
      const isPlain = name === 'uniform';
      const title = isPlain
        ? '**plain GRPO**'
        : `${name}${SECOND.some((each) => name.includes(each)) ? ' ²' : ''}`;
      const cells = [
        title,
        blocks,
        fixed(cosine, 3),
        isPlain ? '' : `${signed(gain)} [${signed(low)}, ${signed(high)}]`,
      ];
      if (isLarge) {
        const efficiency = signalToNoise(cosine) / signalToNoise(arms.uniform.cosine);
        const noise = variance(figures);
        const ratio = noise === undefined ? '' : fixed(noise / variance(arms.uniform));
        cells.push(efficiency.toFixed(2), ratio, limitOf(limit));
      }
      if (second !== undefined) cells.push(limitOf(second.arms[name].limit));
      return cells;
    });
  const line = (cells) => `| ${cells.join(' | ')} |`;
  return `### ${titled(density)}${mark === '' ? '' : ', with Monte Carlo'}

${groups} groups of 8 in blocks of ${groups / arms.uniform.blocks} against ${reference_groups.toLocaleString('en')} other groups (the cosine of the reference's own halves: ${fixed(halves_cosine, 3)}). Wrong results of the policy:
${Object.entries(wrong)
  .map(([operator, share]) => `\`${operator}\` ${(100 * share).toFixed(1)} %`)
  .join(', ')}.

${[heads, heads.map(() => '---'), ...rows].map(line).join('\n')}
`;
}

const titled = (density) => `${density[0].toUpperCase()}${density.slice(1)} task`;
const isClipped = (name) => name.endsWith('-clipped');

/** What runs of one folder may differ in. */
const VARIES = ['arm', 'seed', 'rate'];

/** Runs of one sweep: a folder of compressed logs, all of the committed weak policy and alike but for arm, seed and rate. */
function sweep(name) {
  const folder = join(LOGS, name);
  const logs = readdirSync(folder)
    .filter((file) => file.endsWith('.jsonl.gz'))
    .sort()
    .map((file) => readLog(gunzipSync(readFileSync(join(folder, file))).toString('utf8')));
  alike(name, logs);
  return logs;
}

/** @throws Error where a run is of another sweep, is not whole, or is there twice: a tuning has an arm at several rates, a sweep at one */
export function alike(name, logs) {
  const seen = new Set();
  const rates = new Map();
  const wanted = settingsOf(logs[0]);
  for (const log of logs) {
    const { arm, seed, rate, density, steps, weights } = log.arguments;
    const run = `${name}: ${arm}, seed ${seed}, rate ${rate}`;
    if (settingsOf(log) !== wanted) throw new Error(`${run}: found ${settingsOf(log)}, expected ${wanted}`);
    if (weights !== weakPolicy(density)) throw new Error(`${run}: is of another weak policy`);
    if (log.looks.at(-1)?.step !== steps) throw new Error(`${run}: has no look at its last step`);
    if (seen.has(run)) throw new Error(`${run}: is there twice`);
    seen.add(run);
    const known = rates.get(arm) ?? rate;
    if (!name.startsWith('tuning') && known !== rate) throw new Error(`${run}: others have ${known}`);
    rates.set(arm, known);
  }
}

/** What runs of one sweep have alike. */
const settingsOf = (log) =>
  JSON.stringify(Object.entries(log.arguments).filter(([key]) => !VARIES.includes(key)));

const weakPolicy = (density) =>
  createHash('sha256')
    .update(readFileSync(join(ROOT, `examples/grpo/weak-${density}.safetensors`)))
    .digest('hex');

function curves(name, logs) {
  const lines = byArm(logs).map(({ arm, bySeed }) => ({
    name: arm,
    curve: meanCurve([...bySeed.values()].map((run) => run.curve)),
  }));
  const draw = (by, label, scale) => {
    const high = Math.max(...lines.map(({ curve }) => curve.at(-1)[by] / scale));
    const ticks = Array.from({ length: 5 }, (_, n) => (n * high) / 4).map((v) => [v, v.toFixed(0)]);
    return chart({
      title: `${name}: accuracy on held-out problems, mean over seeds`,
      x: { label, low: 0, high, ticks },
      y: { label: 'accuracy', low: 0.5, high: 1, ticks: [0.5, 0.6, 0.7, 0.8, 0.9, 1] },
      lines: lines.map(({ name: arm, curve }) => ({
        name: arm === 'uniform' ? 'plain GRPO' : arm,
        isDashed: arm === 'uniform',
        points: curve.map((point) => [point[by] / scale, point.accuracy]),
      })),
    });
  };
  return [
    [`training-${name}-steps.svg`, draw('step', 'steps', 1)],
    [`training-${name}-tokens.svg`, draw('tokens', 'thousand generated tokens', 1000)],
  ];
}

/** Accuracy by arm and learning rate: the mean of the looks at all held-out problems. {arm: [rate, accuracy, runs][]} */
function tried(logs) {
  const found = {};
  for (const arm of new Set(logs.map((log) => log.arguments.arm))) {
    const own = logs.filter((log) => log.arguments.arm === arm);
    const rates = [...new Set(own.map((log) => log.arguments.rate))].sort((a, b) => a - b);
    found[arm] = rates.map((rate) => {
      const looks = own
        .filter((log) => log.arguments.rate === rate)
        .map((log) => mean(wholeLooks(log.looks).map(({ held_out }) => held_out)));
      return [rate, mean(looks), looks.length];
    });
  }
  return found;
}

/** The learning rate of each arm that did best in the tuning of a density: {arm: rate}. */
export function tunedRates(density) {
  const best = Object.entries(tried(sweep(`tuning-${density}`))).map(([arm, rates]) => [
    arm,
    rates.reduce((a, b) => (b[1] > a[1] ? b : a))[0],
  ]);
  return Object.fromEntries(best);
}

/** Accuracy by arm and learning rate, with seeds that no other run has. */
function tuningTable(logs) {
  const found = tried(logs);
  const rates = [...new Set(logs.map((log) => log.arguments.rate))].sort((a, b) => a - b);
  const lines = Object.entries(found).map(([arm, own]) => {
    const best = Math.max(...own.map(([, accuracy]) => accuracy));
    const cells = rates.map((rate) => {
      const [, accuracy, runs] = own.find(([each]) => each === rate) ?? [];
      if (runs === undefined) return '';
      return `${accuracy === best ? `**${fixed(accuracy, 3)}**` : fixed(accuracy, 3)} (${runs})`;
    });
    return `| ${arm} | ${cells.join(' | ')} |`;
  });
  const { steps, held_out } = logs[0].arguments;
  return `Mean accuracy on ${held_out} held-out problems at 70 % of ${steps} steps and at their end; in brackets the runs. An arm's runs above have its best rate.

| arm | ${rates.join(' | ')} |
| --- | ${rates.map(() => '---').join(' | ')} |
${lines.join('\n')}`;
}

/** Runs with a sweep's seeds at another rate beside the sweep's own, and both against plain GRPO at that rate. */
function ratesTable(density) {
  const named = (logs, nameOf) =>
    logs.map((log) => ({ ...log, arguments: { ...log.arguments, arm: nameOf(log.arguments) } }));
  const withRate = ({ arm, rate }) => `${arm}, ${rate}`;
  const others = sweep(`rates-${density}`);
  const own = sweep(density).filter((log) => ['uniform', 'share calibrated'].includes(log.arguments.arm));
  const [{ rate, steps }] = others.map((log) => log.arguments);
  const plain = ({ arm }) => arm === 'uniform';
  const all = [...own, ...named(others, withRate)];
  const turned = [
    ...named(others, (run) => (plain(run) ? run.arm : withRate(run))),
    ...named(
      own.filter((log) => !plain(log.arguments)),
      withRate,
    ),
  ];
  const seeds = [...new Set(others.map((log) => log.arguments.seed))].sort((a, b) => a - b);
  return [
    `${steps} steps, seeds ${seeds.join(', ')}; what has no rate in its name is the sweep's own, as above.`,
    comparisonTable(all),
    levelsTable(all),
    summaryTable(all),
    `The same with plain GRPO at ${rate} as plain GRPO:`,
    comparisonTable(turned),
    levelsTable(turned),
  ].join('\n\n');
}

/** What traces are made of after some steps, of single runs. */
function faultsTable() {
  const lines = readFileSync(join(LOGS, 'faults.jsonl'), 'utf8').trimEnd().split('\n');
  const rows = lines.map((line) => {
    const found = JSON.parse(line);
    const { arm, rate, steps, traces, right, readable, operations } = found;
    const each = (n) => (n / readable).toFixed(1);
    const wrong = `${((100 * found.wrong_operations) / operations).toFixed(1)} %`;
    return `| ${arm} | ${rate} | ${steps} | ${right} of ${traces} | ${each(operations)} | ${wrong} | ${each(found.fillers)} | ${found.mistake_known} | ${found.mistake_unknown} | ${traces - readable} |`;
  });
  return `Of single runs with the first seed of the tuning (\`faults.py\`): lines are a trace's, on average.

| arm | rate | steps | right | operations | operations wrong | fillers | wrong traces, mistake found | wrong traces, none found | not readable |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
${rows.join('\n')}`;
}

/** Runs whose traces another policy scored: what came of it, and what the tool said, once a kind. */
function foreignTable(logs) {
  return logs
    .map(({ arguments: { arm, seed, scored_by, steps }, looks, warnings }) => {
      const kinds = new Map(warnings.map((text) => [text.replaceAll(/\d+/g, ''), text]));
      const said = [...kinds.values()].map((text) => `> ${text.replace(/ \/\S*\/(\w+)/, ' $1')}`);
      const [early, last] = wholeLooks(looks).map(({ held_out }) => fixed(held_out));
      return `${arm}, seed ${seed}, by \`models/${scored_by}\`: accuracy ${early} at 70 % of ${steps} steps and ${last} at the end. The tool warned:\n\n${said.join('\n\n')}`;
    })
    .join('\n\n');
}

/** The measured part of the page, and its charts: {text, charts: [file, svg][]}. */
export function measured() {
  const sweeps = readdirSync(LOGS, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);
  const charts = [];
  const parts = [
    '## At fixed parameters',
    ...DENSITIES.flatMap((each) => [stageZero(each), stageZero(each, '-mc')]),
    '## Training',
  ];
  for (const [name, density] of SWEEPS.filter(([each]) => sweeps.includes(each))) {
    const logs = sweep(name);
    charts.push(...curves(name, logs));
    const [{ problems, copies, steps }] = logs.map((log) => log.arguments);
    const rates = [...new Set(logs.map((log) => `${log.arguments.arm} ${log.arguments.rate}`))].sort();
    parts.push(
      `### ${titled(density)}${isClipped(name) ? ', gradients clipped' : ''}`,
      `${steps} steps of ${problems} problems × ${copies} completions; learning rates: ${rates.join(', ')}.`,
      comparisonTable(logs),
      levelsTable(logs),
      summaryTable(logs),
      `![Accuracy by steps](training-${name}-steps.svg)\n![Accuracy by generated tokens](training-${name}-tokens.svg)`,
    );
  }
  if (sweeps.includes('foreign')) parts.push('### Scored by another policy', foreignTable(sweep('foreign')));
  for (const density of DENSITIES)
    if (sweeps.includes(`rates-${density}`))
      parts.push(`### ${titled(density)}, a higher rate`, ratesTable(density));
  for (const density of DENSITIES)
    if (sweeps.includes(`tuning-${density}`))
      parts.push(`### Learning rates, ${density}`, tuningTable(sweep(`tuning-${density}`)));
  parts.push('### What the traces hold', faultsTable());
  return { text: parts.filter(Boolean).join('\n\n'), charts };
}
