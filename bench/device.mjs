// `npm run bench -- --device cuda:0`: what scoring reaches on a device, line by line as it is measured, small policies before large ones:
// the canary, tokens a second, share of what a matrix product reaches there in the same type, memory, and what keys and values cost on
// their way through the host. Beside it PyTorch, in turn, where RREDCOT_PYTHON names a Python that has it. With `--quick` a small shape.
import { spawnSync } from 'node:child_process';
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
  EMBEDDED,
  HALF_B,
  inTwoRuns,
  JOB,
  ONE_AND_A_HALF_B,
  randomGraphs,
  SMALL,
  tokensOf,
  traceOf,
  weightsOf,
} from './checkpoint.mjs';
import { median, products } from './measure.mjs';
import { fusedOn, PYTHON } from './pytorch.mjs';

const ROUNDS = 3;
const [asked, isQuick] = [process.argv[2], process.argv.includes('--quick')];
/** PyTorch reads a trace of the second length. */
const CASES = isQuick
  ? [{ name: '4 layers of 256', shape: SMALL, lengths: [512, 1024] }]
  : [
      { name: '0.5 B (Qwen2.5)', shape: HALF_B, lengths: [2048, 8192] },
      { name: '1.5 B (Qwen2.5)', shape: ONE_AND_A_HALF_B, lengths: [2048, 8192, 25_000] },
      { name: '8 B (Llama 3.1)', shape: EIGHT_B, lengths: [2048, 8192, 25_000] },
    ];

const scratch = await mkdtemp(join(tmpdir(), 'rredcot-bench-device-'));
try {
  const device = await resolveDevice(parseDevice(asked));
  const gpu = device.name === 'cuda' ? (await findCuda()).gpus[device.deviceId] : undefined;
  const { default: packages } = await import('../package.json', { with: { type: 'json' } });
  const runtime = packages.dependencies['onnxruntime-node'];
  say(`rredcot ${packages.version} bench --device ${asked}: ${gpu ?? cpus()[0].model}`);
  say(`onnxruntime-node ${runtime}, Node ${process.version}, ${platform()} ${arch()}`);
  say(
    `${JOB.K} exits of ${JOB.A} tokens behind a prompt of ${JOB.prompt}; random weights; median of ${ROUNDS}`,
  );
  await canary(device);
  const precision = device.name === 'cuda' ? 'bf16' : 'f32';
  const peak = await peakOf(device, precision);
  say(`a matrix product, ${precision}: ${(peak / 1e12).toFixed(2)} TFLOP/s`);
  for (const each of CASES) await measured(each, device, peak);
} catch (error) {
  if (!(error instanceof RredcotError)) throw error;
  process.stderr.write(`${error.message}\nfix it: ${error.hint}\n`);
  process.exitCode = error.exitCode;
} finally {
  await rm(scratch, { recursive: true, force: true });
}

/** A line, and when it came. */
function say(line) {
  console.log(`${(performance.now() / 1e3).toFixed(0).padStart(4)} s  ${line}`);
}

/** Whether the device computes what the CPU does, by the embedded policy. */
async function canary(device) {
  const session = await ModelSession.openUnproved(await openPolicyFolder(EMBEDDED), device);
  const { findings } = await session.prove().finally(() => session.close());
  say(`canary ${beyond(findings).length === 0 ? 'within its bounds' : 'BEYOND ITS BOUNDS'}:`);
  for (const finding of findings) say(`  ${describeFinding(finding)}`);
}

