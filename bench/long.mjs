// The largest trace that must fit: T = 25,000, 40 exit points, a vocabulary of 151,936, by peak memory.
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openPolicyFolder } from '../dist/policy/folder.js';
import { PolicySession } from '../dist/policy/run/session.js';
import { mulberry32, randomPolicy, SMALL } from './checkpoint.mjs';

const [T, K, A, SCORED, PROMPT] = [25_000, 40, 16, 4, 64];
const shape = { ...SMALL, vocab_size: 151_936 };
const session = await PolicySession.open(
  await openPolicyFolder(await randomPolicy(join(tmpdir(), 'rredcot-bench-wide'), shape)),
);
const random = mulberry32(13);
const tokens = (n) => Int32Array.from({ length: n }, () => Math.floor(random() * shape.vocab_size));
const branches = Array.from({ length: K }, (_, k) => ({
  exit: PROMPT + Math.floor(((k + 1) * (T - PROMPT)) / K),
  ids: tokens(A),
  scoredFrom: A - SCORED,
}));
const start = performance.now();
await session.run([{ ids: tokens(T), promptLength: PROMPT, branches }]);
const seconds = (performance.now() - start) / 1000;
await session.close();
console.log(
  JSON.stringify([
    {
      name: 'peak RSS, T=25,000, 40 exits, V=151,936',
      value: process.resourceUsage().maxRSS / 1024,
      unit: 'MiB',
      reach: '<=1500',
    },
    { name: 'time, T=25,000, 40 exits, V=151,936', value: seconds, unit: 's' },
  ]),
);
