// Further features of the calibrated value: what a column gives each state, where a trace has it, and the fit with it.
import { describe, expect, it } from 'vitest';
import { Calibration, calibrationFile } from '../../dist/estimate/calibration.js';
import { fitCalibration, groupPlace } from '../../dist/estimate/calibration-fit.js';
import {
  columnFeature,
  columnNumbers,
  FEATURES,
  parseFeatures,
  stateFeatures,
  writtenCell,
} from '../../dist/estimate/states.js';
import type { Trace } from '../../dist/trace.js';
import { type MadeTrace, madeTraces } from '../support/scored-traces.js';

const NONE = Number.NaN;
const ENDS = Int32Array.of(4, 9);
const numbersOf = (cell: unknown) => {
  const found = columnNumbers([columnFeature('prm')], () => cell, ENDS);
  return typeof found === 'string' ? found : [...(found.get('prm') as Float64Array)];
};

describe('a column', () => {
  it('has a number for each state, or for each but the first', () => {
    expect(numbersOf([0.5, 0.25, 1])).toEqual([0.5, 0.25, 1]);
    expect(numbersOf(Float32Array.of(0.25, 1))).toEqual([NONE, 0.25, 1]);
    expect(numbersOf([null, 1])).toEqual([NONE, NONE, 1]);
  });

  it('may be the segments of another run: the values of its thought', () => {
    const segments = [
      { end: 4, kind: 'thought', value: 0.5 },
      { end: 9, kind: 'thought', value: null },
      { end: 12, kind: 'answer', value: null },
    ];
    expect(numbersOf(segments)).toEqual([NONE, 0.5, NONE]);
    expect(numbersOf(segments.slice(1))).toBe('its column prm has other segments than the trace');
    expect(numbersOf(segments.slice(0, 1))).toBe('its column prm has 1 thought segments, the trace 2');
  });

  it('is refused where it fits no trace of so many segments', () => {
    expect(numbersOf(undefined)).toBe('its column prm is missing');
    expect(numbersOf(0.5)).toBe('its column prm is no list');
    expect(numbersOf([1])).toBe('its column prm has 1 numbers, expected 2 or 3 for 2 thought segments');
    expect(numbersOf([1, '2'])).toMatch(/something else than finite numbers/);
    expect(numbersOf([1, Number.POSITIVE_INFINITY])).toMatch(/something else than finite numbers/);
  });

  it('is found under the name by which score writes it', () => {
    const columns = { own: 1, both: 2, segments: 3 };
    const joined = { other: 4, both: 5, value_start: 6 };
    const trace = { source: { columns }, joined } as unknown as Trace;
    const names = ['own', 'both', 'other', 'input_segments', 'join_both', 'join_value_start'];
    expect(names.map((name) => writtenCell(trace, name))).toEqual([1, 2, 4, 3, 5, 6]);
    for (const name of ['segments', 'value_start', 'join_other', 'input_own', 'none'])
      expect(writtenCell(trace, name), name).toBe(undefined);
  });
});

describe('--features', () => {
  it('names columns, and the lowest number so far of them', () => {
    expect(parseFeatures('a, lowest:a,b.c')).toEqual([
      { name: 'a', column: 'a', isLowest: false },
      { name: 'lowest:a', column: 'a', isLowest: true },
      { name: 'b.c', column: 'b.c', isLowest: false },
    ]);
    expect(() => parseFeatures('a,,b')).toThrow('a name is empty');
    expect(() => parseFeatures('a,lowest:')).toThrow('a name is empty');
    expect(() => parseFeatures('a,b,a')).toThrow('a stands there twice');
    expect(() => parseFeatures('lowest:segments')).toThrow('segments is a column that score writes');
  });
});

