// Counts traces and rejects one by one, for what a run tells of them at its end. What it holds does not grow with them.

import { count } from '../plural.js';
import { escapeControls } from '../printable.js';
import type { BadRow } from '../rows.js';
import { mean } from '../scored/choose.js';
import { BYTES, isFallback, type OutputRow, withoutShown } from '../scored.js';

/** Traces by a name, such as a status code. */
export type Tally = Readonly<Record<string, number>>;

/** Codes and how often they occur. */
export function codes(tally: Tally): string {
  const all = Object.entries(tally).map(([code, n]) => `${escapeControls(code)} ${count(n)}`);
  return all.join(', ');
}

/** A code that rejects have. */
export interface CommonReject {
  readonly code: string;
  readonly count: number;
  /** place and reason of the first one, and its row's number over all inputs */
  readonly first: string;
  readonly ordinal: number;
}

/** Rejects by their codes. */
export class RejectTally {
  private readonly codes = new Map<string, CommonReject>();
  total = 0;

  add({ file, row, ordinal, rejection: { code, reason } }: BadRow): void {
    this.total++;
    const known = this.codes.get(code) ?? { code, count: 0, first: `${file}:${row}: ${reason}`, ordinal };
    this.codes.set(code, { ...known, count: known.count + 1 });
  }

  /** All codes, the commonest first. */
  get counts(): readonly CommonReject[] {
    return [...this.codes.values()].sort((a, b) => b.count - a.count);
  }
}

/** Numbers below this are 0: there is a smallest bin. */
const SMALLEST = 1e-6;
/** 900 bins a power of ten and sign. */
const DIGITS = 3;

/** Gathers numbers; what is not finite, or not known, is left out. */
export class Sketch {
  /** how many, by the middle of their bin */
  readonly bins = new Map<number, number>();
  n = 0;
  private sum = 0;
  min = Number.POSITIVE_INFINITY;
  max = Number.NEGATIVE_INFINITY;

  add(x: number | null): void {
    if (x === null || !Number.isFinite(x)) return;
    this.n++;
    this.sum += x;
    this.min = Math.min(this.min, x);
    this.max = Math.max(this.max, x);
    const bin = Math.abs(x) < SMALLEST ? 0 : Number(x.toPrecision(DIGITS));
    this.bins.set(bin, (this.bins.get(bin) ?? 0) + 1);
  }

  get mean(): number | null {
    return this.n === 0 ? null : this.sum / this.n;
  }

  /** The number below which, or at which, a share of them lie, to half a percent; null without numbers. */
  quantile(share: number): number | null {
    if (this.n === 0) return null;
    let below = 0;
    for (const [x, n] of [...this.bins].sort(([a], [b]) => a - b)) {
      below += n;
      // the middle of a bin may lie beyond the numbers in it
      if (below >= share * this.n) return Math.min(this.max, Math.max(this.min, x));
    }
    return this.max;
  }
}

/** nats a token, where the vocabulary is not known: what a policy wrote itself is far above */
const UNLIKELY = -3;

/**
 * Whether a mean log p a token is nearer to guessing than to certainty: of what a policy wrote itself it is far above.
 * @param vocab tokens of the policy's vocabulary; undefined where nothing tells
 */
export function isUnlikely(logprob: number | null, vocab: number | undefined): logprob is number {
  return logprob !== null && logprob <= (vocab === undefined ? UNLIKELY : -Math.log(vocab) / 2);
}

export type Side = 'right' | 'wrong';

/** What is known of a trace's outcome. */
export function sideOf(reward: number | null): Side | 'unknown' {
  return reward === null ? 'unknown' : reward > 0.5 ? 'right' : 'wrong';
}

/** σ is uniform in effect where no token's weight |σ·T − 1| reaches this. */
const UNEVEN = 0.01;
/** A trace whose return is about 0; and one without a baseline, since all answers of its reference set are worth the same. */
const NOTHING_TO_SHARE = ['uniform:small-return', 'uniform:one-sided-references'];
/** |R*| from which on a rule that divides by it does so. */
const SMALL_RETURN = 0.05;

/** What the log ends with. */
export type RunNumbers = RunCounts['numbers'];

/** What the numbers call a token: a byte, where that of every trace is one. */
export function unitOf({ status, traces }: Pick<RunNumbers, 'status' | 'traces'>): 'byte' | 'token' {
  return traces > 0 && status[BYTES] === traces ? 'byte' : 'token';
}

/** Gathers the numbers. */
export class RunCounts {
  readonly rejects = new RejectTally();
  protected readonly sketches = {
    ...{ mean_logprob: new Sketch(), value_range: new Sketch() },
    ...{ sigma_gain: new Sketch(), lost_fraction: new Sketch() },
  };
  private readonly status = new Map<string, number>();
  protected readonly rewards = { right: 0, wrong: 0, unknown: 0 };
  private readonly returns = { right: 0, wrong: 0 };
  private readonly uneven = { right: 0, wrong: 0 };
  private readonly sums = { traces: 0, tokens: 0, credited: 0, uniform_by_fallback: 0, uniform_in_effect: 0 };
  private readonly marks = { unlikely: 0, closed_thoughts: 0, unreferenced: 0 };
  /** segments that say how far their change may be off, and those of them that changed less */
  private readonly noise = { known: 0, below: 0 };

