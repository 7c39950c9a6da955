// The same job by a PyTorch script that encodes every prefix again, against ours: time, and that the numbers agree.
import { execFileSync, spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { openPolicyFolder } from '../dist/policy/folder.js';
import { PolicySession } from '../dist/policy/run/session.js';
import { mulberry32, randomPolicy, SMALL } from './checkpoint.mjs';
import { median } from './measure.mjs';

const [T, K, A, SCORED, PROMPT] = [2048, 40, 16, 4, 64];
const PYTHON = '/usr/bin/python3';

if (spawnSync(PYTHON, ['-c', 'import torch']).status !== 0) {
  process.stderr.write(
    'no PyTorch here (Debian: apt-get install python3-torch libopenblas0-pthread): left out\n',
  );
  console.log('[]');
  process.exit(0);
}
const folder = await randomPolicy(join(tmpdir(), 'rredcot-bench-small'), SMALL);
const random = mulberry32(11);
const tokens = (n) => Array.from({ length: n }, () => Math.floor(random() * SMALL.vocab_size));
const branches = Array.from({ length: K }, (_, k) => ({
  exit: PROMPT + Math.floor(((k + 1) * (T - PROMPT)) / K),
  ids: tokens(A),
  scoredFrom: A - SCORED,
}));
const job = { ids: tokens(T), promptLength: PROMPT, branches };
const jobFile = join(tmpdir(), 'rredcot-bench-job.json');
await writeFile(jobFile, JSON.stringify(job));

const script = fileURLToPath(new URL('pytorch.py', import.meta.url));
// two threads are not always faster than one: the better of both counts
const theirs = ['1', '2']
  .map((threads) =>
    JSON.parse(execFileSync(PYTHON, [script, folder, jobFile, threads], { encoding: 'utf8' })),
  )
  .sort((a, b) => a.seconds - b.seconds)[0];

const session = await PolicySession.open(await openPolicyFolder(folder));
const trace = {
  ids: Int32Array.from(job.ids),
  promptLength: PROMPT,
  branches: branches.map((branch) => ({ ...branch, ids: Int32Array.from(branch.ids) })),
};
const times = [];
let scores;
for (let i = 0; i < 6; i++) {
  const start = performance.now();
  [scores] = await session.run([trace]);
  if (i > 0) times.push((performance.now() - start) / 1000);
}
await session.close();
const sum = (values) => values.reduce((a, b) => a + b, 0);
const difference = Math.max(...scores.branches.map((lp, i) => Math.abs(sum(lp) - theirs.logprobs[i])));
console.log(
  JSON.stringify([
    {
      name: 'PyTorch, 40 prefixes encoded again / ours, T=2048',
      value: theirs.seconds / median(times),
      unit: '×',
      reach: '>=15',
    },
    {
      name: 'largest difference to PyTorch, summed log p of 4 tokens',
      value: difference,
      unit: 'nats',
      reach: '<=0.001',
    },
  ]),
);
