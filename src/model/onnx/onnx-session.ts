// Opens a graph of a folder in ONNX Runtime on a device, and on CUDA alone where its heavy nodes run there.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { ownCores } from '../../cores.js';
import { type RopeTables, type Rotary, ropeTables } from '../graph/rope.js';
import { type Device, deviceName } from './device.js';
import type { PrefixPlace } from './placed.js';

/** Inputs or outputs of a graph by name. */
export type Feeds = Record<string, Tensor>;
/** What a run has kept, under the names of the graph's past inputs. */
export interface Kept {
  /** keys and values of every layer: the prefixes' [B,kvHeads,T,headDim], the suffixes' [N,kvHeads,L,headDim] */
  readonly prefixes: Feeds;
  readonly suffixes: Feeds;
  /** of each trace */
  readonly places: readonly PrefixPlace[];
}

/** Rotary tables of at least so many positions. */
export type RopeFor = (positions: number) => RopeTables;

/**
 * Opens a session.
 * @param tinyRun of the session, on a device whose placement is checked
 */
export async function openGraph(
  folder: string,
  file: string,
  device: Device,
  tinyRun: (made: InferenceSession) => Promise<void>,
): Promise<InferenceSession> {
  const placement = device.name === 'cuda' ? placementCheck(deviceName(device)) : undefined;
  const made = await InferenceSession.create(join(folder, file), {
    executionProviders: [device],
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

/** The first `length` values of a graph output, in a buffer of their own. */
export function floats(tensor: Tensor | undefined, length: number): Float32Array {
  return (tensor as Tensor).data.slice(0, length) as Float32Array;
}

/** Names of every layer's keys and values. @param part how those begin of which there are several kinds */
export function cacheNames(layers: number, part = ''): string[] {
  return Array.from({ length: layers }, (_, i) => [`${part}k_${i}`, `${part}v_${i}`]).flat();
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
