// What a canary asks of a policy: made when a folder is built, and compared with every session.
import type { Precision } from '../graph/precision.js';
import type { OpenTokenizer } from '../text/open-tokenizer.js';
import type { ExitTemplate } from '../text/templates.js';
import { type Canary, type CanaryPass, Farthest, NATS, type Numbers, type Proof } from './canary.js';
import type { Branch, PackedTrace, TraceScores } from './placed.js';

/** The text that a folder's canary is made of. */
const CHECKED_TEXT = `Let me work through this. A train leaves at 9:40 and travels 126 km at 84 km/h, so it needs 126 / 84 = 1.5 hours.

Wait, the question asks for the arrival time: 9:40 plus 1 h 30 min is 11:10. Let me check: 84 × 1.5 = 126. ✓

\`\`\`python
def arrival(minutes, distance, speed):
    return minutes + 60 * distance / speed
\`\`\`

Hence the train arrives at 11:10, naïve rounding or not.
`;

/** A text's ids, and another continuation than the text's. */
export interface CheckedIds {
  readonly ids: Int32Array;
  readonly other: Int32Array;
}

export async function checkedIds(
  tokenizer: Pick<OpenTokenizer, 'encode' | 'encodePrompt'>,
  { close, open, closer }: ExitTemplate,
): Promise<CheckedIds> {
  const ids = await tokenizer.encodePrompt(CHECKED_TEXT);
  const other = Int32Array.of(
    ...(await tokenizer.encode(close)),
    ...(await tokenizer.encode(open)),
    ...(await tokenizer.encode(closer)),
    ...ids.subarray(0, 2), // two tokens at least, whatever the template
  );
  return { ids, other };
}

/** What a canary asks of a session. */
interface Asked {
  run(traces: readonly PackedTrace[], keep?: number): Promise<TraceScores[]>;
  branches(kept: number, branches: readonly (readonly Branch[])[]): Promise<TraceScores[]>;
  release(kept: number): Promise<void>;
}

/** Numbers of one kind, in their order, and the place of each. */
type NamedNumbers = readonly [what: string, numbers: Numbers, place: (i: number) => string];

/** A short trace is longer than the tile of any attention kernel; a shorter one beside it is padded. */
const SHORT = 40;
const SHORTER = 21;
/** Several tiles, and more than the windows of small models. */
const LONG = 256;
/** Of it, tokens whose numbers are kept: the head costs as much as the layers where the vocabulary is large. */
const READ = 64;
/** A branch may stand behind hidden tokens: as far out as the first rotary tables reach, and out of sight of a window's keys. */
const FAR = 1000;
const REFERENCE = 6;
/** Tokens of a trace that has an exit point with something to score behind it. */
const LEAST = 4;
const KINDS = ['log p', 'entropy', 'branch log p'];
/** The number under which it keeps keys and values; scoring counts from 1 on. */
const KEPT = -2;

/** @param text ids of the text over and over, so many of them, or as many as the model takes */
function passesOf(text: (length: number) => Int32Array, other: Int32Array, maxTokens: number): CanaryPass[] {
  const [short, shorter, long] = [text(SHORT), text(SHORTER), text(LONG)];
  const at = (exit: number): Branch => ({ exit, ids: other, scoredFrom: 1 });
  const own = { ...at(short.length >> 2), ids: short.slice(short.length >> 2).subarray(0, REFERENCE) };
  const far = Math.min(maxTokens, FAR) - REFERENCE - long.length;
  const gap = far > 0 ? { gap: { before: 1, tokens: far } } : {};
  // two completions behind one prompt, which is read once
  const promptLength = Math.max(1, short.length - SHORTER);
  const another = Int32Array.of(...short.subarray(0, promptLength), ...other).subarray(0, maxTokens);
  const onePrompt = [short, another].map((ids) => {
    const branches = [at(promptLength), at(ids.length - 1), at(ids.length)];
    return { ids, promptLength, shares: 0, branches };
  });
  const batch = [
    { ids: short, promptLength: 1, branches: [at(short.length >> 1), at(short.length), own] },
    { ids: shorter, promptLength: 1, branches: [at(shorter.length)] },
  ];
  const alone = {
    ids: long,
    promptLength: Math.max(1, long.length - READ),
    branches: [at(long.length >> 1), { ...at(long.length), ...gap }],
  };
  return [
    { split: false, traces: batch },
    { split: true, traces: [alone] },
    { split: false, traces: onePrompt },
    { split: true, traces: onePrompt },
  ];
}

function tokensOf({ traces }: CanaryPass): number {
  return traces.reduce((sum, { ids }) => sum + ids.length, 0);
}

