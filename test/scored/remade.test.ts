// A row made again: the codes of further credits beside those of the first, and the baseline.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SIGMA_RULES } from '../../dist/credit/rules.js';
import { type CreditOptions, creditOf } from '../../dist/estimate/credit.js';
import { isMartingale } from '../../dist/estimate/nature.js';
import { GROUP_STD, requestedColumns } from '../../dist/estimate/requested.js';
import { WITHINS } from '../../dist/estimate/sigma.js';
import { named } from '../support/estimators.js';
import { faultsOf } from '../support/faults.js';

const CREDIT: CreditOptions = {
  estimator: named('pr'),
  ...({ rule: 'share', residual: 'uniform', within: 'uniform', baseline: 'auto' } as const),
  ...({ rewardRange: [0, 1], others: ['signed', 'rudder', 'uniform'] } as const),
};
interface Made extends Record<'values' | 'logprobs' | 'entropies', number[]> {
  readonly reward: number | null;
  /** the group's; undefined without one */
  readonly mean: number | undefined;
}

/** Cells as a file has them of a trace with such a credit: three thoughts and an answer over eight tokens. */
function cellsOf(
  credit: CreditOptions,
  { values, logprobs, entropies, reward, mean }: Made,
): Record<string, unknown> {
  const ends = Int32Array.of(2, 4, 7, 8);
  const floats = (list: readonly number[]) => Float32Array.from(list);
  const made = creditOf(
    {
      ...{ ends, answered: true, reward, groupMean: mean, groupStd: mean === undefined ? undefined : 0.5 },
      ...{ values: floats(values), logprobs: floats(logprobs), entropies: floats(entropies) },
      utilities: Float32Array.of(1),
    },
    credit,
  );
  const { sigma, deltas, baseline, requested, sigmaEss, sigmaMaxWeight, sigmaGain } = made;
  const sums = (list: Float32Array) =>
    Array.from(ends, (end, k) => list.subarray(ends[k - 1] ?? 0, end).reduce((sum, x) => sum + x, 0));
  const segments = Array.from(ends, (end, k) => ({
    ...{ start: ends[k - 1] ?? 0, end, kind: k < 3 ? 'thought' : 'answer', value: values[k + 1] ?? null },
    ...{ delta: deltas[k], sigma: sums(sigma)[k], entropy: sums(floats(entropies))[k] },
  }));
  return {
    ...{
      id: 'a',
      group: mean === undefined ? null : 'g',
      reward,
      baseline,
      segments,
      value_start: values[0],
    },
    ...{ logprobs: floats(logprobs), entropies: floats(entropies), sigma, reference_utilities: [1] },
    ...{ sigma_ess: sigmaEss, sigma_max_weight: sigmaMaxWeight, sigma_gain: sigmaGain, ...requested },
    status:
      [...new Set([...(reward === null ? ['reward:unknown'] : []), ...made.status])].sort().join(';') || 'ok',
  };
}

const VALUES = [0.97, 0.98, 0.985, 0.99];
const NONE = new Array<number>(8).fill(0);

/** Of a row as score writes it, with another status. */
function faults(
  reward: number,
  mean: number | undefined,
  change: (status: string) => string = (status) => status,
  [from, to]: readonly [CreditOptions, CreditOptions] = [CREDIT, CREDIT],
): string {
  const cells = cellsOf(from, { values: VALUES, logprobs: NONE, entropies: NONE, reward, mean });
  return faultsOf({ ...cells, status: change(String(cells.status)) }, {}, to);
}

describe('the status of further credits', () => {
  it('passes as it was written, whatever the row does not tell of a missing baseline', () => {
    for (const [reward, mean] of [
      [1, 0.5],
      [0, 0.5],
      [1, 1],
      [0.5, undefined],
      [1, undefined],
    ] as const)
      expect(faults(reward, mean)).toBe('');
  });

  it('is told where a code is gone, and where one is there without a reason', () => {
    expect(faults(1, 0.5, (status) => status.replace('signed:small-return', 'ok'))).toMatch(
      /status is ok, from values, reward and baseline it is signed:small-return/,
    );
    expect(faults(1, 0.5, (status) => `rudder:small-return;${status}`)).toMatch(
      /status is rudder:small-return;.*, from values, reward/,
    );
  });
});

