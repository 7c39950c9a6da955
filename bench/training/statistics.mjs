// Statistics of training runs: curves of accuracy, their areas, steps to a level with intervals, and exact tests over seeds.
import { randomStream } from '../../dist/compare/bootstrap.js';

/** Looks at all held-out problems: at 70 % of the steps, and at the end. */
export const wholeLooks = (looks) => looks.filter(({ of }) => of === looks.at(-1).of);

/**
 * A run's held-out accuracy, smoothed. A look samples one quarter of the problems, in turn; a window of five looks whose ends count
 * half holds every quarter once. Near the start and the end the window is as wide as it can be on both sides; the last point is the look at all problems.
 * @param looks {step, tokens, held_out, of}[], the last of all problems
 */
export function smoothed(looks) {
  const parts = looks.filter(({ of }) => of < looks.at(-1).of);
  return [
    ...parts.map(({ step, tokens }, n) => {
      const reach = Math.min(2, n, parts.length - 1 - n);
      let [sum, weight] = [0, 0];
      for (let k = n - reach; k <= n + reach; k++) {
        const w = reach > 0 && Math.abs(k - n) === reach ? 0.5 : 1;
        sum += w * parts[k].held_out;
        weight += w;
      }
      return { step, tokens, accuracy: sum / weight };
    }),
    { step: looks.at(-1).step, tokens: looks.at(-1).tokens, accuracy: looks.at(-1).held_out },
  ];
}

/** Mean height of a curve over `by` (step or tokens), by trapezoids. */
export function area(curve, by = 'step') {
  let sum = 0;
  for (let n = 1; n < curve.length; n++)
    sum += ((curve[n].accuracy + curve[n - 1].accuracy) / 2) * (curve[n][by] - curve[n - 1][by]);
  return sum / (curve.at(-1)[by] - curve[0][by]);
}

/** Where the curve first reaches the level, by straight lines between its points; Infinity where it never does. */
export function reaches(curve, level, by = 'step') {
  if (curve[0].accuracy >= level) return curve[0][by];
  for (let n = 1; n < curve.length; n++) {
    const [a, b] = [curve[n - 1], curve[n]];
    if (b.accuracy >= level)
      return a[by] + ((level - a.accuracy) / (b.accuracy - a.accuracy)) * (b[by] - a[by]);
  }
  return Number.POSITIVE_INFINITY;
}

/** Mean of curves that look at the same steps. */
export function meanCurve(curves) {
  return curves[0].map(({ step }, n) => ({
    step,
    tokens: mean(curves.map((curve) => curve[n].tokens)),
    accuracy: mean(curves.map((curve) => curve[n].accuracy)),
  }));
}

const RESAMPLES = 2000;

/**
 * A figure of all seeds, and the 2.5 and 97.5 % of it over drawings of as many seeds with replacement; of one seed there is no interval.
 * All figures see the same drawings. Infinity is a value as any other: a level that is not reached in every 40th drawing has no upper end.
 * @param of the figure of a list of seeds
 */
export function overSeeds(seeds, of) {
  const value = of(seeds);
  if (seeds.length < 2) return { value, low: Number.NaN, high: Number.NaN };
  const random = randomStream(1);
  const values = Array.from({ length: RESAMPLES }, () =>
    of(seeds.map(() => seeds[Math.floor((random() / 2 ** 32) * seeds.length)])),
  ).sort((a, b) => a - b);
  const at = (share) => values[Math.round(share * (RESAMPLES - 1))];
  return { value, low: at(0.025), high: at(0.975) };
}

export const mean = (values) => values.reduce((sum, v) => sum + v, 0) / values.length;

/**
 * Exact two-sided sign-flip test of paired differences: the share of all 2^n choices of signs whose mean is at least as far from 0.
 * With n seeds it cannot go below 2^(1−n).
 */
export function signFlip(differences) {
  const n = differences.length;
  const seen = Math.abs(mean(differences));
  let far = 0;
  for (let signs = 0; signs < 2 ** n; signs++) {
    let sum = 0;
    for (let i = 0; i < n; i++) sum += signs & (1 << i) ? -differences[i] : differences[i];
    if (Math.abs(sum / n) >= seen * (1 - 1e-12)) far++;
  }
  return far / 2 ** n;
}

/**
 * Exact two-sided test of the ratio of one figure of two arms: in all 2^n ways the arms of some seeds change places; the share of the
 * ways whose ratio is at least as far from 1. As with signs it cannot go below 2^(1−n).
 * @param pairs [own, other] of each seed
 * @param figure a positive number of one arm's runs
 */
export function exchange(pairs, figure) {
  const distance = (swapped) => {
    const arm = (which) => figure(pairs.map((pair, i) => pair[swapped & (1 << i) ? 1 - which : which]));
    return Math.abs(Math.log(arm(0) / arm(1)));
  };
  const seen = distance(0);
  let far = 0;
  for (let swapped = 0; swapped < 2 ** pairs.length; swapped++) if (distance(swapped) >= seen - 1e-12) far++;
  return far / 2 ** pairs.length;
}

/** Student's 97.5 % quantiles for 1 to 30 degrees of freedom. */
const T = [
  ...[12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228],
  ...[2.201, 2.179, 2.16, 2.145, 2.131, 2.12, 2.11, 2.101, 2.093, 2.086],
  ...[2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048, 2.045, 2.042],
];

/** Mean and the half width of its 95 % interval; no width of a single value. */
export function interval(values) {
  const m = mean(values);
  const n = values.length;
  if (n < 2) return { mean: m, half: Number.NaN };
  const deviation = Math.sqrt(values.reduce((sum, v) => sum + (v - m) ** 2, 0) / (n - 1));
  return { mean: m, half: ((T[n - 2] ?? 1.96) * deviation) / Math.sqrt(n) };
}