describe('the fit with columns', () => {
  const traces = madeTraces(12, 8);
  const further = parseFeatures('told,lowest:told');
  /** knows the reward from the second segment on, and says nothing of the first state */
  const told = ({ ends, reward }: MadeTrace) =>
    Float64Array.from([0, ...ends], (_, k) => (k === 0 ? NONE : k === 1 ? 0.5 : reward + 0.1 * (k % 2)));
  const statesOf = (trace: MadeTrace, numbers: Float64Array) => ({
    values: Float32Array.from(trace.values),
    geoValues: Float32Array.from(trace.geo),
    ends: Int32Array.from(trace.ends),
    logprobs: Float32Array.from(trace.logprobs),
    columns: new Map([['told', numbers]]),
  });
  const fitted = (of: (trace: MadeTrace) => Float64Array) =>
    fitCalibration(async function* () {
      for (const trace of traces)
        yield {
          features: stateFeatures(statesOf(trace, of(trace)), further),
          reward: trace.reward,
          place: groupPlace(trace.group as string),
        };
    }, FEATURES.length + further.length);

  it('has them behind those that are always there; the lowest is of what is known', () => {
    const [trace] = traces as [MadeTrace];
    const numbers = Float64Array.from(trace.values, (_, k) => [NONE, 3, NONE, 1][k] ?? 2);
    const states = statesOf(trace, numbers);
    const [plain, more] = [stateFeatures(states), stateFeatures(states, further)];
    const F = FEATURES.length;
    for (let k = 0; k < trace.values.length; k++) {
      const own = more.subarray(k * (F + 2), (k + 1) * (F + 2));
      expect(own.subarray(0, F)).toEqual(plain.subarray(k * F, (k + 1) * F));
      const lowest = [NONE, 3, 3, 1][k] ?? 1;
      expect([...own.subarray(F)]).toEqual([numbers[k], lowest]);
    }
  });

  it('is where the gradient vanishes, a state that nothing is known of at the mean', async () => {
    const { weights, scale } = await fitted(told);
    const w = weights?.whole as Float64Array;
    const gradient = new Float64Array(w.length).map((_, f) => (f === 0 ? 0 : (w[f] as number)));
    const known = { weight: 0, sum: 0 };
    for (const trace of traces) {
      const K = trace.ends.length;
      const phi = stateFeatures(statesOf(trace, told(trace)), further);
      for (let k = 0; k <= K; k++) {
        const z = Array.from(w.subarray(1), (_, f) => {
          const x = phi[k * (w.length - 1) + f] as number;
          return Number.isNaN(x) ? 0 : (x - (scale.mean[f] as number)) / (scale.sd[f] as number);
        });
        const error =
          1 / (1 + Math.exp(-z.reduce((sum, x, f) => sum + x * (w[f + 1] as number), w[0] as number))) -
          trace.reward;
        for (const [f, x] of [1, ...z].entries())
          gradient[f] = (gradient[f] as number) + (error * x) / (K + 1);
        if (k === 0) continue;
        known.weight += 1 / (K + 1);
        known.sum += (told(trace)[k] as number) / (K + 1);
      }
    }
    for (const part of gradient) expect(Math.abs(part)).toBeLessThan(1e-6);
    expect(scale.mean[FEATURES.length]).toBeCloseTo(known.sum / known.weight, 9);
    // it was told nearly all, so the loss of others' groups falls
    const { quality } = await fitted(told);
    const without = await fitted(({ values }) => new Float64Array(values.length).fill(NONE));
    expect(quality?.logLoss.calibrated).toBeLessThan(0.6 * (without.quality?.logLoss.calibrated ?? 0));
    expect([...(without.weights?.whole.subarray(-2) ?? [])]).toEqual([0, 0]);
  });

  it('stands in the calibration file, and its values are computed with it', async () => {
    const found = await fitted(told);
    const about = { rredcot: '0', skipped: {}, policy: null, scored_with: null };
    const calibration = new Calibration(calibrationFile(found, about, further));
    expect(calibration.model.features).toEqual([...FEATURES, 'told', 'lowest:told']);
    expect(calibration.further).toEqual(further);
    const [trace] = traces as [MadeTrace];
    const of = (numbers: Float64Array) => calibration.values('another group', statesOf(trace, numbers));
    const [low, high] = [0, 1].map((x) => of(new Float64Array(trace.values.length).fill(x)));
    for (const [k, value] of (low as Float32Array).entries()) expect(high?.[k]).toBeGreaterThan(value + 0.1);
  });
});