describe('a baseline', () => {
  /** A row whose numbers all follow from one baseline, by a configuration that says another. */
  const told = (
    made: CreditOptions['baseline'],
    said: CreditOptions['baseline'],
    mean?: number,
    estimator: CreditOptions['estimator'] = named('pr'),
  ) =>
    faults(1, mean, undefined, [
      { ...CREDIT, estimator, baseline: made },
      { ...CREDIT, estimator, baseline: said },
    ]);
  const start = Math.fround(VALUES[0] as number);

  it('is V(s_0) or the number that the configuration says, whatever else the row has been made by', () => {
    for (const each of ['value', 'auto', 0.25] as const) expect(told(each, each)).toBe('');
    expect(told('group', 'group', 0.25)).toBe('');
    expect(told(0.25, 'value')).toContain(
      `baseline is 0.25, from the configuration and the values it is ${start}`,
    );
    expect(told('value', 0.25)).toContain(
      `baseline is ${start}, from the configuration and the values it is 0.25`,
    );
    expect(told(0.25, 'auto')).toContain(
      `baseline is 0.25, from the configuration and the values it is ${start}`,
    );
    // with one it is the group's mean, which the row does not tell, but for values that are expected rewards
    expect(told(0.25, 'auto', 0.5)).toBe('');
    expect(told(0.25, 'auto', 0.5, named('given'))).toContain(
      `baseline is 0.25, from the configuration and the values it is ${start}`,
    );
  });
});

describe('a row of any credit', () => {
  const list = (length: number, min: number, max: number) =>
    fc.array(
      fc.integer({ min: 1, max: 1000 }).map((n) => Math.fround(min + ((max - min) * n) / 1000)),
      { minLength: length, maxLength: length },
    );
  const credits = fc
    .record({
      estimator: fc.constantFrom('pr', 'given', 'joint-log', 'surprise').map(named),
      rule: fc.constantFrom(...SIGMA_RULES),
      others: fc.uniqueArray(fc.constantFrom(...SIGMA_RULES), { maxLength: 2 }),
      residual: fc.constant('uniform' as const),
      within: fc.constantFrom(...WITHINS),
      baseline: fc.constantFrom('auto', 'group', 'value', 0.25),
      steps: fc.constantFrom('free', 'scaled', 'smoothed'),
      method: fc.constantFrom('sigma', 'hierarchical'),
      normalisers: fc.constantFrom([], ['grpo', 'dapo']),
    })
    // the literal differences are refused of what has no level
    .filter(({ estimator, rule, others }) => !estimator.noLevel || ![rule, ...others].includes('signed'))
    .map(({ steps, method, others, rule, ...rest }) => ({
      ...{ ...rest, rule, rewardRange: [0, 1], others: others.filter((other) => other !== rule) },
      ...(steps !== 'free' && isMartingale(rest.estimator) && { steps }),
      ...(method !== 'sigma' && { method }),
    })) as fc.Arbitrary<CreditOptions>;
  const traces = fc.record({
    values: list(4, 0, 1),
    logprobs: list(8, -2, 0),
    entropies: list(8, 0, 2),
    reward: fc.constantFrom(0, 1, 0.5, null),
    mean: fc.constantFrom(undefined, 0.25, 0.5, 1),
  });
  const COLUMNS = [
    ...['group', 'logprobs', 'entropies', 'sigma', 'segments', 'value_start', 'reward', 'baseline', 'status'],
    ...['reference_utilities', 'sigma_ess', 'sigma_max_weight', 'sigma_gain'],
  ];
  const valued = (credit: CreditOptions, trace: Made) => {
    const { fromLogprobs } = credit.estimator;
    if (!fromLogprobs) return trace;
    return {
      ...trace,
      values: [...fromLogprobs(Float32Array.from(trace.logprobs), Int32Array.of(2, 4, 7))],
    };
  };

  it('is made again as it is, whatever columns it lacks', () => {
    fc.assert(
      fc.property(credits, traces, fc.subarray(COLUMNS), (credit, trace, lacking) => {
        const cells = cellsOf(credit, valued(credit, trace));
        const left = Object.entries(cells).filter(([name]) => !lacking.includes(name));
        expect(faultsOf(Object.fromEntries(left), {}, credit)).toBe('');
      }),
      { numRuns: 500 },
    );
  });

  it('is found out by any number of its credit that is another', () => {
    fc.assert(
      fc.property(credits, traces, fc.nat(), (credit, trace, n) => {
        const cells = cellsOf(credit, valued(credit, trace));
        for (const name of ['sigma', 'sigma_ess', 'sigma_max_weight', ...columnsOf(credit)]) {
          const cell = cells[name];
          const other =
            cell instanceof Float32Array
              ? cell.map((x, t) => (t === n % cell.length ? x + 0.01 : x))
              : typeof cell === 'number'
                ? cell + 0.01
                : 0.01;
          if (name !== GROUP_STD) expect(faultsOf({ ...cells, [name]: other }, {}, credit)).toContain(name);
        }
        const [first, ...others] = cells.segments as { delta: number }[];
        const segments = [{ ...first, delta: (first?.delta ?? 0) + 0.01 }, ...others];
        expect(faultsOf({ ...cells, segments }, {}, credit)).toContain('segments[0].delta');
      }),
      { numRuns: 200 },
    );
  });
});

function columnsOf(credit: CreditOptions): string[] {
  const names = requestedColumns(credit).map(({ name }) => name);
  return names.filter((name) => name !== 'normaliser_dapo');
}