  /** of tokens with a log-probability of their own: how far it lies above the policy's, and from it, in sums */
  private readonly sampled = { tokens: 0, above: 0, apart: 0 };

  /** @param vocab tokens of the policy's vocabulary; undefined where nothing tells */
  constructor(private readonly vocab?: number) {}

  add(row: OutputRow): void {
    const { reward, status, valueStart } = row;
    const { sums, marks, sketches } = this;
    const { segments, sigma, logprobs } = withoutShown(row);
    sums.traces++;
    sums.tokens += sigma?.length ?? segments.at(-1)?.end ?? 0;
    for (const code of status.length === 0 ? ['ok'] : status)
      this.status.set(code, (this.status.get(code) ?? 0) + 1);
    this.rewards[sideOf(reward)]++;
    if (sigma !== null) this.addCredit(row, sigma);
    const logprob = mean(logprobs);
    if (isUnlikely(logprob, this.vocab)) marks.unlikely++;
    if (row.closesThought) marks.closed_thoughts++;
    if (row.referenceUtilities?.length === 0) marks.unreferenced++;
    this.addSampled(row);
    sketches.mean_logprob.add(logprob);
    const lost = row.requested?.lost_fraction;
    if (lost instanceof Float32Array) for (const share of lost) sketches.lost_fraction.add(share);
    if (valueStart === null) return;
    const thoughts = segments.filter(({ value }) => value !== null);
    const values = [valueStart, ...thoughts.map(({ value }) => value as number)];
    for (const [k, { noise }] of thoughts.entries()) {
      if (noise !== null) this.noise.known++;
      if (Math.abs((values[k + 1] as number) - (values[k] as number)) < (noise ?? 0)) this.noise.below++;
    }
    const [low, high] = [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
    // all of them may be −∞ (`joint`)
    sketches.value_range.add(high > low ? high - low : 0);
  }

  private addSampled({ logprobs, trace: { sampledLogprobs: said, completionMask: own } }: OutputRow): void {
    // what the row has may be of other tokens
    if (said?.length !== logprobs?.length) return;
    for (const [t, logprob] of said?.entries() ?? []) {
      if (own?.[t] === 0) continue;
      const off = logprob - (logprobs?.[t] as number);
      this.sampled.tokens++;
      this.sampled.above += off;
      this.sampled.apart += Math.abs(off);
    }
  }

  private addCredit({ reward, baseline, status, sigmaGain }: OutputRow, sigma: Float32Array): void {
    const { sums } = this;
    const isUniform = sigma.every((s) => Math.abs(s * sigma.length - 1) < UNEVEN);
    sums.credited++;
    if (isUniform) sums.uniform_in_effect++;
    if (status.some(isFallback)) sums.uniform_by_fallback++;
    else this.sketches.sigma_gain.add(sigmaGain);
    // another reason for a uniform σ may stand in the place of that code
    const isAlike = reward === null || (baseline !== null && Math.abs(reward - baseline) < SMALL_RETURN);
    if (isAlike || status.some((code) => NOTHING_TO_SHARE.includes(code))) return;
    const sign = reward > (baseline ?? 0.5) ? 'right' : 'wrong';
    this.returns[sign]++;
    if (!isUniform) this.uneven[sign]++;
  }

  get numbers() {
    const { mean_logprob, value_range, sigma_gain, lost_fraction } = this.sketches;
    return {
      /** traces and their tokens; traces with σ; of these, by fallback uniform, and uniform in effect (no |σ·T − 1| of .01) */
      ...this.sums,
      /** traces whose log p is nearer to guessing than to certainty; those whose text has `</think>`, where the text was looked at; those without a reference */
      ...this.marks,
      /** rows that were rejected, or are not as `score` writes them, by code */
      unreadable: Object.fromEntries(this.rejects.counts.map((each) => [each.code, each.count])) as Tally,
      ...this.rewards,
      /** traces by status code, the most frequent first; `ok` where there is none */
      status: Object.fromEntries([...this.status].sort(([, a], [, b]) => b - a)) as Tally,
      /** of traces above their baseline (`right`) and below it those with something to share out; of these, those that are not uniform in effect */
      ...{ returns: { ...this.returns }, uneven: { ...this.uneven } },
      /** mean distance of the rows' own log-probabilities above the policy's, and from them, nats a token; null where they have none */
      sampled_above: this.sampled.tokens === 0 ? null : this.sampled.above / this.sampled.tokens,
      sampled_apart: this.sampled.tokens === 0 ? null : this.sampled.apart / this.sampled.tokens,
      /** share of the segments that changed the value by less than it may be off; null where none is known to be */
      below_noise: this.noise.known === 0 ? null : this.noise.below / this.noise.known,
      /** null where nothing is known */
      distributions: {
        mean_logprob: { n: mean_logprob.n, mean: mean_logprob.mean },
        value_range: { median: value_range.quantile(0.5) },
        sigma_gain: { median: sigma_gain.quantile(0.5) },
        lost_fraction: { mean: lost_fraction.mean },
      },
    };
  }
}
