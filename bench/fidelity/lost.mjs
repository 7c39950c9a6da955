// `node bench/fidelity/lost.mjs <policy> <mc>.jsonl`: of the completions of a run with --keep-samples that a limit of new tokens loses, how many are right, and of the others; lines of docs/fidelity/choices.csv.

import { meanOf } from '../../dist/compare/bench.js';
import { withIntervals } from '../../dist/compare/bootstrap.js';
import { readLines } from './program.mjs';

const [policy, path] = process.argv.slice(2);
const rows = readLines(path);
const groups = [...new Set(rows.map(({ group }) => group))];
const samples = rows.flatMap(({ group, samples: own }) => own.map((sample) => ({ ...sample, group })));
const numbers = Int32Array.from(samples, ({ group }) => groups.indexOf(group));
for (const limit of [16, 32, 64, 128])
  for (const isLost of [true, false]) {
    const rewards = samples.map(({ completion_ids: ids, utility }) =>
      ids.length > limit === isLost ? (utility ?? 0) : Number.NaN,
    );
    const count = rewards.filter((x) => !Number.isNaN(x)).length;
    if (count < 30) continue;
    const [found] = withIntervals([meanOf(Float64Array.from(rewards))], numbers, {
      resamples: 1000,
      seed: 0,
    });
    const told = [found.value, found.low, found.high].map((x) => Number(x.toFixed(3)));
    console.log(
      `truncated,${policy},${rows.length},"${isLost ? 'longer than' : 'at most'} ${limit} tokens, ${count} of ${samples.length}",right,${told}`,
    );
  }
