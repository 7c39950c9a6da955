// Counts scored traces and rejects one by one: for the end of a run, `summary` and the run page. What it holds does not grow with them.

import type { BadRow } from '../rows.js';
import { mean } from '../scored/choose.js';
import { isFallback, type OutputRow, withoutShown } from '../scored.js';
import { type Distribution, Positions, Reliability, Sketch, Top } from './gathered.js';

/** Traces by a name, such as a status code. */
export type Tally = Readonly<Record<string, number>>;

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

/** A trace whose reward fits none of its values. */
export interface Disagreement {
  readonly id: string;
  readonly row: number;
  readonly reward: number;
  /** the smallest |v̂ − ζ| of all exits */
  readonly disagreement: number;
}

const DISTRIBUTIONS = [
  ...(['sigma_ess', 'sigma_ess_share', 'sigma_max_weight', 'sigma_gain', 'value_range'] as const),
  ...(['mean_logprob', 'mean_entropy', 'tokens', 'segments', 'segment_tokens', 'lost_fraction'] as const),
] as const;
type DistributionName = (typeof DISTRIBUTIONS)[number];

/** What the run page shows, and `summary --json` prints. */
export type RunNumbers = RunCounts['numbers'];

/** σ is uniform in effect where no token's weight |σ·T − 1| reaches this. */
const UNEVEN = 0.01;
/** A trace whose return is about 0; and one without a baseline, since all answers of its reference set are worth the same. */
const NOTHING_TO_SHARE = ['uniform:small-return', 'uniform:one-sided-references'];
/** |R*| from which on a rule that divides by it does so. */
const SMALL_RETURN = 0.05;
/** From here on a reward fits none of a trace's values. */
const DISAGREEING = 0.9;
const DISAGREEMENTS_SHOWN = 20;
/** nats a token, where the vocabulary is not known: what a policy wrote itself is far above */
const UNLIKELY = -3;

/**
 * Whether a mean log p a token is nearer to guessing than to certainty: of what a policy wrote itself it is far above.
 * @param vocab tokens of the policy's vocabulary; undefined where nothing tells
 */
export function isUnlikely(logprob: number | null, vocab: number | undefined): logprob is number {
  return logprob !== null && logprob <= (vocab === undefined ? UNLIKELY : -Math.log(vocab) / 2);
}

type Side = 'right' | 'wrong';

/** Gathers the numbers. */
export class RunCounts {
  readonly rejects = new RejectTally();
  private readonly sketches = new Map(DISTRIBUTIONS.map((name) => [name, new Sketch()]));
  private readonly positions = new Positions();
  private readonly levels = {
    right: { start: new Sketch(), end: new Sketch() },
    wrong: { start: new Sketch(), end: new Sketch() },
  };
  private readonly valueEnd = new Reliability();
  private readonly disagreements = new Top<Disagreement>(DISAGREEMENTS_SHOWN);
  private readonly status = new Map<string, number>();
  private readonly rewards = { right: 0, wrong: 0, unknown: 0 };
  private readonly returns = { right: 0, wrong: 0 };
  private readonly uneven = { right: 0, wrong: 0 };
  private readonly sums = { traces: 0, tokens: 0, credited: 0, uniform_by_fallback: 0, uniform_in_effect: 0 };
  private readonly marks = { unlikely: 0, closed_thoughts: 0 };
  private disagreeing = 0;

  /**
   * @param hasLevel a value is an expected reward, so that it can be compared with one
   * @param vocab tokens of the policy's vocabulary; undefined where nothing tells
   */
  constructor(
    private readonly hasLevel: boolean,
    private readonly vocab?: number,
  ) {}

  /** @param place number of the row in the file that is counted */
  add(row: OutputRow, place = row.trace.source.row): void {
    const { reward, status } = row;
    const { sums, marks } = this;
    const { segments, sigma, logprobs, entropies } = withoutShown(row);
    const T = sigma?.length ?? segments.at(-1)?.end ?? 0;
    sums.traces++;
    sums.tokens += T;
    for (const code of status.length === 0 ? ['ok'] : status)
      this.status.set(code, (this.status.get(code) ?? 0) + 1);
    const side = reward === null ? 'unknown' : reward > 0.5 ? 'right' : 'wrong';
    this.rewards[side]++;
    if (sigma !== null) this.addCredit(row, sigma, side);
    const logprob = mean(logprobs);
    if (isUnlikely(logprob, this.vocab)) marks.unlikely++;
    if (row.closesThought) marks.closed_thoughts++;
    this.sketch('mean_logprob', logprob);
    this.sketch('mean_entropy', mean(entropies));
    if (T > 0) this.sketch('tokens', T);
    const thoughts = segments.filter(({ kind }) => kind === 'thought');
    this.sketch('segments', thoughts.length);
    for (const { start, end } of thoughts)
      if (start !== null && end !== null) this.sketch('segment_tokens', end - start);
    const lost = row.requested?.lost_fraction;
    if (lost instanceof Float32Array) for (const share of lost) this.sketch('lost_fraction', share);
    if (row.valueStart !== null) this.addValues(row, side, place);
  }