/** The pass with the session's numbers in it. */
async function answered(session: Asked, { split, traces }: CanaryPass): Promise<CanaryPass> {
  const whole = traces.map(({ branches, ...trace }) => ({
    ...trace,
    ids: Int32Array.from(trace.ids),
    branches: branches.map((branch) => ({ ...branch, ids: Int32Array.from(branch.ids) })),
  }));
  const prefixes = whole.map((trace) => ({ ...trace, branches: [] }));
  const said = await (split ? session.run(prefixes, KEPT) : session.run(whole));
  const behind = whole.map(({ branches }) => branches);
  const apart = split ? await session.branches(KEPT, behind).finally(() => session.release(KEPT)) : said;
  return {
    split,
    traces: whole.map(({ branches, ...trace }, i) => {
      const { entropies, logprobs } = said[i] as TraceScores;
      const scores = (apart[i] as TraceScores).branches;
      const scored = branches.map((branch, b) => ({ ...branch, logprobs: scores[b] as Float32Array }));
      return { ...trace, entropies, logprobs, branches: scored };
    }),
  };
}

/** What is compared, of each kind in its order. */
function numbersOf({ traces }: CanaryPass): NamedNumbers[] {
  return traces.flatMap(
    ({ ids: { length }, promptLength, entropies = [], logprobs = [], branches }): NamedNumbers[] => {
      const place = (t: number) => `token ${promptLength + t} of ${length}`;
      return [
        ['log p', logprobs, place],
        ['entropy', entropies, place],
        ...branches.map(({ exit, scoredFrom, logprobs: own = [] }): NamedNumbers => {
          return ['branch log p', own, (t) => `token ${scoredFrom + t} of a branch at ${exit} of ${length}`];
        }),
      ];
    },
  );
}

/**
 * Asks a session in float32 on the CPU.
 * @param ids of a text, of which those of the vocabulary are read
 * @param other ids of another continuation than the text's; none where nothing is continued
 * @throws RangeError where the model gives what is no number
 */
export async function makeCanary(
  session: Asked,
  { ids, other }: CheckedIds,
  { vocab, maxTokens }: { readonly vocab: number; readonly maxTokens: number },
): Promise<Canary> {
  const text = (length: number) => repeated(ids, vocab, Math.max(LEAST, Math.min(length, maxTokens)));
  const passes: CanaryPass[] = [];
  for (const pass of passesOf(text, repeated(other, vocab, REFERENCE), maxTokens))
    passes.push(stored(await answered(session, pass)) as CanaryPass);
  return { passes };
}

/**
 * Holds a session against a canary.
 * @param opts precision of the session; mostMs: what a pass longer than the first may take, as those before forecast it
 */
export async function prove(
  session: Asked,
  { passes }: Canary,
  {
    precision,
    mostMs = Number.POSITIVE_INFINITY,
  }: { readonly precision: Precision; readonly mostMs?: number },
): Promise<Proof> {
  const largest = new Map(KINDS.map((what) => [what, new Farthest(what, NATS[precision])]));
  const [short = 0] = passes.map(tokensOf);
  let [read, ms, leftOut] = [0, 0, 0];
  for (const pass of passes) {
    const size = tokensOf(pass);
    if (size > 2 * short && (ms * size) / read > mostMs) {
      leftOut += size;
      continue;
    }
    const started = performance.now();
    const said = numbersOf(await answered(session, pass));
    [read, ms] = [read + size, ms + performance.now() - started];
    for (const [i, [what, expected, place]] of numbersOf(pass).entries())
      largest.get(what)?.add(said[i]?.[1] ?? [], expected, place);
  }
  return { findings: [...largest.values()].map((each) => each.result()), leftOut };
}

/** Numbers as the file has them: eight digits are finer than any bound. @throws RangeError for what is no number */
export function stored(value: unknown): unknown {
  if (value instanceof Int32Array) return [...value];
  if (value instanceof Float32Array)
    return Array.from(value, (number) => {
      if (!Number.isFinite(number)) throw new RangeError(`gives ${number} for the canary's tokens`);
      return Number(number.toPrecision(8));
    });
  if (Array.isArray(value)) return value.map(stored);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, stored(each)]));
}

/** Fixed ids: those of a text that the vocabulary has, over and over. */
export function repeated(ids: ArrayLike<number>, vocab: number, length: number): Int32Array {
  const own = Array.from(ids).filter((id) => id < vocab);
  return Int32Array.from({ length }, (_, i) =>
    own.length > 1 ? (own[i % own.length] as number) : i % vocab,
  );
}
