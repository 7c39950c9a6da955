// What is gathered of a scored file beside a run's own numbers, for `summary` and the run page: distributions, means by prediction and by place,
// and the few traces that are worth a page, of the right and the wrong some by chance, and those that turned the most. None of it grows with the traces.

import { extremes, mean } from '../scored/choose.js';
import { isFallback, type OutputRow, withoutShown } from '../scored.js';
import { RunCounts, type Side, Sketch, sideOf } from './counts.js';

/** What is told of a list of numbers. */
export type Distribution = ReturnType<typeof distributionOf>;

const BARS = 24;

/** Without numbers all but `n` and `bars` are null. */
export function distributionOf(sketch: Sketch) {
  const { n, mean, min, max, bins } = sketch;
  const at = (share: number) => sketch.quantile(share);
  const high = at(0.99) ?? min;
  const width = (high - min) / BARS;
  const counts = new Array<number>(n === 0 ? 0 : width > 0 ? BARS : 1).fill(0);
  for (const [x, n] of bins) {
    const k = width > 0 ? Math.min(BARS - 1, Math.max(0, Math.floor((x - min) / width))) : 0;
    counts[k] = (counts[k] as number) + n;
  }
  return {
    ...{ n, mean, min: n === 0 ? null : min },
    ...{ p05: at(0.05), p25: at(0.25), median: at(0.5), p75: at(0.75), p95: at(0.95) },
    max: n === 0 ? null : max,
    /** how many lie from `from` (inclusive) to `to`: from the smallest to the 99th percentile; the last one holds what lies beyond */
    bars: counts.map((n, k) => ({
      from: min + k * width,
      to: k === counts.length - 1 ? max : min + (k + 1) * width,
      n,
    })),
  };
}

/** Holds `size` things at most, those of the largest keys; of equal keys the first that came. */
export class Top<T> {
  private readonly kept: { readonly key: number; readonly thing: T }[] = [];

  constructor(private readonly size: number) {}

  add(key: number, thing: T): void {
    const { kept, size } = this;
    if (size === 0 || Number.isNaN(key)) return;
    if (kept.length === size && key <= (kept[size - 1]?.key as number)) return;
    let at = kept.length;
    while (at > 0 && (kept[at - 1]?.key as number) < key) at--;
    kept.splice(at, 0, { key, thing });
    if (kept.length > size) kept.pop();
  }

  /** from the largest on */
  get things(): readonly T[] {
    return this.kept.map(({ thing }) => thing);
  }
}

export type ReliabilityCurve = Reliability['curve'];

const BINS = 10;

/** Gathers predictions from 0 to 1, and the rewards that followed. */
export class Reliability {
  private readonly bins = Array.from({ length: BINS }, () => ({ n: 0, predicted: 0, reward: 0 }));
  private n = 0;
  private squares = 0;

  add(prediction: number, reward: number): void {
    const k = Math.min(BINS - 1, Math.max(0, Math.floor(prediction * BINS)));
    const bin = this.bins[k] as (typeof this.bins)[number];
    bin.n++;
    bin.predicted += prediction;
    bin.reward += reward;
    this.n++;
    this.squares += (prediction - reward) ** 2;
  }

  get curve() {
    const { n } = this;
    const bins = this.bins.map((bin, k) => ({
      ...{ from: k / BINS, to: (k + 1) / BINS, n: bin.n },
      predicted: bin.n === 0 ? null : bin.predicted / bin.n,
      reward: bin.n === 0 ? null : bin.reward / bin.n,
    }));
    const off = bins.reduce(
      (sum, bin) => sum + bin.n * Math.abs((bin.predicted ?? 0) - (bin.reward ?? 0)),
      0,
    );
    return {
      ...{ n, bins },
      /** mean |predicted − reward| of the bins, each weighing as much as it holds; null without predictions */
      error: n === 0 ? null : off / n,
      /** mean squared difference of prediction and reward */
      brier: n === 0 ? null : this.squares / n,
    };
  }
}

const STRETCHES = 20;

/** Gathers them; traces weigh alike, whatever their length. */
export class Positions {
  private readonly sums = { right: stretches(), wrong: stretches() };

  /** @param sigma (T), which sums to 1 @param side of the reward; unknown is left out */
  add(sigma: Float32Array, side: 'right' | 'wrong' | 'unknown'): void {
    if (side === 'unknown') return;
    const T = sigma.length;
    for (const [k, stretch] of this.sums[side].entries()) {
      const [from, to] = [Math.floor((k * T) / STRETCHES), Math.floor(((k + 1) * T) / STRETCHES)];
      // a trace of fewer tokens has nothing in some of them
      if (to === from) continue;
      stretch.sum += (sigma.subarray(from, to).reduce((sum, s) => sum + s, 0) * T) / (to - from);
      stretch.n++;
    }
  }

  /** Mean σ·T of each stretch, from a trace's beginning to its end: 1 everywhere is uniform; null without traces. */
  get profile() {
    const of = (side: 'right' | 'wrong') =>
      this.sums[side].every(({ n }) => n === 0)
        ? null
        : this.sums[side].map(({ sum, n }) => sum / Math.max(1, n));
    return { right: of('right'), wrong: of('wrong') };
  }
}

const stretches = () => Array.from({ length: STRETCHES }, () => ({ sum: 0, n: 0 }));

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

/** What the run page shows, and `summary --json` prints. */
export type FileNumbers = FileCounts['numbers'];

