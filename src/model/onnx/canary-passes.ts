// What a canary asks of a model, by the head that it has: made when a folder is built, and held against every session.
import type { Precision } from '../graph/precision.js';
import type { OpenTokenizer } from '../text/open-tokenizer.js';
import type { ExitTemplate } from '../text/templates.js';
import { type Bound, type Canary, type CanaryFinding, Farthest, NATS, type Proof, SHARES } from './canary.js';
import type { ModelFolder } from './folder.js';
import type { Branch, PackedTrace, ReadSteps, TraceScores } from './placed.js';

/** The text that `policy check` reads where none is given, and that a folder's canary is made of. */
export const CHECKED_TEXT = `Let me work through this. A train leaves at 9:40 and travels 126 km at 84 km/h, so it needs 126 / 84 = 1.5 hours.

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

/** @param text of which the ids are, as a prompt's */
export async function checkedIds(
  tokenizer: Pick<OpenTokenizer, 'encode' | 'encodePrompt'>,
  { close, open, closer }: ExitTemplate,
  text = CHECKED_TEXT,
): Promise<CheckedIds> {
  const ids = await tokenizer.encodePrompt(text);
  const other = Int32Array.of(
    ...(await tokenizer.encode(close)),
    ...(await tokenizer.encode(open)),
    ...(await tokenizer.encode(closer)),
    ...ids.subarray(0, 2), // two tokens at least, whatever the template
  );
  return { ids, other };
}

/** What a canary asks of a session: of one that scores, and of one that judges. */
export interface Answers {
  run(traces: readonly PackedTrace[], keep?: number): Promise<TraceScores[]>;
  branches(kept: number, branches: readonly (readonly Branch[])[]): Promise<TraceScores[]>;
  release(kept: number): Promise<void>;
  judge(sequences: readonly ReadSteps[]): Promise<Float32Array[]>;
}

/** Lists in the file, typed arrays where they are asked and answered. */
type Numbers = ArrayLike<number>;
/** Numbers of one kind, in their order, and the place of each. */
type NamedNumbers = readonly [what: string, numbers: Numbers, place: (i: number) => string];

/** What is asked of a kind of model; its passes are those of the file. */
interface AskedHead<Pass, Asks extends keyof Answers> {
  readonly kinds: readonly string[];
  readonly unit: CanaryFinding['unit'];
  readonly bounds: Readonly<Record<Precision, Bound>>;
  /** @param text ids of the text over and over, so many of them, or as many as the model takes; at least `least` */
  passes(text: (length: number, least: number) => Int32Array, other: Int32Array, maxTokens: number): Pass[];
  tokens(pass: Pass): number;
  /** the pass with the session's numbers in it */
  answer(session: Pick<Answers, Asks>, pass: Pass): Promise<Pass>;
  numbers(pass: Pass): NamedNumbers[];
}

/** The same for all heads, and what a session has to answer for it. */
type AnyHead = AskedHead<unknown, keyof Answers>;

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
/** The number under which it keeps keys and values; scoring counts from 1 on. */
const KEPT = -2;

/** One run of a policy. */
export interface ScoringPass {
  /** the traces' keys and values are kept, and their branches scored in a run of their own */
  readonly split: boolean;
  readonly traces: readonly ScoredTrace[];
}
/** Numbers are of the tokens behind the prompt, and of a branch's scored ones, nats. */
interface ScoredTrace extends Omit<PackedTrace, 'ids' | 'branches'> {
  readonly ids: Numbers;
  readonly branches: readonly (Omit<Branch, 'ids'> & {
    readonly ids: Numbers;
    readonly logprobs?: Numbers;
  })[];
  readonly entropies?: Numbers;
  readonly logprobs?: Numbers;
}

/** Log-probabilities, entropies and branch scores of a policy. */
export const SCORING: AskedHead<ScoringPass, 'run' | 'branches' | 'release'> = {
  kinds: ['log p', 'entropy', 'branch log p'],
  unit: 'nats',
  bounds: NATS,
  passes(text, other, maxTokens) {
    const [short, shorter, long] = [text(SHORT, 4), text(SHORTER, 4), text(LONG, 4)];
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
  },
  tokens: ({ traces }) => traces.reduce((sum, { ids }) => sum + ids.length, 0),
  async answer(session, { split, traces }) {
    const whole = traces.map(({ branches, ...trace }) => ({
      ...trace,
      ids: Int32Array.from(trace.ids),
      branches: branches.map((branch) => ({ ...branch, ids: Int32Array.from(branch.ids) })),
    }));
    const trunks = whole.map((trace) => ({ ...trace, branches: [] }));
    const said = await (split ? session.run(trunks, KEPT) : session.run(whole));
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
  },
  numbers: ({ traces }) =>
    traces.flatMap(
      ({ ids: { length }, promptLength, entropies = [], logprobs = [], branches }): NamedNumbers[] => {
        const place = (t: number) => `token ${promptLength + t} of ${length}`;
        return [
          ['log p', logprobs, place],
          ['entropy', entropies, place],
          ...branches.map(({ exit, scoredFrom, logprobs: own = [] }): NamedNumbers => {
            return [
              'branch log p',
              own,
              (t) => `token ${scoredFrom + t} of a branch at ${exit} of ${length}`,
            ];
          }),
        ];
      },
    ),
};

/** One run of a process reward model. */
export type JudgingPass = readonly {
  readonly ids: Numbers;
  readonly rows: Numbers;
  readonly correct?: Numbers;
}[];

/** P(right) of a process reward model at every token. */
export const JUDGING: AskedHead<JudgingPass, 'judge'> = {
  kinds: ['P(right)'],
  unit: 'P',
  bounds: SHARES,
  // as the policy's: padded beside each other, and alone
  passes: (text) =>
    [[SHORT, SHORTER], [LONG]].map((lengths) =>
      lengths.map((length) => {
        const ids = text(length, 2);
        return { ids, rows: Int32Array.from(ids.keys()) };
      }),
    ),
  tokens: (pass) => pass.reduce((sum, { ids }) => sum + ids.length, 0),
  async answer(session, pass) {
    const asked = pass.map(({ ids, rows }) => ({ ids: Int32Array.from(ids), rows: Int32Array.from(rows) }));
    const said = await session.judge(asked);
    return asked.map((own, i) => ({ ...own, correct: said[i] as Float32Array }));
  },
  numbers: (pass) =>
    pass.map(({ ids, rows, correct = [] }) => [
      'P(right)',
      correct,
      (t) => `token ${rows[t]} of ${ids.length}`,
    ]),
};

/** What is asked of a folder's model. */
export function headOf(folder: ModelFolder): AnyHead {
  return ('head' in folder ? JUDGING : SCORING) as AnyHead;
}

/**
 * Asks a session in float32 on the CPU.
 * @param ids of a text, of which those of the vocabulary are read
 * @param other ids of another continuation than the text's; none where nothing is continued
 * @throws RangeError where the model gives what is no number
 */
export async function makeCanary<Pass, Asks extends keyof Answers>(
  head: AskedHead<Pass, Asks>,
  session: Pick<Answers, Asks>,
  { ids, other }: CheckedIds,
  { vocab, maxTokens }: { readonly vocab: number; readonly maxTokens: number },
): Promise<Canary<Pass>> {
  const text = (length: number, least: number) =>
    repeated(ids, vocab, Math.max(least, Math.min(length, maxTokens)));
  const passes: Pass[] = [];
  for (const pass of head.passes(text, repeated(other, vocab, REFERENCE), maxTokens))
    passes.push(stored(await head.answer(session, pass)) as Pass);
  return { passes };
}

/**
 * Holds a session against a canary.
 * @param opts precision of the session; mostMs: what a pass longer than the first may take, as those before forecast it
 */
export async function prove<Pass, Asks extends keyof Answers>(
  head: AskedHead<Pass, Asks>,
  session: Pick<Answers, Asks>,
  canary: Canary,
  {
    precision,
    mostMs = Number.POSITIVE_INFINITY,
  }: { readonly precision: Precision; readonly mostMs?: number },
): Promise<Omit<Proof, 'attentionOnCpu'>> {
  const passes = canary.passes as readonly Pass[];
  const largest = new Map(
    head.kinds.map((what) => [what, new Farthest(what, head.unit, head.bounds[precision])]),
  );
  const [short = 0] = passes.map(head.tokens);
  let [read, ms, leftOut] = [0, 0, 0];
  for (const pass of passes) {
    const size = head.tokens(pass);
    if (size > 2 * short && (ms * size) / read > mostMs) {
      leftOut += size;
      continue;
    }
    const started = performance.now();
    const said = head.numbers(await head.answer(session, pass));
    [read, ms] = [read + size, ms + performance.now() - started];
    for (const [i, [what, expected, place]] of head.numbers(pass).entries())
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
