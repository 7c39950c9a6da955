// Opens a graph of a folder in ONNX Runtime on a device, and on CUDA alone where its heavy nodes run there; runs those graphs that take one sequence after another.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { ownCores } from '../../cores.js';
import { trunkAttentionNodes } from '../graph/attention.js';
import { type RopeTables, type Rotary, ropeTables } from '../graph/rope.js';
import { type Device, deviceName } from './device.js';
import type { ReadSteps, Sequence } from './placed.js';

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

// ------ where the heavy nodes of a CUDA session run: ONNX Runtime puts them on the CPU without a word

/** A node of a graph that ran, and the execution provider that ran it. */
interface PlacedNode {
  readonly name: string;
  readonly op: string;
  readonly provider: string;
}

/** Where nearly all of a pass's work is; shape arithmetic may well stay on the CPU. */
const HEAVY = new Set([
  ...['Gemm', 'MatMul', 'FusedGemm', 'FusedMatMul', 'MatMulNBits', 'Softmax', 'LogSoftmax'],
  ...['GroupQueryAttention', 'MultiHeadAttention', 'Attention'],
]);
const NAMED_AT_MOST = 3;

/** The heavy nodes in a profile that ONNX Runtime wrote (a JSON list of events), each once. */
export function heavyNodes(profile: string): PlacedNode[] {
  const events = JSON.parse(profile) as readonly {
    cat?: string;
    name?: string;
    args?: { op_name?: string; provider?: string };
  }[];
  const nodes = new Map<string, PlacedNode>();
  for (const { cat, name, args } of events)
    if (cat === 'Node' && name?.endsWith('_kernel_time') && args?.provider && HEAVY.has(args.op_name ?? '')) {
      const node = { name: name.replace(/_kernel_time$/, ''), op: args.op_name as string };
      nodes.set(`${node.name} ${args.provider}`, { ...node, provider: args.provider });
    }
  return [...nodes.values()];
}

/** What is wrong with where the heavy nodes ran, by name; undefined where all of them ran on the device. */
export function placementFault(nodes: readonly PlacedNode[], device: string): string | undefined {
  // a profile without heavy nodes proves nothing, and must not pass for a good one
  if (nodes.length === 0) return `the profile of a run on ${device} names no heavy node: placement unknown`;
  const onCpu = nodes.filter(({ provider }) => provider === 'CPUExecutionProvider');
  if (onCpu.length === 0) return undefined;
  const kinds = [...new Set(onCpu.map(({ op }) => op))].map((op) => {
    const names = onCpu.filter((node) => node.op === op).map(({ name }) => name);
    const more = names.length > NAMED_AT_MOST ? `, and ${names.length - NAMED_AT_MOST} more` : '';
    return `${op} (${names.slice(0, NAMED_AT_MOST).join(', ')}${more})`;
  });
  return `${onCpu.length} of ${nodes.length} heavy nodes run on the CPU instead of ${device}: ${kinds.join('; ')}`;
}

/** One profiled run of a set of sessions, taken right after they are opened. @param device as it is named to people, e.g. cuda:0 */
export function placementCheck(device: string) {
  const folder = mkdtempSync(join(tmpdir(), 'rredcot-placement-'));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  process.once('exit', remove); // a session that cannot be opened never gets to verify()
  return {
    /** session options that turn the profile on; `graph` keeps the sessions' files apart */
    options: (graph: string) => ({ enableProfiling: true, profileFilePrefix: join(folder, graph) }),
    /**
     * Runs `tinyRun`, ends the profiles and reads where the nodes ran.
     * @throws Error naming heavy nodes that ran on the CPU
     */
    async verify(sessions: readonly InferenceSession[], tinyRun: () => Promise<void>): Promise<void> {
      try {
        // nodes that are out of place are the better message where they are also why the run fails
        const failure = await tinyRun().catch((error: unknown) => error ?? new Error('the first run failed'));
        for (const session of sessions) session.endProfiling();
        const profiles = readdirSync(folder).map((name) => readFileSync(join(folder, name), 'utf8'));
        const nodes = profiles.flatMap(heavyNodes);
        const missing = sessions.length - profiles.length;
        const fault = placementFault(nodes, device);
        if (failure !== undefined && (nodes.length === 0 || fault === undefined)) throw failure;
        if (fault !== undefined) throw new Error(fault);
        if (missing > 0)
          throw new Error(`${missing} profiles of a run on ${device} are missing: placement unknown`);
      } finally {
        remove();
        process.removeListener('exit', remove);
      }
    },
  };
}
