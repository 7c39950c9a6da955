// A policy that takes no time and whose numbers depend on every token before: what tests of batching run over.
import fc from 'fast-check';
import { OutOfMemoryError } from '../../dist/errors.js';
import type { Branch, PackedTrace, TraceScores } from '../../dist/model/onnx/placed.js';
import type { TraceJob } from '../../dist/model/onnx/plan.js';
import type { PolicyRuns } from '../../dist/model/onnx/session.js';
import type { Answers, Continuation } from '../../dist/question.js';
import { cutPieces, mergeSegments, type SegmentOptions } from '../../dist/segment/segment.js';
import type { TokenText } from '../../dist/segment/span.js';

const segmentCompletion = (
  tokens: TokenText,
  weights: Float32Array,
  opts: SegmentOptions,
  given?: Int32Array,
) => mergeSegments(cutPieces(tokens, opts, given), { entropies: weights, logprobs: weights });

/** A hash of a token sequence; `from` goes on from the hash of what came before. */
function hash(ids: Iterable<number>, from = 0x811c9dc5): number {
  let h = from;
  for (const id of ids) h = Math.imul(h ^ (id + 1), 0x01000193) >>> 0;
  return h;
}

/** A number of the hash's between 0 and 5. */
const nats = (h: number) => Math.fround((Math.imul(h ^ (h >>> 15), 0x2c1b3c6d) >>> 0) / 2 ** 32) * 5;

/** Entropies and log-probabilities of tokens from..T-1 given all before them. */
export function fakeStats(ids: readonly number[], from: number): Omit<TraceScores, 'branches'> {
  const entropies = new Float32Array(ids.length - from);
  const logprobs = new Float32Array(ids.length - from);
  let h = hash(ids.slice(0, from));
  for (let t = from; t < ids.length; t++) {
    entropies[t - from] = nats(h);
    h = hash([ids[t] as number], h);
    logprobs[t - from] = -nats(h);
  }
  return { entropies, logprobs };
}

export class FakePolicy implements PolicyRuns {
  /** of every run that was begun: what it had to do, the first token of each of its traces, its rows */
  readonly runs: { kind: 'prefix' | 'both' | 'branches'; traces: number[]; rows: number; fits: boolean }[] =
    [];
  readonly kept = new Map<number, readonly PackedTrace[]>();
  atWork = 0;
  mostAtWork = 0;

  /**
   * @param limit rows of a run, padding and kept traces included, beyond which memory runs out
   * @param pause what a run waits for
   */
  constructor(
    readonly limit = Number.POSITIVE_INFINITY,
    readonly pause: () => Promise<void> = () => Promise.resolve(),
  ) {}

  async run(traces: readonly PackedTrace[], keep?: number): Promise<TraceScores[]> {
    const kind = traces.some(({ branches }) => branches.length > 0) ? 'both' : 'prefix';
    await this.begin(kind, traces);
    if (keep !== undefined) this.kept.set(keep, traces);
    return traces.map(({ ids, promptLength, branches }) => ({
      ...fakeStats([...ids], promptLength),
      branches: scoresOf(ids, branches),
    }));
  }

  async branches(kept: number, branches: readonly (readonly Branch[])[]): Promise<TraceScores[]> {
    const traces = this.kept.get(kept);
    if (traces?.length !== branches.length)
      throw new Error(`no run of ${branches.length} was kept as ${kept}`);
    await this.begin(
      'branches',
      traces.map((trace, b) => ({ ...trace, branches: branches[b] as readonly Branch[] })),
    );
    const none = new Float32Array(0);
    return traces.map(({ ids }, b) => ({
      entropies: none,
      logprobs: none,
      branches: scoresOf(ids, branches[b] as readonly Branch[]),
    }));
  }

  async release(kept: number): Promise<void> {
    this.kept.delete(kept);
  }

  private async begin(kind: 'prefix' | 'both' | 'branches', traces: readonly PackedTrace[]): Promise<void> {
    const longest = Math.max(...traces.map(({ ids }) => ids.length));
    const rows = traces.length * longest + rowsOf(traces.flatMap(({ branches }) => branches));
    const fits = rows <= this.limit;
    this.runs.push({ kind, traces: traces.map(({ ids }) => ids[0] as number), rows, fits });
    this.mostAtWork = Math.max(this.mostAtWork, ++this.atWork);
    await this.pause();
    this.atWork--;
    if (!fits) throw new OutOfMemoryError(`${rows} rows`);
  }
}