  private addCredit(row: OutputRow, sigma: Float32Array, side: Side | 'unknown'): void {
    const { reward, baseline, status, sigmaEss, sigmaMaxWeight, sigmaGain } = row;
    const { sums } = this;
    const isUniform = sigma.every((s) => Math.abs(s * sigma.length - 1) < UNEVEN);
    sums.credited++;
    if (isUniform) sums.uniform_in_effect++;
    if (status.some(isFallback)) sums.uniform_by_fallback++;
    else {
      this.positions.add(sigma, side);
      this.sketch('sigma_ess', sigmaEss);
      this.sketch('sigma_ess_share', sigmaEss && sigmaEss / sigma.length);
      this.sketch('sigma_max_weight', sigmaMaxWeight);
      this.sketch('sigma_gain', sigmaGain);
    }
    // another reason for a uniform σ may stand in the place of that code
    const isAlike = reward === null || (baseline !== null && Math.abs(reward - baseline) < SMALL_RETURN);
    if (isAlike || status.some((code) => NOTHING_TO_SHARE.includes(code))) return;
    const sign = reward > (baseline ?? 0.5) ? 'right' : 'wrong';
    this.returns[sign]++;
    if (!isUniform) this.uneven[sign]++;
  }

  private addValues({ reward, trace, segments, valueStart }: OutputRow, side: string, place: number): void {
    const values = [valueStart, ...segments.map(({ value }) => value)].filter((value) => value !== null);
    const [first, last] = [values[0] as number, values.at(-1) as number];
    this.sketch('value_range', rangeOf(values));
    if (!this.hasLevel || reward === null || (side !== 'right' && side !== 'wrong')) return;
    this.levels[side].start.add(first);
    this.levels[side].end.add(last);
    this.valueEnd.add(last, reward);
    const disagreement = values.reduce((least, v) => Math.min(least, Math.abs(v - reward)), 1);
    if (disagreement < DISAGREEING) return;
    this.disagreeing++;
    this.disagreements.add(disagreement, { id: trace.id, row: place, reward, disagreement });
  }

  private sketch(name: DistributionName, x: number | null): void {
    if (x !== null) this.sketches.get(name)?.add(x);
  }

  get numbers() {
    const { hasLevel, levels, rewards } = this;
    const drawn = DISTRIBUTIONS.map((name) => [name, this.sketches.get(name)?.distribution]);
    const level = (side: Side) => ({
      start: levels[side].start.distribution,
      end: levels[side].end.distribution,
    });
    return {
      /** traces and their tokens; traces with σ; of these, by fallback uniform, and uniform in effect (no |σ·T − 1| of .01) */
      ...this.sums,
      /** traces whose log p is nearer to guessing than to certainty; those whose text has `</think>`, where the text was looked at */
      ...this.marks,
      /** rows that were rejected, or are not as `score` writes them, by code */
      unreadable: Object.fromEntries(this.rejects.counts.map(({ code, count }) => [code, count])) as Tally,
      ...rewards,
      /** traces by status code, the most frequent first; `ok` where there is none */
      status: Object.fromEntries([...this.status].sort(([, a], [, b]) => b - a)) as Tally,
      /** of traces above their baseline (`right`) and below it those with something to share out; of these, those that are not uniform in effect */
      ...{ returns: { ...this.returns }, uneven: { ...this.uneven } },
      distributions: Object.fromEntries(drawn) as Record<DistributionName, Distribution>,
      /** of traces whose σ is their rule's */
      positions: this.positions.profile,
      /** of right traces (reward above ½) and wrong ones; null where a value's level says nothing of the reward */
      values: hasLevel ? { right: level('right'), wrong: level('wrong') } : null,
      /** v̂(s_K) beside the reward; null as `values` */
      calibration: { value_end: hasLevel ? this.valueEnd.curve : null },
      /** null as `values` */
      label_noise: hasLevel
        ? {
            ...{ threshold: DISAGREEING, count: this.disagreeing },
            ...{ of: rewards.right + rewards.wrong, traces: this.disagreements.things },
          }
        : null,
    };
  }
}

/** The largest value less the smallest; 0 where all of them are −∞ (`joint`). */
function rangeOf(values: readonly number[]): number {
  const high = values.reduce((a, b) => Math.max(a, b));
  const low = values.reduce((a, b) => Math.min(a, b));
  return high > low ? high - low : 0;
}
