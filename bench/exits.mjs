// All exit points of a trace against a bare pass over it, and against re-encoding every prefix.
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openPolicyFolder } from '../dist/policy/folder.js';
import { PolicySession } from '../dist/policy/run/session.js';
import { mulberry32, randomPolicy, SMALL } from './checkpoint.mjs';
import { interleaved } from './measure.mjs';

const K = 40; // exit points
const A = 16; // tokens after each, of which the last SCORED are read out
const SCORED = 4;
const PROMPT = 64;

const lengths = process.argv[2].split(',').map(Number);
const rounds = Number(process.argv[3]);

const folder = await openPolicyFolder(await randomPolicy(join(tmpdir(), 'rredcot-bench-small'), SMALL));
const session = await PolicySession.open(folder);
const random = mulberry32(7);
const tokens = (n) => Int32Array.from({ length: n }, () => Math.floor(random() * SMALL.vocab_size));
const results = [];

for (const T of lengths) {
  const ids = tokens(T);
  const branches = Array.from({ length: K }, (_, k) => ({
    exit: PROMPT + Math.floor(((k + 1) * (T - PROMPT)) / K),
    ids: tokens(A),
    scoredFrom: A - SCORED,
  }));
  const trace = { ids, promptLength: PROMPT };
  const alternatives = {
    bare: () => session.run([{ ...trace, branches: [] }]),
    oneRun: () => session.run([{ ...trace, branches }]),
    async twoRuns() {
      await session.run([{ ...trace, branches: [] }], 1);
      await session.branches(1, [branches]);
      await session.release(1);
    },
  };
  const ms = await interleaved(alternatives, rounds);
  const bound = 1 + (K * A) / T;
  results.push({
    name: `all exits / bare pass, one run, T=${T}, relative to the bound ${bound.toFixed(3)}`,
    value: ms.oneRun / ms.bare / bound,
    unit: '×',
    reach: '<=1.05',
  });
  results.push({
    name: `all exits / bare pass, two runs, T=${T}, relative to the bound ${bound.toFixed(3)}`,
    value: ms.twoRuns / ms.bare / bound,
    unit: '×',
    reach: '<=1.08',
  });
  if (T === 4096) {
    const naive = async () => {
      for (const { exit, ids: continuation } of branches)
        await session.run([
          {
            ids: Int32Array.of(...ids.subarray(0, exit), ...continuation),
            promptLength: exit + A - SCORED,
            branches: [],
          },
        ]);
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