/** What is measured of one shape. */
async function measured({ name, shape, lengths }, device, peak) {
  const dtype = device.name === 'cuda' ? 'BF16' : 'F32';
  const short = await shortOf(shape, dtype);
  if (short !== undefined) return say(`${name}: left out, ${short}`);
  const path = join(scratch, 'policy');
  const policy = await randomGraphs(path, shape, dtype);
  const session = await ModelSession.openUnproved(policy, device);
  say(`${name}: open`);
  try {
    for (const [n, T] of lengths.entries()) {
      await lengthLine(session, shape, T, peak);
      if (n === 1) await pytorchLine(path, shape, T, peak);
    }
    await shortLine(session, shape);
    say(`  memory, the most so far: ${memoryOf(device)} MiB`);
  } catch (error) {
    if (!(error instanceof OutOfMemoryError)) throw error;
    say('  out of memory');
  } finally {
    await session.close();
    await rm(path, { recursive: true, force: true });
  }
}

/** What this machine lacks for a shape; undefined where it lacks nothing. */
async function shortOf(shape, dtype) {
  const sizes = [...weightsOf(shape).values()].map((size) => size.reduce((a, b) => a * b, 1));
  const needed = ((dtype === 'F32' ? 4 : 2) * sizes.reduce((a, b) => a + b, 0)) / 2 ** 30;
  const { bavail, bsize } = await statfs(scratch);
  if (dtype === 'F32' && totalmem() / 2 ** 30 < 2 * needed)
    return `it needs ${(2 * needed).toFixed(0)} GiB of memory`;
  if ((bavail * bsize) / 2 ** 30 < needed) return `it needs ${needed.toFixed(0)} GiB in ${scratch}`;
}

/** On a GPU what is taken of it, by whomever. */
function memoryOf(device) {
  if (device.name === 'cpu') return (process.resourceUsage().maxRSS / 1024).toFixed(0);
  const query = ['--query-gpu=memory.used', '--format=csv,noheader,nounits', `--id=${device.deviceId}`];
  return spawnSync('nvidia-smi', query, { encoding: 'utf8' }).stdout?.trim() ?? 'unknown';
}

async function lengthLine(session, shape, T, peak) {
  const trace = traceOf(T, tokensOf(shape.vocab_size, 5));
  const one = await secondsOf(() => session.run([trace]));
  say(`  T = ${T}: ${rateOf(shape, T, one, peak)}`);
  const two = await secondsOf(() => inTwoRuns(session, trace));
  say(
    `    two runs, keys and values through the host: ${((100 * (two - one)) / two).toFixed(0)} % of their time`,
  );
}

function rateOf(shape, T, seconds, peak) {
  const share = products(shape, { ...JOB, T }) / seconds / peak;
  const rate = ((T + JOB.K * JOB.A) / seconds).toFixed(0);
  return `${rate} tokens/s (${(seconds * 1e3).toFixed(0)} ms); ${(100 * share).toFixed(0)} % of the product's`;
}

/** The same by PyTorch: trace and branches in one masked pass, fused attention. */
async function pytorchLine(path, shape, T, peak) {
  if (PYTHON === undefined)
    return say('    PyTorch: not compared, RREDCOT_PYTHON names no Python that has it');
  const job = traceOf(T, tokensOf(shape.vocab_size, 5));
  const found = await fusedOn(asked, path, job, join(scratch, 'job.json'), ROUNDS).catch(
    ({ message }) => message,
  );
  say(
    `    PyTorch: ${typeof found === 'string' ? found.split('\n').at(-2) : rateOf(shape, T, found.seconds, peak)}`,
  );
}

/** Short traces stand side by side in a run: what that makes of 16, beside each alone. */
async function shortLine(session, shape) {
  const tokens = tokensOf(shape.vocab_size, 7);
  const job = { ...JOB, K: 8, A: 12 };
  const traces = Array.from({ length: 16 }, () => traceOf(200, tokens, job));
  const together = await secondsOf(() => session.run(traces));
  const alone = await secondsOf(async () => {
    for (const trace of traces) await session.run([trace]);
  });
  const rate = (traces.length * (200 + job.K * job.A)) / together;
  const times = (alone / together).toFixed(2);
  say(`  16 traces of 200 tokens, 8 exits: ${rate.toFixed(0)} tokens/s; one by one ${times} times as long`);
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
