// The logs of examples/grpo/logs in, the measured part of docs/training.md and its charts out.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { chart } from '../fidelity/plot.mjs';
import { ROOT } from '../fidelity/program.mjs';
import { readLog } from './logs.mjs';
import { mean } from './statistics.mjs';
import { byArm, summaryTable } from './tables.mjs';

const LOGS = join(ROOT, 'examples/grpo/logs');
const DENSITIES = ['sparse', 'dense'];

const fixed = (value, digits = 2) => value.toFixed(digits).replace(/^(-?)0\./, '$1.');
const signed = (value) => `${value < 0 ? '−' : '+'}${fixed(Math.abs(value), 3)}`;

/** Stage 0 of one density as a table: arms by cosine. */
function stageZero(density) {
  const path = join(LOGS, `stage0-${density}.json`);
  if (!existsSync(path)) return '';
  const { arms, groups, reference_groups, halves_cosine } = JSON.parse(readFileSync(path, 'utf8'));
  const rows = Object.entries(arms)
    .sort(([, a], [, b]) => b.cosine - a.cosine)
    .map(
      ([
        name,
        {
          blocks,
          cosine,
          gain,
          gain_interval: [low, high],
          efficiency,
          efficiency_interval: between,
        },
      ]) =>
        `| ${name === 'uniform' ? '**plain GRPO**' : name} | ${blocks} | ${fixed(cosine, 3)} | ${name === 'uniform' ? '' : `${signed(gain)} [${signed(low)}, ${signed(high)}]`} | ${name === 'uniform' ? '1' : `${efficiency.toFixed(2)} [${between.map((v) => v.toFixed(2)).join(', ')}]`} |`,
    );
  return `### ${density[0].toUpperCase()}${density.slice(1)} task

${groups} groups of 8 in blocks of 64 against ${reference_groups.toLocaleString('en')} groups; the reference's own halves have a cosine of ${fixed(halves_cosine, 3)}.

| arm | blocks | cosine with the reference | less plain GRPO's | groups that plain GRPO needs for one of the arm's |
| --- | --- | --- | --- | --- |
${rows.join('\n')}
`;
}

/** Runs of one sweep: a folder of compressed logs. */
function sweep(name) {
  const folder = join(LOGS, name);
  return readdirSync(folder)
    .filter((file) => file.endsWith('.jsonl.gz'))
    .sort()
    .map((file) => readLog(gunzipSync(readFileSync(join(folder, file))).toString('utf8')));
}

/** Mean curve of an arm over its seeds; runs of one sweep look at the same steps. */
function meanCurve(bySeed) {
  const curves = [...bySeed.values()].map(({ curve }) => curve);
  return curves[0].map(({ step }, n) => ({
    step,
    tokens: mean(curves.map((curve) => curve[n].tokens)),
    accuracy: mean(curves.map((curve) => curve[n].accuracy)),
  }));
}

function curves(name, logs) {
  const lines = byArm(logs).map(({ arm, bySeed }) => ({ name: arm, curve: meanCurve(bySeed) }));
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

/** The measured part of the page, and its charts: {text, charts: [file, svg][]}. */
export function measured() {
  const sweeps = readdirSync(LOGS, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);
  const charts = [];
  const parts = ['## At fixed parameters', ...DENSITIES.map(stageZero), '## Training'];
  for (const name of sweeps.filter((each) => DENSITIES.includes(each))) {
    const logs = sweep(name);
    charts.push(...curves(name, logs));
    const [{ problems, copies, steps }] = logs.map((log) => log.arguments);
    parts.push(
      `### ${name[0].toUpperCase()}${name.slice(1)} task`,
      `${steps} steps of ${problems} problems × ${copies} completions.`,
      summaryTable(logs),
      `![Accuracy by steps](training-${name}-steps.svg)\n![Accuracy by generated tokens](training-${name}-tokens.svg)`,
    );
  }
  const tuned = sweeps.filter((each) => each.startsWith('tuning'));
  if (tuned.length > 0) {
    const logs = tuned.flatMap(sweep);
    const rates = [...new Set(logs.map((log) => log.arguments.rate))].sort((a, b) => a - b);
    const arms = [...new Set(logs.map((log) => log.arguments.arm))];
    const areaOf = (arm, rate) => {
      const runs = logs.filter((log) => log.arguments.arm === arm && log.arguments.rate === rate);
      return runs.length
        ? fixed(mean(runs.map(({ looks }) => mean(looks.slice(0, -1).map((look) => look.held_out)))))
        : '';
    };
    parts.push(
      '### Learning rates',
      `Mean of the looks at held-out problems, one run of ${logs[0].arguments.steps} steps with a seed that no other run has.`,
      `| arm | ${rates.join(' | ')} |\n| --- | ${rates.map(() => '---').join(' | ')} |\n${arms.map((arm) => `| ${arm} | ${rates.map((rate) => areaOf(arm, rate)).join(' | ')} |`).join('\n')}`,
    );
  }
  return { text: parts.filter(Boolean).join('\n\n'), charts };
}
