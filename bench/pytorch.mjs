// The same job in PyTorch, by a throwaway script and by good code, against ours: processor time on one thread each, and that the
// numbers agree. One thread, since what a machine does besides falls on threads that wait for each other more than on one.
import { execFileSync, spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { openPolicyFolder } from '../dist/model/onnx/folder.js';
import { ModelSession } from '../dist/model/onnx/session.js';
import { CORES_VARIABLE } from '../dist/thread.js';
import { HALF_B, JOB, randomPolicy, SMALL, tokensOf, traceOf } from './checkpoint.mjs';
import { products } from './measure.mjs';

/** Attention in one piece is PyTorch 2's; Debian's may be older. */
export const PYTHON = [process.env.RREDCOT_PYTHON, 'python3', '/usr/bin/python3']
  .filter(Boolean)
  .find((name) => spawnSync(name, ['-c', 'import torch']).status === 0);
const SCRIPT = fileURLToPath(new URL('pytorch.py', import.meta.url));
const ROUNDS = 3;
const SHAPES = [
  {
    name: '4 layers of 256, T=2048',
    folder: 'rredcot-bench-small',
    shape: SMALL,
    T: 2048,
    ways: ['prefixes', 'fused'],
  },
  { name: '4 layers of 256, T=4096', folder: 'rredcot-bench-small', shape: SMALL, T: 4096, ways: ['fused'] },
  {
    name: 'shape of Qwen2.5-0.5B, T=1024',
    folder: 'rredcot-bench-half-b',
    shape: HALF_B,
    T: 1024,
    ways: ['fused'],
  },
];
const TITLES = {
  prefixes: 'PyTorch, 40 prefixes encoded again',
  fused: 'PyTorch, one masked pass, fused attention',
};
const REACH = { prefixes: '>=15', fused: '>=1.3' };

/** @param isQuick the first shape alone @returns nothing without PyTorch, which is told */
export async function pytorch(isQuick) {
  if (PYTHON === undefined) {
    console.error('no Python with PyTorch here\n  try: apt-get install python3-torch libopenblas0-pthread');
    return [];
  }
  process.env[CORES_VARIABLE] = '1';
  const results = [];
  for (const each of isQuick ? SHAPES.slice(0, 1) : SHAPES) results.push(...(await measured(each)));
  return results;
}

async function measured({ name, folder: base, shape, T, ways }) {
  const folder = await randomPolicy(join(tmpdir(), base), shape);
  const job = traceOf(T, tokensOf(shape.vocab_size, 11));
  const jobFile = join(tmpdir(), 'rredcot-bench-job.json');
  await writeJob(jobFile, job);
  const ours = await scored(folder, job);
  const rows = [];
  for (const way of ways) {
    const rounds = way === 'prefixes' ? 1 : ROUNDS;
    const printed = execFileSync(PYTHON, [SCRIPT, way, folder, jobFile, '1', `${rounds}`], {
      encoding: 'utf8',
    });
    const theirs = JSON.parse(printed);
    const title = `${TITLES[way]} / ours, ${name}`;
    const farthest = Math.max(...ours.sums.map((lp, i) => Math.abs(lp - theirs.logprobs[i])));
    rows.push({ name: title, value: theirs.processor / ours.seconds, unit: 'x', reach: REACH[way] });
    rows.push({
      name: `largest difference, summed log p of ${JOB.scored} tokens`,
      value: farthest,
      unit: 'nats',
      reach: '<=0.001',
    });
    if (way !== 'fused') continue;
    const work = products(shape, { ...JOB, T }) / theirs.peak;
    rows.push({
      name: `our share of a matrix product's peak, ${name}`,
      value: work / ours.seconds,
      unit: '',
    });
    rows.push({ name: `PyTorch's share of it, ${name}`, value: work / theirs.processor, unit: '' });
  }
  return rows;
}

async function writeJob(file, job) {
  await writeFile(
    file,
    JSON.stringify(job, (_, ids) => (ArrayBuffer.isView(ids) ? [...ids] : ids)),
  );
}

/** One masked pass on a device, in the type of the weights: what the script prints. @param device as ours is named */
export async function fusedOn(device, folder, job, jobFile, rounds) {
  await writeJob(jobFile, job);
  const args = [SCRIPT, 'fused', folder, jobFile, `${availableParallelism()}`, `${rounds}`, device];
  return JSON.parse(execFileSync(PYTHON, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }));
}

/** Least processor time of `ROUNDS` runs after one that warms up. */
async function scored(folder, trace) {
  const session = await ModelSession.open(await openPolicyFolder(folder));
  let seconds = Number.POSITIVE_INFINITY;
  let sums;
  for (let round = 0; round <= ROUNDS; round++) {
    const before = process.cpuUsage();
    const [scores] = await session.run([trace]);
    const { user, system } = process.cpuUsage(before);
    if (round > 0) seconds = Math.min(seconds, (user + system) / 1e6);
    sums = scores.branches.map((lp) => lp.reduce((a, b) => a + b, 0));
  }
  await session.close();
  return { seconds, sums };
}
