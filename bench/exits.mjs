// All exit points of a trace against a bare pass over it, and against re-encoding every prefix.
import { inTwoRuns, JOB, openRandom, SMALL, tokensOf, traceOf } from './checkpoint.mjs';
import { interleaved } from './measure.mjs';

const { K, A, scored } = JOB;
const lengths = process.argv[2].split(',').map(Number);
const rounds = Number(process.argv[3]);

const session = await openRandom('small');
const tokens = tokensOf(SMALL.vocab_size, 7);
const results = [];

for (const T of lengths) {
  const trace = traceOf(T, tokens);
  const alternatives = {
    bare: () => session.run([{ ...trace, branches: [] }]),
    oneRun: () => session.run([trace]),
    twoRuns: () => inTwoRuns(session, trace),
  };
  const ms = await interleaved(alternatives, rounds);
  const bound = 1 + (K * A) / T;
  for (const [way, reach] of [
    ['one run', '<=1.05'],
    ['two runs', '<=1.08'],
  ]) {
    const value = (way === 'one run' ? ms.oneRun : ms.twoRuns) / ms.bare / bound;
    const name = `all exits / bare pass, ${way}, T=${T}, relative to the bound ${bound.toFixed(3)}`;
    results.push({ name, value, unit: '×', reach });
  }
  if (T === 4096) {
    const naive = async () => {
      for (const { exit, ids } of trace.branches) {
        const prefix = Int32Array.of(...trace.ids.subarray(0, exit), ...ids);
        await session.run([{ ids: prefix, promptLength: exit + A - scored, branches: [] }]);
      }
    };
    const both = await interleaved(
      { naive, oneRun: alternatives.oneRun },
      Math.max(1, Math.floor(rounds / 3)),
    );
    results.push({
      name: 'naive re-encoding of 40 prefixes / ours, T=4096',
      value: both.naive / both.oneRun,
      unit: '×',
      reach: '>=9',
    });
  }
}
await session.close();
console.log(JSON.stringify(results));
