// Opens a graph of a folder in ONNX Runtime on a device, and runs those graphs that take one sequence after another.
import { join } from 'node:path';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { ownCores } from '../../cores.js';
import { trunkAttentionNodes } from '../build/attention.js';
import { type RopeTables, type Rotary, ropeTables } from '../build/rope.js';
import { type Device, deviceName } from '../device.js';
import { placementCheck } from '../placement.js';
import type { ReadSteps, Sequence } from './sequence.js';

/** Inputs or outputs of a graph by name. */
export type Feeds = Record<string, Tensor>;
/** Rotary tables of at least so many positions. */
export type RopeFor = (positions: number) => RopeTables;

/**
 * Opens a session.
 * @param tinyRun of the session, on a device whose placement is checked
 * @param attentionOnCpu layers whose attention over traces runs on the CPU (WebGPU alone knows this option): all of them or none
 */
export async function openGraph(
  folder: string,
  file: string,
  device: Device,
  tinyRun: (made: InferenceSession) => Promise<void>,
  attentionOnCpu = 0,
): Promise<InferenceSession> {
  const placement = device.name === 'cuda' ? placementCheck(deviceName(device)) : undefined;
  const made = await InferenceSession.create(join(folder, file), {
    executionProviders: [providerOf(device, attentionOnCpu)],
    graphOptimizationLevel: 'all',
    intraOpNumThreads: ownCores(),
    // idle threads that spin take the cores from whatever runs beside: measured seven times slower on a busy machine
    extra: { session: { intra_op: { allow_spinning: '0' } } },
    // warnings about unused initialisers and the like are nobody's business on stderr
    logSeverityLevel: 3,
    ...placement?.options(file),
  });
  await placement?.verify([made], () => tinyRun(made));
  return made;
}

function providerOf(device: Device, attentionOnCpu: number): InferenceSession.ExecutionProviderConfig {
  if (device.name !== 'webgpu' || attentionOnCpu === 0) return device;
  return { ...device, forceCpuNodeNames: trunkAttentionNodes(attentionOnCpu) };
}

// ------ what graphs take and give

/** Makes cos and sin tables long enough for a number of positions; grown by doubling so that few lengths occur. */
export function growingRope(arch: Rotary): RopeFor {
  let rope = ropeTables(arch, 1024);
  return (positions) => {
    let length = rope.positions;
    while (length < positions) length *= 2;
    if (length > rope.positions) rope = ropeTables(arch, length);
    return rope;
  };
}

/** The tables as a graph's inputs. */
export function ropeFeeds({ positions, cos, sin }: RopeTables): Feeds {
  const dims = [positions, cos.length / positions];
  return { cos: new Tensor('float32', cos, dims), sin: new Tensor('float32', sin, dims) };
}

export function int64(data: BigInt64Array, dims: readonly number[] = [data.length]): Tensor {
  return new Tensor('int64', data, dims);
}

/** Sequences padded at their ends to the longest, S at least: causal rows before it never see that. @returns [B,S] */
export function paddedIds(sequences: readonly Int32Array[]): Tensor {
  const S = sequences.reduce((most, { length }) => Math.max(most, length), 1);
  const ids = new BigInt64Array(sequences.length * S);
  for (const [b, own] of sequences.entries())
    for (let t = 0; t < own.length; t++) ids[b * S + t] = BigInt(own[t] as number);
  return int64(ids, [sequences.length, S]);
}

/** The first `length` values of a graph output, in a buffer of their own. */
export function floats(tensor: Tensor | undefined, length: number): Float32Array {
  return (tensor as Tensor).data.slice(0, length) as Float32Array;
}

/** Names of every layer's keys and values. @param part how those begin of which there are several kinds */
export function cacheNames(layers: number, part = ''): string[] {
  return Array.from({ length: layers }, (_, i) => [`${part}k_${i}`, `${part}v_${i}`]).flat();
}

// ------ graphs that judge and attribute

/** P(right) of all rows, one sequence after the other. */
export async function runJudging(
  session: InferenceSession,
  sequences: readonly ReadSteps[],
  ropeFor: RopeFor,
): Promise<Float32Array> {
  const ids = paddedIds(sequences.map((sequence) => sequence.ids));
  const S = ids.dims[1] as number;
  const rows = sequences.flatMap((sequence, b) => Array.from(sequence.rows, (row) => BigInt(b * S + row)));
  const feeds = { ids, rows: int64(BigInt64Array.from(rows)), ...ropeFeeds(ropeFor(S)) };
  return floats((await session.run(feeds, ['correct'])).correct, rows.length);
}

/** A number for each token of a trace with its references. @returns (S) */
export async function runAttribution(
  session: InferenceSession,
  { weights, ...sequence }: Sequence,
  ropeFor: RopeFor,
): Promise<Float32Array> {
  const lists = Object.entries(sequence).map(
    ([name, values]) => [name, int64(BigInt64Array.from(values, BigInt))] as const,
  );
  const feeds: Feeds = {
    ...Object.fromEntries(lists),
    weights: new Tensor('float32', weights, [weights.length]),
    ...ropeFeeds(ropeFor(1 + sequence.pos.reduce((most, p) => Math.max(most, p), 0))),
  };
  const given = Object.fromEntries(session.inputNames.map((name) => [name, feeds[name] as Tensor]));
  const out = await session.run(given);
  return floats(out[session.outputNames[0] as string], sequence.ids.length);
}
