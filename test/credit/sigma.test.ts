/** σ against METHOD 4: worked examples, what the oracle does not say, and the oracle. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { boundedSteps, certainty, smoothedValues } from '../../dist/credit/martingale.js';
import { isMartingale } from '../../dist/credit/nature.js';
import { RULES, SIGMA_RULES, type SigmaRule } from '../../dist/credit/rules.js';
import {
  RESIDUALS,
  type Redistribution,
  redistribute,
  type SigmaInput,
  type SigmaOptions,
  segmentAdvantages,
  sigmaFigures,
  WITHINS,
} from '../../dist/credit/sigma.js';
import { ESTIMATORS } from '../../dist/estimate/registry.js';
import { differences, type Estimator as OracleEstimator } from '../oracle/rredcot.js';
import { computeSigma, type SigmaResult, smoothedWalk, steppedValues } from '../oracle/sigma.js';
import { seeded } from '../oracle/toy.js';
import { named } from '../support/estimators.js';

const total = (numbers: ArrayLike<number>) => Array.from(numbers).reduce((a, b) => a + b, 0);

const RUDDER: SigmaOptions = { rule: 'rudder', residual: 'uniform', within: 'uniform' };
const OPTIONS: SigmaOptions[] = SIGMA_RULES.flatMap((rule) =>
  RESIDUALS.flatMap((residual) => WITHINS.map((within) => ({ rule, residual, within }))),
);

/** METHOD 4's wrong trace: v(s_0..3) = .5 .5 .8 .1, ζ = 0, b = .5, three thought segments and the answer. */
const WRONG: SigmaInput = {
  ends: Int32Array.of(10, 20, 30, 40),
  answered: true,
  values: Float32Array.of(0.5, 0.5, 0.8, 0.1),
  estimator: named('pr'),
  entropies: Float32Array.from({ length: 40 }, (_, t) => (t % 7) / 4),
  logprobs: Float32Array.from({ length: 40 }, (_, t) => -(t % 5) / 8),
  reward: 0,
  baseline: 0.5,
};

const segmentShares = (sigma: Float32Array, ends: Int32Array) =>
  Array.from(ends, (end, k) => total(sigma.subarray(ends[k - 1] ?? 0, end)));

/** Every σ of a run is the uniform one, as stored: 1/|o| rounded to float32. */
const isUniform = ({ sigma }: Redistribution) => sigma.every((s) => s === Math.fround(1 / sigma.length));

// fc.float alone draws mostly tiny numbers: half of the draws are even over [0, 1]
const float = fc.oneof(
  fc.integer({ min: 0, max: 1000 }).map((n) => Math.fround(n / 1000)),
  fc.float({ min: 0, max: 1, noNaN: true }),
);
const anyTrace = fc
  .record({
    lengths: fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1, maxLength: 9 }),
    answered: fc.boolean(),
    estimator: fc.constantFrom(...ESTIMATORS),
    values: fc.array(fc.oneof(float, fc.constantFrom(0, 1, 0.5)), { minLength: 10, maxLength: 10 }),
    silent: fc.array(fc.boolean(), { minLength: 9, maxLength: 9 }),
    shownBehind: fc.option(fc.array(fc.boolean(), { minLength: 9, maxLength: 9 }), { nil: [] }),
    noise: fc.oneof(
      ...[[], Array(9).fill(99)].map(fc.constant),
      fc.array(float, { minLength: 9, maxLength: 9 }),
    ),
    entropies: fc.array(fc.float({ min: 0, max: 12, noNaN: true }), { minLength: 108, maxLength: 108 }),
    reward: fc.oneof(
      { weight: 5, arbitrary: fc.constantFrom(0, 1) },
      { weight: 4, arbitrary: float },
      { weight: 1, arbitrary: fc.constant(null) },
    ),
    baseline: fc.oneof({ weight: 9, arbitrary: float }, { weight: 1, arbitrary: fc.constant(undefined) }),
  })
  .map(({ lengths, silent, answered, estimator, ...rest }): SigmaInput => {
    const ends = lengths.map((_, k) => total(lengths.slice(0, k + 1)));
    const K = lengths.length - (answered ? 1 : 0);
    const values = Float32Array.from(rest.values.slice(0, K + 1), (v) =>
      // the values of a logarithm of steps are all impossible, or none is
      estimator.isLog ? Math.log(estimator.name === 'joint' ? v : Math.max(v, 1e-3)) * 9 : v,
    );
    const entropies = Float32Array.from(rest.entropies.slice(0, ends.at(-1)));
    for (const [k, end] of ends.entries())
      if (silent[k] && k % 2 === 0) entropies.fill(0, ends[k - 1] ?? 0, end);
    const { reward, baseline, shownBehind } = rest;
    const noise = Float32Array.from(rest.noise, (n) => n / 2);
    const logprobs = entropies.map((h, t) => -h * ((t % 4) / 2));
    return {
      ends: Int32Array.from(ends),
      answered,
      values,
      estimator,
      entropies,
      logprobs,
      reward,
      baseline,
      ...{ shownBehind, noise },
    };
  });