/** From here on a reward fits none of a trace's values. */
const DISAGREEING = 0.9;
const DISAGREEMENTS_SHOWN = 20;

/** Gathers the numbers of a scored file. */
export class FileCounts extends RunCounts {
  private readonly shapes = {
    ...{ sigma_ess: new Sketch(), sigma_ess_share: new Sketch(), sigma_max_weight: new Sketch() },
    ...{ mean_entropy: new Sketch(), tokens: new Sketch(), segments: new Sketch() },
    segment_tokens: new Sketch(),
  };
  private readonly positions = new Positions();
  private readonly levels = {
    right: { start: new Sketch(), end: new Sketch() },
    wrong: { start: new Sketch(), end: new Sketch() },
  };
  private readonly valueEnd = new Reliability();
  private readonly disagreements = new Top<Disagreement>(DISAGREEMENTS_SHOWN);
  private disagreeing = 0;

  /**
   * @param hasLevel a value is an expected reward, so that it can be compared with one
   * @param vocab tokens of the policy's vocabulary; undefined where nothing tells
   */
  constructor(
    private readonly hasLevel: boolean,
    vocab?: number,
  ) {
    super(vocab);
  }

  /** @param place number of the row in the file that is counted */
  override add(row: OutputRow, place = row.trace.source.row): void {
    super.add(row);
    const { shapes } = this;
    const { segments, sigma, entropies } = withoutShown(row);
    const T = sigma?.length ?? segments.at(-1)?.end ?? 0;
    if (sigma !== null && !row.status.some(isFallback)) {
      this.positions.add(sigma, sideOf(row.reward));
      shapes.sigma_ess.add(row.sigmaEss);
      shapes.sigma_ess_share.add(row.sigmaEss && row.sigmaEss / sigma.length);
      shapes.sigma_max_weight.add(row.sigmaMaxWeight);
    }
    shapes.mean_entropy.add(mean(entropies));
    if (T > 0) shapes.tokens.add(T);
    const thoughts = segments.filter(({ kind }) => kind === 'thought');
    shapes.segments.add(thoughts.length);
    for (const { start, end } of thoughts)
      if (start !== null && end !== null) shapes.segment_tokens.add(end - start);
    if (this.hasLevel) this.addLevel(row, place);
  }

  private addLevel({ reward, trace, segments, valueStart }: OutputRow, place: number): void {
    const side = sideOf(reward);
    if (valueStart === null || reward === null || side === 'unknown') return;
    const values = [valueStart, ...segments.map(({ value }) => value)].filter((value) => value !== null);
    const last = values.at(-1) as number;
    this.levels[side].start.add(valueStart);
    this.levels[side].end.add(last);
    this.valueEnd.add(last, reward);
    const disagreement = values.reduce((least, v) => Math.min(least, Math.abs(v - reward)), 1);
    if (disagreement < DISAGREEING) return;
    this.disagreeing++;
    this.disagreements.add(disagreement, { id: trace.id, row: place, reward, disagreement });
  }

  override get numbers() {
    const { hasLevel, levels, rewards } = this;
    const sketches = { ...this.sketches, ...this.shapes };
    const level = (side: Side) => ({
      start: distributionOf(levels[side].start),
      end: distributionOf(levels[side].end),
    });
    return {
      ...super.numbers,
      distributions: Object.fromEntries(
        DISTRIBUTIONS.map((name) => [name, distributionOf(sketches[name])]),
      ) as Record<(typeof DISTRIBUTIONS)[number], Distribution>,
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

/** Why a trace has a page. */
export type Kind = 'right' | 'wrong' | 'decisive' | 'harmful';

export const KINDS: readonly Kind[] = ['harmful', 'decisive', 'wrong', 'right'];

/** A name's hash (FNV-1a, 32 bits), for what is to look like chance and be the same every time. */
function fnv1a(name: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
  return (hash ^ (hash >>> 15)) >>> 0;
}

/** Chooses; the same traces whatever their order, but for equal ones. */
export class TraceChoice {
  private readonly tops: ReadonlyMap<Kind, Top<number>>;

  /** @param isMagnitude the estimator's differences are magnitudes, whatever their sign */
  constructor(
    private readonly most: number,
    private readonly isMagnitude: boolean,
  ) {
    this.tops = new Map(KINDS.map((kind) => [kind, new Top<number>(most)]));
  }

  add(row: OutputRow): void {
    const { reward, status } = row;
    const { id, source } = row.trace;
    const { ordinal } = source;
    const isRight = reward !== null && reward > 0.5;
    if (reward !== null) this.tops.get(isRight ? 'right' : 'wrong')?.add(fnv1a(id), ordinal);
    if (status.some(isFallback)) return;
    const { rise, fall } = extremes(row, this.isMagnitude);
    if (rise > 0) this.tops.get('decisive')?.add(rise, ordinal);
    if (fall > 0) this.tops.get('harmful')?.add(fall, ordinal);
  }

  /** The chosen by number of their row, each with why; a kind at a time, so that none crowds out another. */
  get chosen(): ReadonlyMap<number, readonly Kind[]> {
    const found = new Map<number, Kind[]>();
    for (let rank = 0; rank < this.most; rank++)
      for (const kind of KINDS) {
        const ordinal = this.tops.get(kind)?.things[rank];
        if (ordinal === undefined) continue;
        const kinds = found.get(ordinal);
        if (kinds !== undefined) kinds.push(kind);
        else if (found.size < this.most) found.set(ordinal, [kind]);
      }
    return found;
  }
}
