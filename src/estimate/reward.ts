// Finds a trace's reward ζ: from its row, on the scale of the inputs' rewards, or by comparing its own answer with the references.
import { dataError, TraceRejected, throwIfInterrupted } from '../errors.js';
import type { Needs } from '../io/map/fields.js';
import { mapRow } from '../io/map/map.js';
import type { Mapping } from '../io/map/mapping.js';
import { headRows, type Input, readRows } from '../io/read/inputs.js';
import { count, plural } from '../plural.js';
import { type BadRow, isBad } from '../rows.js';
import { THOUGHT_TAGS } from '../segment/span.js';
import type { Reference, Trace } from '../trace.js';
import { compareAnswers } from './answer.js';
import { type AnswerMarks, ownAnswer, plainReferences, untilEndToken } from './answer-text.js';

/** ζ in [0, 1] as it is stored (float32), or null where nobody knows; `status` says where it came from when that is not the row. */
export interface Reward {
  readonly reward: number | null;
  readonly status: readonly string[];
}

export interface RewardedTrace {
  readonly trace: Trace;
  readonly reward: Reward;
}

/**
 * The reward of a trace whose row has none. A thought that was opened and not closed, without an answer: ζ = 0,
 * `truncated` (METHOD §2). An answer that equals a reference earns its utility, one that differs from all of them earns 0,
 * both `reward:compared`; anything else is left open (`reward:unknown`), an answer that no mark names too: it never guesses.
 */
export function compareAnswer(text: string, references: readonly Reference[], marks: AnswerMarks): Reward {
  const own = ownAnswer(text, marks);
  if (own === null || (own !== undefined && references.length === 0)) return UNKNOWN;
  // what marks no answer may be one itself: "4" to "2+2?"
  const right = plainReferences(references);
  const verdicts = right.map(({ answer }) => compareAnswers(own ?? untilEndToken(text), answer));
  const equal = right.filter((_, n) => verdicts[n] === 'equal');
  if (equal.length > 0) return compared(Math.max(...equal.map(({ utility }) => utility)));
  if (own === undefined) {
    const before = marks.opening?.trimEnd() ?? '';
    const pairs = marks.thoughtTags ? [marks.thoughtTags, ...THOUGHT_TAGS] : THOUGHT_TAGS;
    const isCut = pairs.some(([open]) => text.includes(open) || before.endsWith(open));
    return isCut ? { reward: 0, status: ['truncated'] } : UNKNOWN;
  }
  return verdicts.every((verdict) => verdict === 'different') ? compared(0) : UNKNOWN;
}

const UNKNOWN: Reward = { reward: null, status: ['reward:unknown'] };

function compared(reward: number): Reward {
  return { reward: Math.fround(reward), status: ['reward:compared'] };
}

/**
 * ζ of a trace: the row's reward, mapped by `--reward-range` where it is no verdict, else {@link compareAnswer}.
 * @param text of the completion; called only where it is needed
 * @throws TraceRejected (`reward`) for a reward outside the range
 */
export function resolveReward(
  trace: Trace,
  range: RewardRange,
  text: () => string,
  marks: AnswerMarks,
): Reward {
  if (trace.reward === null) return compareAnswer(text(), trace.references, marks);
  const [low, high] = trace.isVerdict ? PLAIN : range;
  if (trace.reward < low || trace.reward > high)
    throw new TraceRejected(
      'reward',
      `the reward is ${trace.reward}, expected ${low} to ${high}: --reward-range low,high maps other scales`,
    );
  return { reward: Math.fround((trace.reward - low) / (high - low)), status: [] };
}

/**
 * What the row says and the trace's own answer denies: a verdict of 1 for an answer that differs from every reference, of 0 for one that equals
 * the best of them. A judge may have its reasons; where most are so, the rewards are those of other rows, or count errors.
 */
export function withDispute(
  own: Reward,
  { reward, references }: Trace,
  text: () => string,
  marks: AnswerMarks,
): Reward {
  if (reward === null || (own.reward !== 0 && own.reward !== 1)) return own;
  const told = compareAnswer(text(), references, marks);
  const isDenied = told.status.includes('reward:compared') && told.reward === 1 - own.reward;
  return isDenied ? { ...own, status: [...own.status, 'reward:disputed'] } : own;
}

