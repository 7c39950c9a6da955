// Counts scored traces one by one, for the question whether their run is to be trusted.

import type { BadRow } from '../rows.js';
import { isFallback, type OutputRow, withoutShown } from '../scored.js';
import { type Histogram, rangeOf, Tally } from './figures.js';
import { type Distribution, Positions, Reliability, Sketch, Top } from './gathered.js';

/** A trace whose reward fits none of its values. */
export interface Disagreement {
  readonly id: string;
  readonly row: number;
  readonly reward: number;
  /** the smallest |v̂ − ζ| of all exits */
  readonly disagreement: number;
}

const DISTRIBUTIONS = [
  ...(['sigma_ess', 'sigma_ess_share', 'sigma_max_weight', 'sigma_gain'] as const),
  ...(['value_range', 'mean_logprob', 'mean_entropy', 'tokens', 'segments', 'segment_tokens'] as const),
] as const;
type DistributionName = (typeof DISTRIBUTIONS)[number];

/** What the run page shows, and `summary --json` prints. */
export type RunNumbers = RunCounts['numbers'];

/** From here on a reward fits none of a trace's values. */
const DISAGREEING = 0.9;
const DISAGREEMENTS_SHOWN = 20;

/** Gathers the numbers; what it holds does not grow with the number of traces. */
export class RunCounts {
  private readonly tally = new Tally();
  private readonly sketches = new Map(DISTRIBUTIONS.map((name) => [name, new Sketch()]));
  private readonly positions = new Positions();
  private readonly levels = {
    right: { start: new Sketch(), end: new Sketch() },
    wrong: { start: new Sketch(), end: new Sketch() },
  };
  private readonly valueEnd = new Reliability();
  private readonly disagreements = new Top<Disagreement>(DISAGREEMENTS_SHOWN);
  private readonly rewards = { right: 0, wrong: 0, unknown: 0 };
  private disagreeing = 0;
  private traces = 0;
  private tokens = 0;
  private ok = 0;

  /** @param hasLevel a value is an expected reward, so that it can be held against one */
  constructor(private readonly hasLevel: boolean) {}

  /** @param values (K+1) v̂(s_0..K) @param place number of the row in the file that is counted */
  add(row: OutputRow, values: Float32Array, place: number): void {
    const { reward, status, sigmaEss, sigmaMaxWeight, sigmaGain } = row;
    const { segments, sigma, logprobs, entropies } = withoutShown(row);
    const T = sigma?.length ?? segments.at(-1)?.end ?? 0;
    this.traces++;
    this.tokens += T;
    if (status.length === 0) this.ok++;
    this.tally.add(row);
    const side = reward === null ? 'unknown' : reward > 0.5 ? 'right' : 'wrong';
    this.rewards[side]++;
    const hasCredit = sigma !== null && !status.some(isFallback);
    if (hasCredit) this.positions.add(sigma, side);
    if (hasCredit) {
      this.sketch('sigma_ess', sigmaEss);
      this.sketch('sigma_ess_share', sigmaEss && sigmaEss / T);
      this.sketch('sigma_max_weight', sigmaMaxWeight);
      this.sketch('sigma_gain', sigmaGain);
    }
    this.sketch('mean_logprob', mean(logprobs));
    this.sketch('mean_entropy', mean(entropies));
    if (T > 0) this.sketch('tokens', T);
    const thoughts = segments.filter(({ kind }) => kind === 'thought');
    this.sketch('segments', thoughts.length);
    for (const { start, end } of thoughts)
      if (start !== null && end !== null) this.sketch('segment_tokens', end - start);
    this.addValues(row, values, side, place);
  }

  private addValues({ reward, trace }: OutputRow, values: Float32Array, side: string, place: number): void {
    const [first] = values;
    const last = values.at(-1);
    if (first === undefined || last === undefined) return;
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

  /** A row that could not be read as a scored trace. */
  reject(bad: BadRow): void {
    this.tally.reject(bad);
  }

  private sketch(name: DistributionName, x: number | null): void {
    if (x !== null) this.sketches.get(name)?.add(x);
  }

  get numbers() {
    const { hasLevel, levels } = this;
    const { figures } = this.tally;
    const codes = Object.entries(figures.status).sort(([, a], [, b]) => b - a);
    const drawn = DISTRIBUTIONS.map((name) => [name, this.sketches.get(name)?.distribution]);
    const level = (side: 'right' | 'wrong') => ({
      start: levels[side].start.distribution,
      end: levels[side].end.distribution,
    });
    return {
      traces: this.traces,
      tokens: this.tokens,
      /** rows that are not as `score` writes them, by code */
      unreadable: figures.rejects,
      ...this.rewards,
      /** traces by status code; `ok` where there is none */
      status: { ...(this.ok > 0 && { ok: this.ok }), ...Object.fromEntries(codes) } as Histogram,
      /** traces with σ; of these, by fallback uniform, and uniform in effect (no |σ·T − 1| of .01) */
      credited: figures.credited,
      uniform_by_fallback: figures.fallbacks,
      uniform_in_effect: figures.uniform,
      /** of right and of wrong traces those with something to share out; of these, those that are not uniform in effect */
      returns: figures.returns,
      uneven: figures.uneven,
      distributions: Object.fromEntries(drawn) as Record<DistributionName, Distribution>,
      /** of traces whose σ is their rule's */
      positions: this.positions.profile,
      /** of right traces (reward above ½) and wrong ones; null where a value's level says nothing of the reward */
      values: hasLevel ? { right: level('right'), wrong: level('wrong') } : null,
      calibration: {
        /** v̂(s_K) beside the reward; null as `values` */
        value_end: hasLevel ? this.valueEnd.curve : null,
      },
      /** null as `values` */
      label_noise: hasLevel
        ? {
            ...{ threshold: DISAGREEING, count: this.disagreeing },
            ...{ of: this.rewards.right + this.rewards.wrong, traces: this.disagreements.things },
          }
        : null,
    };
  }
}

/** null of nothing */
export function mean(list: Float32Array | null): number | null {
  return list === null || list.length === 0 ? null : list.reduce((sum, x) => sum + x, 0) / list.length;
}
