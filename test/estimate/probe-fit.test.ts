// The probe's fit: against the formula minimised in float64, what must not change it, and when it stands back.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Calibration, calibrationFile } from '../../dist/estimate/calibration.js';
import { fitStates, type KnownTrace, OF_PEERS, peersFeature } from '../../dist/estimate/fit/fit.js';
import { FOLDS, groupPlace } from '../../dist/estimate/fit/groups.js';
import { Lbfgs } from '../../dist/estimate/fit/lbfgs.js';
import { FEATURES_OF } from '../../dist/estimate/states.js';
import { fromFloat16, toFloat16 } from '../../dist/model/onnx/float16.js';
import { descend } from '../oracle/calibration.js';
import { seeded } from '../oracle/toy.js';

const F = FEATURES_OF.probe.length;

type ProbeTrace = Required<KnownTrace>;

/** Traces whose reward follows from the first number of their states, by so much. */
function made(groups: number, D: number, strength: number, seed = 1): ProbeTrace[] {
  const random = seeded(seed);
  return Array.from({ length: groups * 4 }, (_, n) => {
    const K1 = 1 + Math.floor(4 * random());
    const told = 2 * random() - 1;
    const states = Float32Array.from({ length: K1 * D }, (_, i) => (i % D === 0 ? told : 3 * random() + 20));
    return {
      states: toFloat16(states),
      features: Float64Array.from({ length: K1 * F }, () => 100 * random()),
      reward: Number(random() < 1 / (1 + Math.exp(-strength * told))),
      peers: random() - 0.5,
      place: groupPlace({ id: `g${Math.floor(n / 4)}` }),
    };
  });
}

const fitted = (traces: readonly ProbeTrace[], D: number, between?: () => Promise<void>) =>
  fitStates(
    async function* () {
      yield* traces;
    },
    'probe',
    D,
    between,
  );

/** Weights that the formula has: standardised by weighted moments, but for the peers' mean, which has a spread of its own. */
function oracleWeights(traces: readonly ProbeTrace[], D: number, l2: number): number[] {
  const samples = traces.flatMap(({ states, features, reward, peers }) => {
    const K1 = features.length / F;
    const numbers = new Float64Array(states.length);
    fromFloat16(states, numbers);
    return Array.from({ length: K1 }, (_, k) => ({
      x: [...numbers.subarray(k * D, (k + 1) * D), ...features.subarray(k * F, (k + 1) * F)],
      g: [k === 0 ? peers : 0, peers / (1 + k), peers].map((x) => x / 0.3),
      ...{ y: reward, w: 1 / K1 },
    }));
  });
  const total = samples.reduce((sum, { w }) => sum + w, 0);
  const mean = (of: (s: (typeof samples)[number]) => number) =>
    samples.reduce((sum, s) => sum + s.w * of(s), 0) / total;
  const means = Array.from({ length: D + F }, (_, i) => mean(({ x }) => x[i] as number));
  const sds = means.map((m, i) => Math.sqrt(mean(({ x }) => ((x[i] as number) - m) ** 2)));
  // one penalty for all of descend: numbers of another one are scaled
  const scales = [
    ...sds.map((_, i) => Math.sqrt(l2 / (i < D ? l2 : 10))),
    ...Array(OF_PEERS).fill(Math.sqrt(l2 / 10)),
  ];
  const rows = samples.map(({ x, g, y, w }) => {
    const z = [...x.map((value, i) => (value - (means[i] as number)) / (sds[i] as number)), ...g];
    return { z: [1, ...z.map((value, i) => value * scales[i])], y, w };
  });
  const [first, ...rest] = descend(rows, l2);
  return [first as number, ...rest.map((value, i) => value * scales[i])];
}

