// `npm run bench -- --device cuda:0`: what scoring reaches on a device, as a block to paste into an issue: the canary, tokens a
// second, share of what a matrix product reaches there in the same type, and what keys and values cost on their way through the host.
// With `--quick` a small shape, which any device can hold.
import { mkdtemp, rm, statfs, writeFile } from 'node:fs/promises';
import { arch, cpus, platform, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { OutOfMemoryError, RredcotError } from '../dist/errors.js';
import { cast, Graph, serialiseModel } from '../dist/model/graph/onnx.js';
import { beyond, describeFinding } from '../dist/model/onnx/canary.js';
import { findCuda, parseDevice, resolveDevice } from '../dist/model/onnx/device.js';
import { openPolicyFolder } from '../dist/model/onnx/folder.js';
import { ModelSession } from '../dist/model/onnx/session.js';
import {
  EIGHT_B,
  inTwoRuns,
  JOB,
  ONE_AND_A_HALF_B,
  randomPolicy,
  SMALL,
  tokensOf,
  traceOf,
  weightsOf,
} from './checkpoint.mjs';
import { median, products } from './measure.mjs';

const ROUNDS = 3;
const [asked, isQuick] = [process.argv[2], process.argv.includes('--quick')];
const CASES = isQuick
  ? [{ name: '4 layers of 256', shape: SMALL, lengths: [512, 1024] }]
  : [
      { name: '1.5 B (Qwen2.5)', shape: ONE_AND_A_HALF_B, lengths: [2048, 8192, 25_000] },
      { name: '8 B (Llama 3.1)', shape: EIGHT_B, lengths: [2048, 8192, 25_000] },
    ];

const scratch = await mkdtemp(join(tmpdir(), 'rredcot-bench-device-'));
const blocks = [];
try {
  // before minutes of weights are written
  await resolveDevice(parseDevice(asked));
  for (const each of CASES) blocks.push(...(await measured(each)));
} catch (error) {
  if (!(error instanceof RredcotError)) throw error;
  process.stderr.write(`${error.message}\nfix it: ${error.hint}\n`);
  process.exitCode = error.exitCode;
} finally {
  await rm(scratch, { recursive: true, force: true });
}
if (blocks.length > 0) {
  const gpus = asked.startsWith('cuda') ? (await findCuda()).gpus.join(', ') : cpus()[0].model;
  const { default: packages } = await import('../package.json', { with: { type: 'json' } });
  const head = [
    `rredcot ${packages.version} bench --device ${asked}: ${gpus}`,
    `onnxruntime-node ${packages.dependencies['onnxruntime-node']}, Node ${process.version}, ${platform()} ${arch()}`,
    `${JOB.K} exits of ${JOB.A} tokens behind a prompt of ${JOB.prompt}; random weights; median of ${ROUNDS}`,
  ];
  console.log(['```', ...head, ...blocks, '```'].join('\n'));
}

/** Lines on one shape. */
async function measured({ name, shape, lengths }) {
  const short = await shortOf(shape);
  if (short !== undefined) return [`${name}: left out, ${short}`];
  process.stderr.write(`${name}: writing random weights, and the canary on the CPU\n`);
  const path = join(scratch, 'policy');
  const dtype = asked.startsWith('cuda') ? 'BF16' : 'F32';
  const folder = await openPolicyFolder(await randomPolicy(path, shape, dtype));
  const device = await resolveDevice(parseDevice(asked));
  const precision = device.name === 'cuda' ? folder.cuda.precision : 'f32';
  process.stderr.write(`${name}: opening it on ${asked}\n`);
  const session = await ModelSession.openUnproved(folder, device);
  const lines = [];
  try {
    const { findings } = await session.prove();
    const verdict = beyond(findings).length === 0 ? 'within its bounds' : 'BEYOND ITS BOUNDS';
    lines.push(`${name}, ${precision}; canary ${verdict}:`);
    lines.push(...findings.map((finding) => `  ${describeFinding(finding)}`));
    const peak = await peakOf(device, precision);
    lines.push(`  a matrix product: ${(peak / 1e12).toFixed(2)} TFLOP/s`);
    for (const T of lengths) lines.push(await lengthLine(session, shape, T, peak));
    lines.push(await shortLine(session, shape));
  } finally {
    await session.close();
    await rm(path, { recursive: true, force: true });
  }
  return lines;
}

/** What this machine lacks for a shape; undefined where it lacks nothing. */
async function shortOf(shape) {
  const parameters = [...weightsOf(shape).values()].reduce(
    (sum, sizes) => sum + sizes.reduce((a, b) => a * b, 1),
    0,
  );
  const GiB = 2 ** 30;
  // the canary is computed in float32 on the CPU
  const [memory, disk] = [(4.5 * parameters) / GiB, (4 * parameters) / GiB];
  const { bavail, bsize } = await statfs(scratch);
  if (totalmem() / GiB < memory) return `it needs ${memory.toFixed(0)} GiB of memory for the canary`;
  if ((bavail * bsize) / GiB < disk) return `it needs ${disk.toFixed(0)} GiB in ${scratch}`;
}

async function lengthLine(session, shape, T, peak) {
  process.stderr.write(`T = ${T}\n`);
  const trace = traceOf(T, tokensOf(shape.vocab_size, 5));
  const oneRun = () => session.run([trace]);
  const twoRuns = () => inTwoRuns(session, trace);
  try {
    const [one, two] = [await secondsOf(oneRun), await secondsOf(twoRuns)];
    const share = products(shape, { ...JOB, T }) / one / peak;
    return [
      `  T = ${T}: ${((T + JOB.K * JOB.A) / one).toFixed(0)} tokens/s (${(one * 1e3).toFixed(0)} ms)`,
      `${(100 * share).toFixed(0)} % of the product's`,
      `two runs, keys and values through the host: ${((100 * (two - one)) / two).toFixed(0)} % of their time`,
    ].join('; ');
  } catch (error) {
    if (!(error instanceof OutOfMemoryError)) throw error;
    return `  T = ${T}: out of memory`;
  }
}

/** Short traces stand lanes in the groups of their branches: what that makes of 16 in one run, beside each alone. */
async function shortLine(session, shape) {
  const tokens = tokensOf(shape.vocab_size, 7);
  const job = { ...JOB, K: 8, A: 12 };
  const traces = Array.from({ length: 16 }, () => traceOf(200, tokens, job));
  const together = await secondsOf(() => session.run(traces));
  const alone = await secondsOf(async () => {
    for (const trace of traces) await session.run([trace]);
  });
  const rate = (traces.length * (200 + job.K * job.A)) / together;
  return `  16 traces of 200 tokens, 8 exits: ${rate.toFixed(0)} tokens/s; one by one ${(alone / together).toFixed(2)} times as long`;
}

async function secondsOf(run) {
  await run();
  const times = [];
  for (let round = 0; round < ROUNDS; round++) {
    const start = performance.now();
    await run();
    times.push((performance.now() - start) / 1e3);
  }
  return median(times);
}

/** FLOP a second of products of square matrices, one after another, of which none leaves the device. */
async function peakOf(device, precision) {
  const n = device.name === 'cuda' ? 8192 : 1024;
  const count = 8;
  const g = new Graph('peak');
  // every entry is 1/n, so that a product is again of such entries
  const filled = cast(g, g.node('Expand', [g.input('x', 'f32', [1]), g.ints([n, n])]), 'f32', precision);
  let product = filled;
  for (let i = 0; i < count; i++) product = g.node('MatMul', [product, filled]);
  const row = g.node('Slice', [product, g.ints([0]), g.ints([1]), g.ints([0])]);
  g.output('row', cast(g, row, precision, 'f32'), 'f32', [1, n]);
  const file = join(scratch, 'peak.onnx');
  await writeFile(file, serialiseModel(g));
  const session = await InferenceSession.create(file, { executionProviders: [device], logSeverityLevel: 3 });
  const feeds = { x: new Tensor('float32', Float32Array.of(1 / n), [1]) };
  const seconds = await secondsOf(() => session.run(feeds));
  await session.release();
  return (count * 2 * n ** 3) / seconds;
}
