// Rows that write on together, block by block, in the thread of a policy's session: what the decoding graph takes and gives, and which rows are still there.
import { type InferenceSession, Tensor } from 'onnxruntime-node';
import type { Architecture } from '../graph/architecture.js';
import type { Device } from '../onnx/device.js';
import { cacheNames, type Feeds, int64, type Kept, openGraph, type RopeFor } from '../onnx/onnx-session.js';
import { type Advance, type DecodeJob, type RowStart, uniformAt, type Written } from './sampling.js';

/**
 * Tokens a run of the graph writes. Inside a run keys and values stay in the graph; between runs they are copied, and rows
 * that have ended leave. One size for all rows: where a row's own keys are cut decides its last bits.
 */
const BLOCK = { cpu: 32, gpu: 128 } as const;
/** A matrix of one row is multiplied by another routine, with other last bits. */
const LEAST_ROWS = 2;
/** A topP that leaves the likeliest token alone. */
const LIKELIEST = 1e-30;

interface DecodingRow extends RowStart {
  readonly number: number;
  readonly ids: number[];
  readonly logprobs: number[];
}

/** Rows at work. */
class DecodingRun {
  /** (G) of (up to R) rows */
  private groups: DecodingRow[][];
  /** per layer and kind [G,kvHeads,T,headDim] */
  private prefix: Feeds;
  /** per layer and kind [G,kvHeads,R,P,headDim] */
  private past = new Map<string, Float32Array>();
  private length = 0; // P
  private readonly stops: ReadonlySet<number>;

  /** @param kept what a run of the scoring graph has kept: past_k_i, past_v_i [B,kvHeads,T,headDim] */
  constructor(
    private readonly arch: Architecture,
    private readonly job: DecodeJob,
    kept: Feeds,
    private readonly isGpu: boolean,
  ) {
    const traces = [...new Set(job.rows.map(({ trace }) => trace))];
    const rows = job.rows.map((row, number): DecodingRow => ({ ...row, number, ids: [], logprobs: [] }));
    this.groups = traces.map((trace) => rows.filter((row) => row.trace === trace));
    const renamed = Object.entries(kept).map(
      ([name, tensor]) => [name.replace('past_', 'prefix_'), tensor] as const,
    );
    this.prefix = takeFirst(Object.fromEntries(renamed), traces);
    this.stops = new Set(job.stops);
  }

  /** Writes a block of tokens of every row. */
  async advance(session: InferenceSession, ropeFor: RopeFor): Promise<Advance> {
    const steps = this.isGpu ? BLOCK.gpu : BLOCK.cpu;
    const out = (await session.run(this.feeds(steps, ropeFor))) as Feeds;
    const tokens = out.tokens as Tensor;
    const [T, N] = tokens.dims as [number, number];
    const R = N / this.groups.length;
    const ids = tokens.data as BigInt64Array;
    const logprobs = (out.logprobs as Tensor).data as Float32Array;
    const ended: (Written & { row: number })[] = [];
    let count = 0;
    const places: number[][] = []; // (G) of the rows that go on: their places among R
    for (const [g, group] of this.groups.entries())
      places.push(
        group.flatMap((row, r) => {
          let isStopped = false;
          for (let t = 0; t < T && !isStopped && row.ids.length < row.most; t++, count++) {
            const id = Number(ids[t * N + g * R + r]);
            row.ids.push(id);
            row.logprobs.push(logprobs[t * N + g * R + r] as number);
            isStopped = this.stops.has(id);
          }
          if (!isStopped && row.ids.length < row.most) return [r];
          ended.push({
            row: row.number,
            ids: Int32Array.from(row.ids),
            logprobs: Float32Array.from(row.logprobs),
            finish: isStopped ? 'stop' : 'length',
          });
          return [];
        }),
      );
    this.keep(places, out, R, T);
    return { tokens: count, ended, isDone: this.groups.length === 0 };
  }

  /** rows of a group in the graph, those that only fill it up included */
  private get width(): number {
    return this.groups.reduce((most, { length }) => Math.max(most, length), LEAST_ROWS);
  }

