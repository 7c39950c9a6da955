// The fit of the calibrated value: against the oracle, and what must not change it.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { calibrationFile } from '../../dist/estimate/calibration.js';
import { type FitTrace, openFit } from '../../dist/estimate/fit/cross-fit.js';
import { fitStates } from '../../dist/estimate/fit/fit.js';
import { FOLDS, groupPlace } from '../../dist/estimate/fit/groups.js';
import { logitOf, sigmoid } from '../../dist/estimate/fit/logistic.js';
import { stateFeatures } from '../../dist/estimate/states.js';
import { oracleFeatures, oracleFit, oracleFold } from '../oracle/calibration.js';
import { seeded } from '../oracle/toy.js';
import { type MadeTrace, madeTraces } from '../support/scored-traces.js';

const statesOf = ({ values, geo, ends, logprobs }: MadeTrace) => ({
  values: Float32Array.from(values),
  geoValues: Float32Array.from(geo),
  ends: Int32Array.from(ends),
  logprobs: Float32Array.from(logprobs),
});

const fitTrace = (trace: MadeTrace): FitTrace => ({
  features: stateFeatures(statesOf(trace)),
  reward: trace.reward,
  place: groupPlace({ id: trace.group ?? trace.id }),
});

async function fitAll(traces: readonly MadeTrace[]) {
  const all = traces.map(fitTrace);
  async function* pass() {
    yield* all;
  }
  const about = { kind: 'pr', layers: [], skipped: {}, policy: null, scored_with: null } as const;
  return calibrationFile(await fitStates(pass, 'pr', 0), about);
}

const oracleTraces = (traces: readonly MadeTrace[]) =>
  traces.map((trace) => ({ ...trace, key: trace.group ?? trace.id }));

/** The largest difference, relative to 1 or what is larger. */
function apart(a: ArrayLike<number>, b: ArrayLike<number>): number {
  expect(a.length).toBe(b.length);
  return Array.from(a, (x, n) => Math.abs(x - (b[n] as number)) / Math.max(1, Math.abs(x))).reduce(
    (most, x) => Math.max(most, x),
    0,
  );
}

describe('φ', () => {
  const number = fc.float({ min: -20, max: 0, noNaN: true });
  const value = fc.float({ min: 0, max: 1, noNaN: true });
  const trace = fc
    .record({
      lengths: fc.array(fc.integer({ min: 1, max: 9 }), { maxLength: 5 }),
      tail: fc.integer({ min: 0, max: 5 }),
      numbers: fc.array(number, { minLength: 50, maxLength: 50 }),
      values: fc.array(value, { minLength: 6, maxLength: 6 }),
      geo: fc.array(value, { minLength: 6, maxLength: 6 }),
    })
    .map(({ lengths, tail, numbers, values, geo }) => {
      const ends = lengths.map((_, k) => lengths.slice(0, k + 1).reduce((a, b) => a + b, 0));
      const logprobs = numbers.slice(0, (ends.at(-1) ?? 0) + tail);
      const states = { values: values.slice(0, ends.length + 1), geo: geo.slice(0, ends.length + 1) };
      return { id: 't', group: null, reward: 1, ...states, ends, logprobs };
    });

  it('is the formula', () => {
    fc.assert(
      fc.property(trace, (made) => {
        const found = stateFeatures(statesOf(made));
        expect(apart(found, oracleFeatures(made).flat())).toBeLessThan(1e-12);
      }),
    );
  });

  it('does not look past its state: another tail changes nothing before it', () => {
    fc.assert(
      fc.property(trace, fc.nat(), fc.float({ min: -9, max: 0, noNaN: true }), (made, cut, other) => {
        const k = cut % made.values.length;
        const end = k === 0 ? 0 : (made.ends[k - 1] as number);
        const changed = {
          ...made,
          logprobs: made.logprobs.map((lp, t) => (t < end ? lp : other)),
          values: made.values.map((value, n) => (n <= k ? value : 0.5)),
          geo: made.geo.map((value, n) => (n <= k ? value : 0.5)),
        };
        const [before, after] = [stateFeatures(statesOf(made)), stateFeatures(statesOf(changed))];
        const F = before.length / made.values.length;
        expect(after.subarray(0, (k + 1) * F)).toEqual(before.subarray(0, (k + 1) * F));
      }),
    );
  });
});

