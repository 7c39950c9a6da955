// What a run says of itself, as sums and bounded histograms: gathered trace by trace, kept with each chunk, added up.

import type { BadRow } from '../rows.js';
import { isFallback, type OutputRow, withoutShown } from '../scored.js';

/** Traces by a name: a status code, or a number of two significant digits. */
export type Histogram = Readonly<Record<string, number>>;

/** What is summed. */
const SUMS = [
  // completion tokens that have a log-probability, and these summed, nats
  ...(['scored_tokens', 'logprob_sum'] as const),
  // traces that have σ; of these, by fallback uniform, and uniform in effect
  ...(['credited', 'fallbacks', 'uniform'] as const),
  // traces whose text has `</think>`
  'closed_thoughts',
  // exit points whose values were sampled, and the shares of their samples without a verdict, summed
  ...(['sampled_exits', 'lost_shares'] as const),
] as const;
/** What traces are counted by. */
const HISTOGRAMS = [
  // mean log p of their tokens
  'mean_logprobs',
  // range of their values: the largest less the smallest
  'value_ranges',
  // of those whose σ is their rule's, by how much larger their gradient gets
  'gains',
  // of those that have σ, their reward: `right` above ½, `wrong`; and a hash of their group, or of their id, in 64 bins
  ...(['rewards', 'groups'] as const),
  // of those above their baseline (`right`) and of those below it those that have something to share out, and those of these whose σ is not uniform in effect
  ...(['returns', 'uneven'] as const),
  // status code; `ok` is not counted; and rejects by code
  ...(['status', 'rejects'] as const),
] as const;

/** The figures of some traces; nothing in them grows with their number beyond a few thousand bins. */
export type Figures = Readonly<
  Record<(typeof SUMS)[number], number> & Record<(typeof HISTOGRAMS)[number], Histogram>
>;

/** σ is uniform in effect where no token's weight |σ·T − 1| reaches this. */
const UNEVEN = 0.01;
/** A trace whose return is about 0; and one without a baseline, since all answers of its reference set are worth the same. */
const NOTHING_TO_SHARE = ['uniform:small-return', 'uniform:one-sided-references'];
/** |R*| from which on a rule that divides by it does so. */
const SMALL_RETURN = 0.05;
/** Numbers below this are 0 in a histogram: it has a smallest bin. */
const SMALLEST = 1e-6;

/** Gathers figures. */
export class Tally {
  private readonly sums = new Map<(typeof SUMS)[number], number>();
  private readonly bins = new Map(HISTOGRAMS.map((name) => [name, new Map<string, number>()]));

  add(row: OutputRow): void {
    const { logprobs, sigma, status } = withoutShown(row);
    if (logprobs !== null && logprobs.length > 0) {
      const sum = logprobs.reduce((total, lp) => total + lp, 0);
      this.count('scored_tokens', logprobs.length);
      this.count('logprob_sum', sum);
      this.bin('mean_logprobs', rounded(sum / logprobs.length));
    }
    if (row.valueStart !== null) {
      const values = [row.valueStart, ...row.segments.map(({ value }) => value)];
      this.bin('value_ranges', rounded(rangeOf(values.filter((value) => value !== null))));
    }
    if (sigma !== null) {
      this.count('credited');
      if (status.some(isFallback)) this.count('fallbacks');
      const isUniform = sigma.every((s) => Math.abs(s * sigma.length - 1) < UNEVEN);
      if (isUniform) this.count('uniform');
      else if (row.sigmaGain !== null) this.bin('gains', rounded(row.sigmaGain));
      if (row.reward !== null) {
        this.bin('rewards', row.reward > 0.5 ? 'right' : 'wrong');
        this.bin('groups', String(fnv1a(row.trace.group ?? row.trace.id) & 63));
        // another reason for a uniform σ may stand in the place of that code
        const isAlike = row.baseline !== null && Math.abs(row.reward - row.baseline) < SMALL_RETURN;
        if (!isAlike && !status.some((code) => NOTHING_TO_SHARE.includes(code))) {
          const side = row.reward > (row.baseline ?? 0.5) ? 'right' : 'wrong';
          this.bin('returns', side);
          if (!isUniform) this.bin('uneven', side);
        }
      }
    }
    if (row.closesThought) this.count('closed_thoughts');
    const lost = row.requested?.lost_fraction;
    if (lost instanceof Float32Array) {
      this.count('sampled_exits', lost.length);
      this.count(
        'lost_shares',
        lost.reduce((sum, share) => sum + share, 0),
      );
    }
    for (const code of status) this.bin('status', code);
  }

  reject({ rejection }: BadRow): void {
    this.bin('rejects', rejection.code);
  }

  /** As JSON holds them. */
  get figures(): Figures {
    const sums = SUMS.map((name) => [name, this.sums.get(name) ?? 0]);
    const bins = HISTOGRAMS.map((name) => [name, Object.fromEntries(this.bins.get(name) ?? [])]);
    return Object.fromEntries([...sums, ...bins]);
  }

  private count(name: (typeof SUMS)[number], n = 1): void {
    this.sums.set(name, (this.sums.get(name) ?? 0) + n);
  }

  private bin(name: (typeof HISTOGRAMS)[number], key: string, n = 1): void {
    const bins = this.bins.get(name);
    bins?.set(key, (bins.get(key) ?? 0) + n);
  }
}

/** A name's hash (FNV-1a, 32 bits), for what is to look like chance and be the same every time. */
export function fnv1a(name: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
  return (hash ^ (hash >>> 15)) >>> 0;
}

/** Two digits, so that there are 90 bins a power of ten. */
function rounded(x: number): string {
  return Math.abs(x) < SMALLEST ? '0' : String(Number(x.toPrecision(2)));
}

/** The largest value less the smallest; 0 where all of them are −∞ (`joint`). */
export function rangeOf(values: Iterable<number>): number {
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return high > low ? high - low : 0;
}

/** The median of a histogram's numbers; undefined where it holds none. */
export function median(histogram: Histogram): number | undefined {
  const bins = Object.entries(histogram).map(([key, n]) => [Number(key), n] as const);
  bins.sort(([a], [b]) => a - b);
  const half = bins.reduce((sum, [, n]) => sum + n, 0) / 2;
  let below = 0;
  for (const [bin, n] of bins) {
    below += n;
    if (below >= half) return bin;
  }
  return undefined;
}