/** `signed` divides by ζ − v(s_0), so it is not offered where values are logarithms or sums of attributions. */
const readable = (input: SigmaInput, rule: SigmaRule): SigmaInput => {
  if (rule !== 'signed' || input.estimator.noLevel === undefined) return input;
  const { isLog } = input.estimator;
  return {
    ...input,
    estimator: named('pr'),
    values: isLog ? input.values.map((v) => Math.exp(v)) : input.values,
  };
};
const TOKEN_RULES = SIGMA_RULES.filter((rule) => RULES[rule].ofTokens);

const softmaxed = (scores: number[]) => {
  const sum = total(scores.map(Math.exp));
  return scores.map((score) => Math.exp(score) / sum);
};

describe('the wrong-trace table', () => {
  const shares = (options: Partial<SigmaOptions>) =>
    segmentShares(redistribute(WRONG, { ...RUDDER, ...options }).sigma, WRONG.ends);

  test.each([
    ['rudder', {}, [0.05, -0.55, 1.45, 0.05]],
    ['share', { rule: 'share' }, [0.025, 0.025, 0.925, 0.025]],
    ['residual answer', { residual: 'answer' }, [0, -0.6, 1.4, 0.2]],
    ['signed', { rule: 'signed' }, [0, -0.6, 1.4, 0.2]],
    ['softmax', { rule: 'softmax', tau: 0.1 }, softmaxed([0, -3, 7, 0])],
    ['uniform', { rule: 'uniform' }, [0.25, 0.25, 0.25, 0.25]],
  ] as const)('%s', (_, options, expected) => {
    for (const within of WITHINS) {
      for (const [k, share] of shares({ ...options, within }).entries())
        expect(share).toBeCloseTo(expected[k] as number, 6);
    }
  });
});

describe('invariants of METHOD 4', () => {
  test('Σσ = 1 also on long traces', () => {
    const random = seeded(5);
    const lengths = Array.from({ length: 41 }, () => 1 + Math.floor(random() * 1200));
    const ends = Int32Array.from(lengths, (_, k) => total(lengths.slice(0, k + 1)));
    const input: SigmaInput = {
      ends,
      answered: true,
      values: Float32Array.from({ length: 41 }, random),
      estimator: named('pr'),
      entropies: Float32Array.from({ length: ends.at(-1) as number }, () => random() ** 4 * 3),
      logprobs: Float32Array.from({ length: ends.at(-1) as number }, () => -(random() ** 8)),
      reward: 1,
      baseline: 0.9375,
    };
    for (const options of OPTIONS) {
      const { sigma } = redistribute(input, options);
      expect(Math.abs(total(sigma) - 1)).toBeLessThanOrEqual(1e-6 * Math.max(1, total(sigma.map(Math.abs))));
    }
  });

  test('joint: values that no float holds as probabilities still differ', () => {
    const input: SigmaInput = {
      ...WRONG,
      estimator: named('joint'),
      values: Float32Array.of(-2000, -1999, -2001, -2000),
    };
    const { deltas, fallback } = redistribute(input, RUDDER);
    expect(fallback).toBeUndefined();
    const [up, down] = [1 - Math.exp(-1), Math.exp(-2) - 1];
    expect((deltas[0] as number) / (deltas[1] as number)).toBeCloseTo(up / down, 5);
    const lost = redistribute(
      { ...input, values: new Float32Array(4).fill(Number.NEGATIVE_INFINITY) },
      RUDDER,
    );
    expect([...lost.deltas]).toEqual([0, 0, 0, 0]);
    expect(isUniform(lost)).toBe(true);
  });
});