describe('fitProbe', () => {
  it.each([[0], [3]])('finds the weights of the formula, with %i numbers a state', async (D) => {
    const traces = made(30, D, 3);
    // without states something else has to tell
    const told = traces.map((trace) =>
      D > 0
        ? trace
        : { ...trace, features: trace.features.map((x, i) => (i % F === 0 ? x + 100 * trace.reward : x)) },
    );
    const found = await fitted(told, D);
    expect(found).toMatchObject({ uses: D > 0 ? 'states' : 'features', why: D > 0 ? null : 'no-states' });
    const expected = oracleWeights(told, D, found.l2 ?? 10);
    for (const [i, weight] of expected.entries()) expect(found.weights?.[FOLDS]?.[i]).toBeCloseTo(weight, 2);
    const { withStates: loss, withoutStates: none } = found;
    if (D > 0) expect(loss).toBeLessThan((none as number) - 0.05);
    expect(found.quality?.log_loss.calibrated).toBe(loss ?? none);
    expect(found.quality?.auc.end).toBeGreaterThan(0.7);
  });

  it('never lets a reward of a fold move a value in it', async () => {
    const traces = made(20, 4, 3);
    const { weights } = await fitted(traces, 4);
    await fc.assert(
      fc.asyncProperty(fc.nat(traces.length - 1), async (n) => {
        const { fold } = (traces[n] as ProbeTrace).place;
        const other = await fitted(
          // the peers of the trace see it
          traces.map((trace, m) => {
            if (m === n) return { ...trace, reward: 1 - trace.reward };
            return m >> 2 === n >> 2 ? { ...trace, peers: -trace.peers } : trace;
          }),
          4,
        );
        for (let f = 0; f < FOLDS; f++)
          if (f === fold) expect(other.weights?.[f]).toEqual(weights?.[f]);
          else expect(other.weights?.[f]).not.toEqual(weights?.[f]);
      }),
      { numRuns: 6 },
    );
  });

  it('says the same in a file, by the weights of the own fold, and by all for groups that it has not seen', async () => {
    const traces = made(20, 4, 3);
    const found = await fitted(traces, 4);
    const about = { kind: 'probe', layers: [2, 3], skipped: {}, policy: null, scored_with: null } as const;
    const probe = new Calibration(calibrationFile(found, about));
    const trace = traces[0] as ProbeTrace;
    const seen = probe.values({ id: 'g0' }, trace);
    const unseen = probe.values({ id: 'elsewhere' }, trace);
    expect(seen).not.toEqual(unseen);
    const x = new Float64Array(4);
    fromFloat16(trace.states.subarray(0, 4), x);
    const row = [...x, ...trace.features.subarray(0, F), trace.peers, trace.peers, trace.peers];
    for (const [values, weights] of [
      [seen, found.weights?.[trace.place.fold]],
      [unseen, found.weights?.[FOLDS]],
    ] as const) {
      const logit = row.reduce(
        (sum, value, i) =>
          sum +
          ((weights?.[1 + i] as number) * (value - (found.seen.scale.mean[i] as number))) /
            (found.seen.scale.sd[i] as number),
        weights?.[0] as number,
      );
      expect(values[0]).toBeCloseTo(1 / (1 + Math.exp(-logit)), 4);
    }
  });

  it.each([
    ['few groups', made(4, 3, 3), 'now', 'too-few-groups'],
    ['one reward', made(20, 3, 3).map((trace) => ({ ...trace, reward: 1 })), 'now', 'one-reward'],
    ['nothing that tells', made(20, 3, 0), 'now', 'no-gain'],
    [
      'states that tell nothing more',
      made(40, 3, 0).map((trace) => ({
        ...trace,
        features: trace.features.map((x) => x + 20 * trace.reward),
      })),
      'features',
      'no-gain-of-states',
    ],
  ] as const)('stands back before %s', async (_, traces, uses, why) => {
    expect(await fitted(traces, 3)).toMatchObject({ uses, why });
  });

  it('can be ended between any two passes, those from memory too', async () => {
    const traces = made(10, 3, 3);
    let passes = 0;
    await fitted(traces, 3, async () => void passes++);
    expect(passes).toBeGreaterThan(20);
    for (const last of [1, Math.ceil(passes / 3), Math.ceil(passes / 2), passes]) {
      let left = last;
      const end = async () => {
        if (--left === 0) throw new Error('ended');
      };
      await expect(fitted(traces, 3, end)).rejects.toThrow('ended');
    }
  });

  it('has the mean of the peers with one in the middle', () => {
    expect(peersFeature(1, 3)).toBeCloseTo(3.5 / 4 - 0.5, 12);
    expect(peersFeature(undefined)).toBe(0);
  });
});

describe('Lbfgs', () => {
  it('finds the least of a badly scaled bowl', () => {
    const scales = [1, 30, 1000];
    const search = new Lbfgs(Float64Array.of(5, -3, 2), 1e-9, (g) => g.map((x) => x / 30));
    for (let n = 0; n < 200 && !search.hasEnded; n++) {
      const away = Array.from(search.at, (x, i) => x - i);
      const loss = away.reduce((sum, x, i) => sum + ((scales[i] as number) * x * x) / 2 + x ** 4, 0);
      search.take(
        loss,
        Float64Array.from(away, (x, i) => (scales[i] as number) * x + 4 * x ** 3),
      );
    }
    expect(search.hasEnded).toBe(true);
    for (const [i, x] of search.at.entries()) expect(x).toBeCloseTo(i, 6);
  });
});

describe('float16', () => {
  const all = new Float32Array(2 ** 16);
  fromFloat16(
    Uint16Array.from(all, (_, bits) => bits),
    all,
  );
  const finite = all.filter((_, bits) => ((bits >> 10) & 31) < 31);

  it('gives back what it holds', () => {
    expect(toFloat16(finite).filter((bits, i) => all[bits] !== finite[i])).toHaveLength(0);
    expect([all[0x3c00], all[0x0001], all[0xc500]]).toEqual([1, 2 ** -24, -5]);
  });

  it('takes the nearest, the even one of two, and holds what is too large', () => {
    fc.assert(
      fc.property(fc.float({ min: -65504, max: 65504, noNaN: true }), (x) => {
        const [bits] = toFloat16(Float32Array.of(x));
        const found = Math.abs(x - (all[bits as number] as number));
        for (const beside of [(bits as number) - 1, (bits as number) + 1]) {
          const other = all[beside];
          if (other === undefined || !Number.isFinite(other) || ((beside >> 10) & 31) === 31) continue;
          const away = Math.abs(x - other);
          expect(found < away || (found === away && (bits as number) % 2 === 0) || x === 0).toBe(true);
        }
      }),
    );
    expect(Array.from(toFloat16(Float32Array.of(1e9, -1e9)), (bits) => all[bits])).toEqual([65504, -65504]);
  });
});