describe('the fit', () => {
  const traces = madeTraces(12, 8);

  it("is the oracle's, of the whole and of each fold, to 1e-6", async () => {
    const few = madeTraces(12, 2);
    const found = await fitAll(few);
    const expected = oracleFit(oracleTraces(few));
    expect(apart(found.mean, expected.mean)).toBeLessThan(1e-9);
    expect(apart(found.sd, expected.sd)).toBeLessThan(1e-9);
    expect(apart(found.weights?.[FOLDS] ?? [], expected.whole)).toBeLessThan(1e-6);
    for (const [fold, weights] of expected.folds.entries())
      expect(apart(found.weights?.[fold] ?? [], weights)).toBeLessThan(1e-6);
    expect(found.log_loss?.calibrated).toBeCloseTo(expected.loss, 9);
    expect(found).toMatchObject({ uses: 'features', why: null });
    expect(found.traces).toBe(24);
    expect(found.groups).toBe(12);
  });

  it('takes rewards between 0 and 1, and traces without a group', async () => {
    const graded = madeTraces(30, 1, 2).map((trace) => ({
      ...trace,
      reward: trace.reward === 1 ? 0.75 : 0.125,
    }));
    const found = await fitAll(graded);
    expect(apart(found.weights?.[FOLDS] ?? [], oracleFit(oracleTraces(graded)).whole)).toBeLessThan(1e-6);
  });

  it("gives the same bits again, and other rows' order only other roundings", async () => {
    const first = await fitAll(traces);
    expect(await fitAll(traces)).toEqual(first);
    const turned = await fitAll([...traces].reverse());
    expect(apart(turned.weights?.[FOLDS] ?? [], first.weights?.[FOLDS] ?? [])).toBeLessThan(1e-9);
  });

  it('is cross-fitted: another reward of a group changes nothing in the weights that its own traces get', async () => {
    const own = traces[0]?.group as string;
    const changed = traces.map((trace) =>
      trace.group === own ? { ...trace, reward: 1 - trace.reward } : trace,
    );
    const [before, after] = [await fitAll(traces), await fitAll(changed)];
    const fold = oracleFold(own);
    expect([after.mean, after.sd]).toEqual([before.mean, before.sd]);
    expect(after.weights?.[fold]).toEqual(before.weights?.[fold]);
    for (const other of [0, 1, 2, 3, 4].filter((n) => n !== fold))
      expect(after.weights?.[other]).not.toEqual(before.weights?.[other]);
  });

  it("reports the losses of a constant, of the group's others and of v̂", async () => {
    const { log_loss, reliability } = await fitAll(traces);
    const mean = (of: (trace: MadeTrace) => number) =>
      traces.reduce((sum, t) => sum + of(t), 0) / traces.length;
    const entropy = (p: number, y: number) => {
      const q = Math.max(1e-4, Math.min(1 - 1e-4, p));
      return -(y * Math.log(q) + (1 - y) * Math.log(1 - q));
    };
    const foldOf = ({ group }: MadeTrace) => oracleFold(group as string);
    const constant = (trace: MadeTrace) => {
      const others = traces.filter((other) => foldOf(other) !== foldOf(trace));
      return others.reduce((sum, { reward }) => sum + reward, 0) / others.length;
    };
    expect(log_loss?.constant).toBeCloseTo(
      mean((t) => entropy(constant(t), t.reward)),
      9,
    );
    const peers = (trace: MadeTrace) =>
      traces.filter((other) => other.group === trace.group && other !== trace);
    const groupMean = (trace: MadeTrace) =>
      (peers(trace).reduce((sum, { reward }) => sum + reward, 0) + constant(trace)) / 8;
    expect(log_loss?.group_mean).toBeCloseTo(
      mean((t) => entropy(groupMean(t), t.reward)),
      9,
    );
    const ofValues = (t: MadeTrace) =>
      t.values.reduce((sum, value) => sum + entropy(value, t.reward), 0) / t.values.length;
    expect(log_loss?.value).toBeCloseTo(mean(ofValues), 9);
    // every state is in a bin, and the bins' rewards are the traces'
    const bins = reliability ?? [];
    expect(bins.length).toBe(10);
    expect(bins.reduce((sum, { states }) => sum + states, 0)).toBe(
      traces.reduce((sum, { values }) => sum + values.length, 0),
    );
    for (const { from, to, value } of bins) {
      if (value === null) continue;
      expect(value).toBeGreaterThanOrEqual(from);
      expect(value).toBeLessThanOrEqual(to);
    }
  });

  it('stands back: too few groups, rewards that are all alike, rewards that mean nothing', async () => {
    expect(await fitAll(madeTraces(4, 8))).toMatchObject({ why: 'too-few-groups', weights: null });
    const alike = traces.map((trace) => ({ ...trace, reward: 1 }));
    expect(await fitAll(alike)).toMatchObject({ why: 'one-reward', weights: null });
    // one group alone has a wrong trace: without its fold nothing differs
    const lone = traces.map((trace) => ({ ...trace, reward: trace.id === 't0' ? 0 : 1 }));
    expect(await fitAll(lone)).toMatchObject({ why: 'too-few-groups', weights: null });
    const random = seeded(9);
    const drawn = madeTraces(40, 4).map((trace) => ({ ...trace, reward: Number(random() < 0.5) }));
    const noise = await fitAll(drawn);
    expect(noise).toMatchObject({ uses: 'now', why: 'no-gain' });
    expect(noise.weights).not.toBe(null);
    // v̂ that is the reward: better than a constant the fit is, and better than v̂ it cannot be
    const known = await fitAll(
      drawn.map((trace) => ({ ...trace, values: trace.values.map(() => trace.reward) })),
    );
    const { calibrated = 0, constant = 0 } = known.log_loss ?? {};
    expect([calibrated < constant, known.why]).toEqual([true, 'no-gain']);
  });
});

