// The scale of the inputs' rewards, which is known before the first pass of a policy, or the run ends.
import { dataError, throwIfInterrupted } from '../errors.js';
import type { Needs } from '../io/map/fields.js';
import { mapRow } from '../io/map/map.js';
import type { Mapping } from '../io/map/mapping.js';
import { headRows, type Input, readRows } from '../io/read/inputs.js';
import { count, plural } from '../plural.js';
import { type BadRow, isBad } from '../rows.js';
import type { Trace } from '../trace.js';

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

const FEW = 3;

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
    if (this.values.size < FEW) this.values.add(reward);
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