describe('fallbacks', () => {
  const of = (input: Partial<SigmaInput>, options: Partial<SigmaOptions> = {}) =>
    redistribute({ ...WRONG, ...input }, { ...RUDDER, ...options });

  test('|R*| < 0.05: uniform:small-return for rudder, at 0.05 not; share asks for the sign alone', () => {
    expect(of({ reward: 0.549 }).fallback).toBe('uniform:small-return');
    expect(isUniform(of({ reward: 0.451 }))).toBe(true);
    expect(of({ reward: 0.05, baseline: 0 }).fallback).toBeUndefined();
    expect(of({ reward: 0, baseline: 0.05 }).fallback).toBeUndefined();
    expect(of({ reward: 0.549 }, { rule: 'share' }).fallback).toBeUndefined();
    expect(of({ reward: 0.5 }, { rule: 'share' }).fallback).toBe('uniform:small-return');
  });

  test('values that do not move: uniform:flat-values, whatever the rule, before the return is looked at', () => {
    for (const rule of ['rudder', 'share'] as const) {
      for (const reward of [0, 0.5, 1]) {
        // values of 1e-23, as a policy gives them that never saw such a text; and steps just below .001
        for (const values of [
          [1e-23, 3e-23, 2e-23, 4e-23],
          [0.5, 0.5009, 0.5, 0.4991],
        ]) {
          const flat = of({ values: Float32Array.from(values), reward }, { rule });
          expect(flat.fallback).toBe('uniform:flat-values');
          expect(isUniform(flat)).toBe(true);
        }
        // one step above it is credit
        const moved = of(
          { values: Float32Array.of(0.5, 0.5011, 0.5, 0.4989), reward, baseline: 0.3 },
          { rule },
        );
        expect(moved.fallback).toBeUndefined();
      }
      expect(of({ reward: null, values: new Float32Array(4) }, { rule }).fallback).toBe('reward:unknown');
      expect(of({ baseline: undefined, values: new Float32Array(4) }, { rule }).fallback).toBe(
        'uniform:no-baseline',
      );
    }
    // without any thought there is one value
    const bare = of({ ends: Int32Array.of(40), values: Float32Array.of(0.3) });
    expect(bare.fallback).toBe('uniform:flat-values');
  });

  test('joint: flat where all log v̂ are neighbours in float32, whose noise is not blown up to |R*|', () => {
    const joint = (...values: number[]) =>
      of({ estimator: named('joint'), values: Float32Array.from(values) }, { rule: 'share' });
    // at 100 float32 numbers are 7.6e-6 apart
    for (const values of [
      [-100, -100, -100, -100],
      [-100, -100 + 7.6e-6, -100, -100],
      [-3000, -3000.0002, -3000, -3000],
      Array(4).fill(Number.NEGATIVE_INFINITY),
    ]) {
      const flat = joint(...values);
      expect(flat.fallback).toBe('uniform:flat-values');
      expect(total(flat.deltas.map(Math.abs))).toBeLessThan(1e-3);
    }
    for (const values of [
      [-100, -100.001, -100.002, -100],
      [-100, -100, -100.00003, -100],
      [Number.NEGATIVE_INFINITY, -3, Number.NEGATIVE_INFINITY, -3],
    ])
      expect(joint(...values).fallback).toBeUndefined();
  });
});

/** None, as is the default, or some of each. */
const shaping = fc.oneof(
  fc.constant({ tau: 1, gamma: 0.99, mix: 0.1, steps: 'free' as const }),
  fc.record({
    tau: fc.constantFrom(0.1, 0.5, 3),
    gamma: fc.constantFrom(0.2, 0.99, 1),
    mix: fc.constantFrom(0, 0.1, 0.8, 1),
    cap: fc.constantFrom(1, 1.5, 4, Number.POSITIVE_INFINITY),
    steps: fc.constantFrom('free', 'scaled', 'smoothed'),
  }),
);