describe('the search', () => {
  const random = seeded(3);
  const samples = Array.from({ length: 200 }, (_, n) => {
    const z = Float64Array.from({ length: 3 }, () => 2 * random() - 1);
    const y = Number(random() < sigmoid(3 * (z[0] as number) - 1));
    return { features: z, reward: y, place: groupPlace({ id: `${n}` }) };
  });

  it('finds the least where curvature is far from what was guessed, and where classes are apart', async () => {
    const far = Array.from({ length: 60 }, (_, n) => ({
      features: Float64Array.of(n === 0 ? 1000 : n % 7, n % 3),
      reward: Number(n % 7 > 3 && n > 0),
      place: groupPlace({ id: `${n}` }),
    }));
    const apartAt0 = samples.map((each) => ({ ...each, reward: Number((each.features[0] as number) > 0) }));
    for (const [all, λ] of [
      [far, 1e-3],
      [apartAt0, 1e-2],
      [samples, 1],
    ] as const) {
      const F = all[0]?.features.length ?? 0;
      async function* pass() {
        yield* all;
      }
      const fit = await openFit(pass, F, { tolerance: 1e-11 });
      const weights = await fit.weights(Array(FOLDS + 1).fill({ l2: new Float64Array(F).fill(λ) }));
      for (const [left, found] of weights.entries()) {
        const gradient = found.map((w, f) => (f === 0 ? 0 : λ * w));
        for await (const { z, reward, place } of fit.samples()) {
          const error = place.fold === left ? 0 : sigmoid(logitOf(found, z)) - reward;
          for (let f = 0; f <= F; f++)
            gradient[f] = (gradient[f] as number) + error * (f === 0 ? 1 : (z[f - 1] as number));
        }
        for (const slope of gradient) expect(Math.abs(slope)).toBeLessThan(1e-6);
      }
    }
  });

  it('says how often the right one of two traces has the larger value, as pairs do', async () => {
    const fit = await openFit(
      async function* () {
        yield* samples;
      },
      3,
      { tolerance: 1e-11 },
    );
    const weights = await fit.weights(Array(FOLDS + 1).fill({ l2: Float64Array.of(1, 1, 1) }));
    const { auc } = await fit.assessed(weights, undefined);
    const values: { readonly value: number; readonly reward: number }[] = [];
    for await (const { z, reward, place } of fit.samples())
      values.push({ value: logitOf(weights[place.fold] as Float64Array, z), reward });
    const [right, wrong] = [1, 0].map((own) => values.filter(({ reward }) => reward === own));
    const above = (right ?? []).flatMap(({ value }) =>
      (wrong ?? []).map((other) => Number(value > other.value)),
    );
    expect(above.length).toBeGreaterThan(1000);
    for (const place of ['start', 'middle', 'end'] as const)
      expect(auc[place]).toBeCloseTo(above.reduce((a, b) => a + b, 0) / above.length, 2);
  });
});