// ------ the scale of the inputs' rewards, which is known before the first pass of a policy, or the run ends

type RewardRange = readonly [low: number, high: number];

/** Where no flag says another one. */
const PLAIN: RewardRange = [0, 1];
const SIGNED: RewardRange = [-1, 1];
/** What is said where the inputs have that range. */
export const SIGNED_NOTICE = 'rewards of -1 count as 0, and of 1 as 1 (--reward-range -1,1)';

/**
 * The range of rewards that nobody has named: −1 to 1 where the first known reward other than 1 is −1, else 0 to 1. No more rows are read
 * than that takes; {@link RewardCheck} then sees them all. Of a stream nothing is read.
 */
export async function findRewardRange(
  { inputs, mapping: { map } }: { readonly inputs: readonly Input[]; readonly mapping: Pick<Mapping, 'map'> },
  needs: Needs,
  signal: AbortSignal,
): Promise<RewardRange> {
  if (inputs.some(({ size }) => size === null)) return PLAIN; // it can be read only once
  const isSmall = inputs.every(({ head, size }) => head?.length === size);
  const all = readRows(inputs, { onBytes: () => throwIfInterrupted(signal) });
  for (const rows of [headRows(inputs), ...(isSmall ? [] : [all])])
    for await (const row of rows) {
      if (isBad(row)) continue;
      for (const trace of mapRow(row, map, needs)) {
        if (isBad(trace) || trace.reward === null || trace.reward === 1) continue;
        return trace.reward === -1 ? SIGNED : PLAIN;
      }
    }
  return PLAIN;
}

/** Holds every reward against the run's range. */
export class RewardCheck {
  private known = 0;
  private outside = 0;
  private low = Number.POSITIVE_INFINITY;
  private high = Number.NEGATIVE_INFINITY;
  /** different ones, as long as they are few */
  private readonly values = new Set<number>();
  private first = '';

  /** @param isGiven the user has named the range: what lies outside is a reject of its own */
  constructor(
    private readonly range: RewardRange,
    private readonly isGiven: boolean,
  ) {}

  add({ reward, isVerdict, source }: Trace): void {
    if (reward === null || isVerdict) return;
    const [low, high] = this.range;
    this.known++;
    this.low = Math.min(this.low, reward);
    this.high = Math.max(this.high, reward);
    if (this.values.size < 3) this.values.add(reward);
    const isSigned = this.range === SIGNED;
    if (reward >= low && reward <= high && !(isSigned && Math.abs(reward) !== 1)) return;
    this.outside++;
    this.first ||= `${source.file}:${source.row}: the reward is ${reward}`;
  }

  /**
   * The traces of a stream, which nobody can prescan.
   * @throws RredcotError as `assert`: at the first reward of another scale, and at the end for what all of them tell
   */
  async *watched<T extends { readonly trace: Trace } | BadRow>(items: AsyncIterable<T>): AsyncGenerator<T> {
    for await (const item of items) {
      if (!isBad(item)) this.add(item.trace);
      if (!this.isGiven) this.assert();
      yield item;
    }
    this.assert();
  }

  /** @throws RredcotError (exit 65) where the rewards are of another scale */
  assert(): void {
    const { range, known, low, high, values } = this;
    const seen = `${plural(known, 'known reward')} from ${low} to ${high}`;
    const isHalf = range === SIGNED && known > 0 && high < 1;
    if (!this.isGiven && (this.outside > 0 || isHalf))
      throw dataError(
        `${isHalf ? 'no reward is above -1' : `${this.first}, expected ${range === SIGNED ? '-1 or 1' : '0 to 1'}`}; the inputs have ${seen}${isHalf ? '' : `, ${count(this.outside)} of them off that`}`,
        `--reward-range ${Math.min(low, 0)},${Math.max(high, 1)}, or the scale on which they were given`,
      );
    const isPlain = values.size === 2 && values.has(0) && values.has(1);
    if (this.isGiven && range[0] < 0 && isPlain)
      throw dataError(
        `--reward-range ${range.join(',')}: the inputs have ${seen}, none between, and 0 would count as ${-range[0] / (range[1] - range[0])}`,
        'leave it out, or --reward-range 0,1',
      );
  }
}