describe('shaping', () => {
  test('keeps Σσ, and what is not negative', () => {
    fc.assert(
      fc.property(anyTrace, fc.constantFrom(...OPTIONS), shaping, (drawn, options, shaped) => {
        const input = readable(drawn, options.rule);
        const steps = isMartingale(input.estimator) ? shaped.steps : 'free';
        const { sigma } = redistribute(input, { ...options, ...shaped, steps });
        const mass = total(sigma.map(Math.abs));
        expect(Math.abs(total(sigma) - 1)).toBeLessThanOrEqual(1e-6 * Math.max(1, mass));
        if ('cap' in shaped && options.rule === 'share')
          expect(Math.max(...sigma) * sigma.length).toBeLessThanOrEqual(shaped.cap * (1 + 1e-6));
        const mayBeNegative = options.rule === 'rudder' || options.rule === 'signed';
        if (!mayBeNegative) expect(sigma.every((s) => s >= 0)).toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  test('a cap: what is above it falls on the tokens below, until none is above', () => {
    // .9 of σ on the first token, the others by H; .05 · 20 = 1 for all at a cap of 1
    const input: SigmaInput = { ...WRONG, ends: Int32Array.of(1, 4, 20), answered: false, reward: 1 };
    const at = (cap: number) => {
      const values = Float32Array.of(0.1, 0.8, 0.9, 0.9);
      const { sigma } = redistribute({ ...input, values, baseline: 0.1 }, { ...RUDDER, rule: 'share', cap });
      return Array.from(sigma, (s) => s * 20);
    };
    const [none, four, one] = [at(Number.POSITIVE_INFINITY), at(4), at(1)];
    expect(none[0]).toBeCloseTo(0.1 + (0.9 * 20 * 0.7) / 0.8, 5);
    expect(none[1]).toBeCloseTo(0.1 + (0.9 * 20 * 0.1) / 0.8 / 3, 5);
    expect(four[0]).toBeCloseTo(4, 5);
    const more = ((none[0] as number) - 4) / 19;
    for (const t of [1, 2, 3, 4, 19]) expect(four[t]).toBeCloseTo((none[t] as number) + more, 5);
    // the three tokens of the second segment come above 1.25 by what falls on them
    expect(at(1.25).map((weight) => Math.round(weight * 1e4) / 1e4)).toEqual([
      ...[1.25, 1.25, 1.25, 1.25],
      ...Array(16).fill(0.9375),
    ]);
    for (const weight of one) expect(weight).toBeCloseTo(1, 5);
  });

  test('no step is longer than the policy was unsure of its segment', () => {
    const ends = Int32Array.of(1, 2);
    const logprobs = Float32Array.of(Math.log(0.25), 0);
    expect([...certainty({ ends, logprobs }, 2)].map((p) => Math.round(p * 1e6) / 1e6)).toEqual([0.25, 1]);
    const values = Float64Array.of(0.2, 0.6, 0.9);
    const scaled = boundedSteps(values, { ends, logprobs }, 'scaled');
    expect(scaled.values).toBe(values);
    expect(scaled.deltas[0]).toBeCloseTo(0.3, 6);
    expect(scaled.deltas[1]).toBe(0);
    // rounding makes no segment more than certain
    expect(certainty({ ends, logprobs: Float32Array.of(1e-3, -1) }, 2)[0]).toBe(1);
    // of what a tool answers nobody was sure, though the policy was of all that it wrote
    const shown = { ends, logprobs: new Float32Array(2), shownBehind: [true, false] };
    expect([...certainty(shown, 2)]).toEqual([0, 1]);
    expect([...boundedSteps(values, shown, 'scaled').deltas]).toEqual([0.6 - 0.2, 0]);
    fc.assert(
      fc.property(
        fc.array(
          fc.record({
            value: fc.double({ min: 0, max: 1, noNaN: true }),
            p: fc.constantFrom(0, 1e-9, 0.3, 0.99, 1),
            right: fc.double({ min: 0, max: 4, noNaN: true }),
            wrong: fc.nat(4),
          }),
          { minLength: 2, maxLength: 12 },
        ),
        (states) => {
          const [own, pi] = [states.map(({ value }) => value), states.slice(1).map(({ p }) => p)];
          const found = smoothedValues(own, Float64Array.from(pi));
          for (const [k, value] of smoothedWalk(own, pi).entries()) expect(found[k]).toBeCloseTo(value, 9);
          const outcomes = states.map(({ right, wrong }) => [right, right + wrong] as const);
          const given = smoothedValues(own, Float64Array.from(pi), outcomes);
          for (const [k, value] of smoothedWalk(own, pi, outcomes).entries())
            expect(given[k]).toBeCloseTo(value, 9);
        },
      ),
      { numRuns: 60 },
    );
  });

  test('smoothing bears long walks of estimates that contradict each other', () => {
    const K = 400;
    const torn = Float64Array.from({ length: K + 1 }, (_, k) => (k < K / 2 ? 0 : 1));
    const found = smoothedValues(torn, new Float64Array(K).fill(1));
    for (const value of found) expect(value).toBeGreaterThan(0);
    expect(found[0]).toBeLessThan(0.1);
    expect(found[K]).toBeGreaterThan(0.9);
    // hundreds of completions at each state that say the contrary of all those before
    const all = Array.from(torn, (value) => [500 * value, 500] as const);
    const [first, last] = [0, K].map((k) => smoothedValues(torn, new Float64Array(K).fill(1), all)[k]);
    expect([first, last]).toEqual([expect.closeTo(0.005, 2), expect.closeTo(0.995, 2)]);
    // where they turn: as the oracle has it, whatever the chances are divided by
    const turn = Array.from({ length: 95 }, (_, k) => (k < 45 ? 1 : 0));
    const walk = smoothedValues(turn, new Float64Array(94).fill(1));
    for (const [k, value] of smoothedWalk(turn, Array(94).fill(1)).entries())
      expect(walk[k]).toBeCloseTo(value, 9);
  });

  test('advantages of segments: Δ_k for every token of a thought, ζ − V(s_K) for the answer', () => {
    const advantages = segmentAdvantages(WRONG, RUDDER) as Float32Array;
    for (const [t, advantage] of advantages.entries())
      expect(advantage).toBeCloseTo([0, 0.3, -0.7, -0.1][Math.floor(t / 10)] as number, 6);
    // segments that were sure to come: nothing but the answer is left
    const sure = { ...WRONG, logprobs: new Float32Array(40) };
    const scaled = segmentAdvantages(sure, { ...RUDDER, steps: 'scaled' }) as Float32Array;
    expect([...scaled.subarray(0, 30)].every((advantage) => advantage === 0)).toBe(true);
    expect(scaled[30]).toBeCloseTo(-0.1, 6);
    const [smooth, end] = [
      segmentAdvantages(sure, { ...RUDDER, steps: 'smoothed' }) as Float32Array,
      smoothedWalk(Array.from(WRONG.values), [1, 1, 1])[3] as number,
    ];
    expect(smooth[30]).toBeCloseTo(0 - end, 6);
    expect(segmentAdvantages({ ...WRONG, reward: null }, RUDDER)).toBeNull();
    const noise = Float32Array.of(0, 0.4, 0.6, 0);
    const heard = segmentAdvantages({ ...WRONG, noise }, RUDDER) as Float32Array;
    expect([heard[10], heard[20], heard[30]].map((x) => Number(x?.toFixed(6)))).toEqual([0, -0.7, -0.1]);
    const cut = segmentAdvantages({ ...WRONG, answered: false, ends: Int32Array.of(10, 20, 30) }, RUDDER);
    expect((cut as Float32Array)[29]).toBeCloseTo(-0.7, 6);
  });

  test('token rules look at tokens alone, and say where there is nothing to weigh', () => {
    const of = (rule: SigmaRule, more: Partial<SigmaInput> = {}) =>
      redistribute({ ...WRONG, reward: null, baseline: undefined, ...more }, { ...RUDDER, rule });
    expect(of('top-entropy').sigma.filter((s) => s > 0)).toHaveLength(8);
    expect(Math.max(...of('top-entropy').sigma)).toBeCloseTo(1 / 8, 6);
    // each token has γ of the next one's
    const late = of('discounted').sigma;
    expect(total(late)).toBeCloseTo(1, 6);
    for (let t = 1; t < 40; t++) expect((late[t - 1] as number) / (late[t] as number)).toBeCloseTo(0.99, 5);
    expect(of('entropy').sigma[6]).toBeCloseTo(1.5 / total(WRONG.entropies), 6);
    expect(of('surprise').sigma[4]).toBeCloseTo(0.5 / -total(WRONG.logprobs), 6);
    for (const rule of ['surprise', 'entropy'] as const) {
      const none = of(rule, { logprobs: new Float32Array(40), entropies: new Float32Array(40) });
      expect(none.fallback).toBe('uniform:no-weight');
      expect(isUniform(none)).toBe(true);
      expect(of(rule).fallback).toBeUndefined();
    }
    // of rounding a log-probability is a little above 0
    expect(of('surprise', { logprobs: WRONG.logprobs.map((lp, t) => (t === 0 ? 1e-5 : lp)) }).sigma[0]).toBe(
      0,
    );
  });
});

test('the oracle says the same σ, Δ and fallback on random traces', () => {
  const codes: Record<string, string | undefined> = {
    'reward:unknown': 'reward:unknown',
    flat: 'uniform:flat-values',
    'small-advantage': 'uniform:small-return',
    'no-difference': 'uniform:no-gain',
    'no-weight': 'uniform:no-weight',
    noise: 'uniform:noise',
  };
  let [uneven, lost] = [0, 0];
  fc.assert(
    fc.property(anyTrace, fc.constantFrom(...OPTIONS), shaping, (drawn, rules, shaped) => {
      const options = { ...rules, ...shaped };
      const input = readable(drawn, options.rule);
      const { reward, baseline, estimator } = input;
      if (baseline === undefined) return;
      const advantage = reward === null ? 0 : reward - baseline;
      const steps = isMartingale(estimator) ? shaped.steps : 'free';
      const { isLog, isAttribution, isMagnitude: magnitude = false } = estimator;
      const stepped = steppedValues(
        [...input.values],
        [...input.ends],
        input.logprobs,
        steps,
        input.shownBehind,
      );
      const { values } = stepped;
      const deltas = differences(values, estimator.name as OracleEstimator, advantage).map(
        (delta, k) => delta * (stepped.factors[k] as number),
      );
      // what stands on a knife's edge falls either way by rounding
      if (deltas.some((delta) => Math.abs(Math.abs(delta) - 1e-3) < 1e-9)) return;
      const expected: SigmaResult = computeSigma(
        options.rule,
        {
          segmentEnds: [...input.ends],
          deltas,
          values,
          logarithmic: isLog === true,
          ...(isAttribution ? { attribution: { magnitude } } : {}),
          logSteps: estimator.name === 'joint-log',
          entropies: input.entropies,
          logprobs: input.logprobs,
          reward,
          baseline,
          isNoise: deltas.map((delta, k) => {
            const change = steps === 'free' ? (values[k + 1] as number) - (values[k] as number) : delta;
            return Math.abs(change) < (input.noise?.[k] ?? 0) * (stepped.unsure[k] as number);
          }),
        },
        options,
      );
      const found = redistribute(input, { ...options, steps });
      expect(found.fallback).toBe(expected.uniformBecause && codes[expected.uniformBecause]);
      for (const [t, s] of expected.sigma.entries())
        expect(Math.abs((found.sigma[t] as number) - s)).toBeLessThanOrEqual(
          1e-7 * Math.max(1e-4, Math.abs(s), ...expected.sigma.map((each) => Math.abs(each) / 10)),
        );
      const isUnscaled =
        reward === null || TOKEN_RULES.includes(options.rule) || expected.uniformBecause === 'flat';
      if (!(estimator.name === 'joint' && isUnscaled))
        for (const [k, delta] of deltas.entries())
          expect(Math.abs((found.deltas[k] as number) - delta)).toBeLessThan(
            5e-7 * Math.max(1, Math.abs(delta)),
          );
      if (!isUniform(found)) uneven++;
      if (found.fallback === 'uniform:noise') lost++;
    }),
    { numRuns: 1000 },
  );
  expect(Math.min(uneven, 10 * lost)).toBeGreaterThan(200);
});

test.each([
  ['uniform', [0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125], undefined, [8, 1, 1]],
  ['all of it on the one unsure token', [0, 1, 0, 0], [0, 0.5, 0, 0], [1, 4, 4]],
  ['all of it on a sure one', [1, 0, 0, 0], [0, 0.5, 0, 0], [1, 4, 0]],
  ['the policy was sure of all', [0.5, 0.5], [0, 0], [2, 1, null]],
  ['a negative σ takes away', [1.5, -0.5], [0, 0.5], [0.4, 3, -1]],
] as const)('figures of a credit: %s', (_, sigma, unsure, [ess, most, gain]) => {
  // rounding makes the log-probability of a sure token a little more than 0
  const logprobs = Float32Array.from(sigma, (__, t) => Math.log(1 - (unsure?.[t] ?? 0.5)) + 1e-9);
  const found = sigmaFigures(Float32Array.from(sigma), logprobs);
  expect(found.sigmaEss).toBeCloseTo(ess, 6);
  expect(found.sigmaMaxWeight).toBeCloseTo(most, 6);
  if (gain === null) expect(found.sigmaGain).toBeNull();
  else expect(found.sigmaGain).toBeCloseTo(gain, 6);
});