function scoresOf(ids: Int32Array, branches: readonly Branch[]): Float32Array[] {
  return branches.map(({ exit, ...branch }) => {
    if (branch.scoredFrom < 1 || exit < 0 || exit > ids.length) throw new RangeError(`a branch at ${exit}`);
    return suffixScores(ids.subarray(0, exit), branch);
  });
}

/** Of a suffix's scored tokens, and of the one that may stand in the place of its last. */
function suffixScores(before: Int32Array, { ids, scoredFrom, also }: Continuation): Float32Array {
  const read = (suffix: readonly number[]) =>
    fakeStats([...before, ...suffix], before.length + scoredFrom).logprobs;
  const own = read([...ids]);
  if (also === undefined) return own;
  return Float32Array.of(...own, read([...ids.subarray(0, -1), also]).at(-1) as number);
}

const rowsOf = (branches: readonly Branch[]) => branches.reduce((sum, { ids }) => sum + ids.length, 0);

/** Tokens of one character each, without an answer; the last `hidden` ones are end tokens that the text lacks. */
export function plainTokens(length: number, hidden = 0): TokenText {
  const units = Int32Array.from({ length: length + 1 }, (_, t) => Math.min(t, length - hidden));
  return { text: 'x'.repeat(length - hidden), units, textEnd: length - hidden };
}

/** What a trace of a test is made of. */
export interface JobShape {
  /** the first token of its prompt, by which runs name it */
  readonly name: number;
  readonly prompt: number;
  readonly tokens: number;
  /** end tokens among them that the text does not show */
  readonly hidden?: number;
  /** tokens a piece, and how many segments are left of the pieces */
  readonly piece: number;
  readonly maxSegments: number;
  readonly continuations: readonly Readonly<{ length: number; scoredFrom: number; also?: number }>[];
}

/** A job's shape but for its name, by which fake runs call it. */
const anyShape = fc.record({
  prompt: fc.integer({ min: 1, max: 6 }),
  tokens: fc.integer({ min: 1, max: 70 }),
  hidden: fc.integer({ min: 0, max: 3 }),
  piece: fc.integer({ min: 1, max: 9 }),
  maxSegments: fc.integer({ min: 1, max: 9 }),
  continuations: fc.array(
    fc
      .record({ length: fc.integer({ min: 1, max: 9 }), from: fc.nat(), also: fc.option(fc.nat(249)) })
      .map(({ length, from, also }) => ({
        ...{ length, scoredFrom: from % length },
        ...(also !== null && { also }),
      })),
    { maxLength: 3 },
  ),
});
export const anyShapes = (maxLength: number) =>
  fc
    .array(anyShape, { minLength: 1, maxLength })
    .map((shapes) =>
      shapes.map(
        (shape, name): JobShape => ({ ...shape, name, hidden: Math.min(shape.hidden, shape.tokens) }),
      ),
    );

export const SHAPE: JobShape = {
  name: 0,
  prompt: 10,
  tokens: 90,
  piece: 10,
  maxSegments: 9,
  continuations: [{ length: 5, scoredFrom: 2 }],
};

export const segmentsOf = ({ piece, maxSegments }: Pick<JobShape, 'piece' | 'maxSegments'>) =>
  ({ segmenter: 'fixed', fixedLength: piece, maxSegments }) as const;

export function jobOf(shape: JobShape): TraceJob {
  const { name, prompt, tokens, hidden, continuations } = shape;
  return {
    ids: Int32Array.from({ length: prompt + tokens }, (_, t) => (t === 0 ? name : hash([name, t]) % 250)),
    promptLength: prompt,
    pieces: cutPieces(plainTokens(tokens, hidden), segmentsOf(shape)),
    asked: {
      atExits: continuations.map(({ length, ...scored }, n) => ({
        ...scored,
        ids: Int32Array.from({ length }, (_, j) => hash([n, j, length]) % 250),
      })),
    },
  };
}

/** What comes of a trace by reading it all again, from `shape` and the tokens alone. */
export function expectedResult(shape: JobShape, { ids, promptLength, asked }: TraceJob): Answers {
  const scores = fakeStats([...ids], promptLength);
  const segmentation = segmentCompletion(
    plainTokens(shape.tokens, shape.hidden),
    scores.entropies,
    segmentsOf(shape),
  );
  const branches = Array.from(segmentation.exits, (exit) => {
    const prefix = ids.subarray(0, promptLength + exit);
    return asked.atExits.map((suffix) => suffixScores(prefix, suffix));
  });
  return { ...scores, segmentation, branches };
}