  private feeds(steps: number, ropeFor: RopeFor): Feeds {
    const { arch, groups, length, width: R } = this;
    const [G, N] = [groups.length, groups.length * R];
    // rows that fill up have nothing left to write, and see no key of the prefix
    const zeros = () => new BigInt64Array(N);
    const [token, pos, exit, left] = [zeros(), zeros(), zeros(), zeros()];
    const uniform = new Float32Array(steps * N);
    let farthest = 0;
    for (const [g, group] of groups.entries())
      for (const [r, row] of group.entries()) {
        const n = g * R + r;
        token[n] = BigInt(row.ids.at(-1) ?? row.token);
        // the token that is read stands behind its state's other tokens
        pos[n] = BigInt(row.exit - 1 + length);
        exit[n] = BigInt(row.exit - 1);
        left[n] = BigInt(row.most - row.ids.length);
        farthest = Math.max(farthest, row.exit + length);
        for (let t = 0; t < steps; t++) uniform[t * N + n] = uniformAt(row.key, length + t);
      }
    const { temperature, topP, stops } = this.job;
    const isGreedy = temperature === 0;
    const own = [G, arch.kvHeads, R, length, arch.headDim];
    return {
      ...this.prefix,
      ...Object.fromEntries(
        cacheNames(arch.layers).map((name) => [
          `past_${name}`,
          new Tensor('float32', this.past.get(name) ?? new Float32Array(0), own),
        ]),
      ),
      token: int64(token, [G, R]),
      pos: int64(pos, [G, R]),
      exit: int64(exit, [G, R]),
      left: int64(left, [G, R]),
      uniform: new Tensor('float32', uniform, [steps, N]),
      stops: int64(BigInt64Array.from(stops.length > 0 ? stops : [-1], BigInt)),
      inverse_temperature: scalar(isGreedy ? 1 : 1 / temperature),
      top_p: scalar(isGreedy ? LIKELIEST : topP),
      ...ropeFor(farthest + steps),
    };
  }

  /** Keeps the rows at `places`, with what they have written behind what they had. */
  private keep(places: readonly (readonly number[])[], out: Feeds, R: number, T: number): void {
    const { arch, length } = this;
    const { kvHeads, headDim } = arch;
    const stay = places.flatMap(({ length: rows }, g) => (rows > 0 ? [g] : []));
    if (stay.length < this.groups.length) this.prefix = takeFirst(this.prefix, stay);
    const chosen = stay.map((g) =>
      (places[g] as number[]).map((r) => (this.groups[g] as DecodingRow[])[r] as DecodingRow),
    );
    this.groups = chosen;
    this.length = length + T;
    const width = this.width;
    const [before, added, whole] = [length * headDim, T * headDim, (length + T) * headDim];
    for (const name of cacheNames(arch.layers)) {
      const old = this.past.get(name);
      const block = (out[name] as Tensor).data as Float32Array;
      const next = new Float32Array(stay.length * kvHeads * width * whole);
      for (const [n, g] of stay.entries())
        for (let head = 0; head < kvHeads; head++)
          for (const [r, place] of (places[g] as number[]).entries()) {
            const to = ((n * kvHeads + head) * width + r) * whole;
            const from = (g * kvHeads + head) * R + place;
            if (old !== undefined) next.set(old.subarray(from * before, (from + 1) * before), to);
            next.set(block.subarray(from * added, (from + 1) * added), to + before);
          }
      this.past.set(name, next);
    }
  }
}

function scalar(value: number): Tensor {
  return new Tensor('float32', Float32Array.of(value), []);
}

/** Tensors with the chosen entries of their first axis. */
function takeFirst(tensors: Feeds, chosen: readonly number[]): Feeds {
  const [any] = Object.values(tensors);
  const count = any?.dims[0] ?? 0;
  if (chosen.length === count && chosen.every((n, i) => n === i)) return tensors;
  return Object.fromEntries(
    Object.entries(tensors).map(([name, { data, dims }]) => {
      const size = dims.slice(1).reduce((product, dim) => product * dim, 1);
      const taken = new Float32Array(chosen.length * size);
      for (const [i, n] of chosen.entries())
        taken.set((data as Float32Array).subarray(n * size, (n + 1) * size), i * size);
      return [name, new Tensor('float32', taken, [chosen.length, ...dims.slice(1)])];
    }),
  );
}

// ------ in the thread of a session

/** What of the thread it needs. */
interface InThread {
  readonly folder: string;
  readonly device: Device;
  readonly architecture: Architecture;
  readonly caches: Map<number, Kept>;
  readonly ropeFor: RopeFor;
  readonly failed: (error: unknown) => never;
}

/** The functions that `ModelSession.decode` calls by name. */
export type DecodingRows = ReturnType<typeof decodingRows>;

export function decodingRows({ folder, device, architecture, caches, ropeFor, failed }: InThread) {
  let decoder: InferenceSession;
  let atWork: { readonly id: number; readonly rows: DecodingRun } | undefined;
  const functions = {
    async open(file: string): Promise<void> {
      decoder = await openGraph(folder, file, device);
    },
    /** Lets rows write their next tokens. @param job puts them on prefixes that a run has kept, in the place of those before */
    async advance(id: number, job?: DecodeJob): Promise<Advance> {
      if (job !== undefined) {
        const kept = caches.get(job.kept);
        if (kept === undefined) throw new Error(`no run was kept as ${job.kept}`);
        atWork = { id, rows: new DecodingRun(architecture, job, kept.prefixes, device.name !== 'cpu') };
      }
      if (atWork?.id !== id) throw new Error(`no rows are at work as ${id}`);
      const step = await atWork.rows.advance(decoder, ropeFor).catch(failed);
      if (step.isDone) atWork = undefined;
      return step;
    },
  };
  return functions;
}
