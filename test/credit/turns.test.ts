// Credit over the policy's own tokens: every rule against the oracle's σ of these alone, and the decoder of stored rows against the maker.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type CreditOptions, credited } from '../../dist/credit/credit.js';
import { SIGMA_RULES } from '../../dist/credit/rules.js';
import type { ValueJob } from '../../dist/estimate/estimator.js';
import { valuedRow } from '../../dist/estimate/stages.js';
import { cutPieces, mergeSegments } from '../../dist/segment/segment.js';
import { computeSigma, steppedValues } from '../oracle/sigma.js';
import { named } from '../support/estimators.js';
import { traceOf } from '../support/io-helpers.js';
import { letters } from '../support/tokens.js';

const LINE = fc.constantFrom('ab\n', 'abcd\n', 'a b c\n');
/** Turns of lines, what is shown behind each, and numbers for as many tokens as there may be. */
const SAID = fc.record({
  turns: fc.array(fc.array(LINE, { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 3 }),
  isAnswered: fc.boolean(),
  reward: fc.constantFrom(0, 1),
  numbers: fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 120, maxLength: 120 }),
  values: fc.array(fc.integer({ min: 0, max: 16 }), { minLength: 12, maxLength: 12 }),
});
type Said = typeof SAID extends fc.Arbitrary<infer T> ? T : never;

function scored({ turns, isAnswered, reward, numbers, values }: Said, opts: Partial<CreditOptions>) {
  const parts = turns.flatMap((lines) => [lines.join(''), '[shown]\n']);
  if (isAnswered) parts.push('#### 4');
  const own = Uint8Array.from(parts.flatMap((part, n) => Array(part.length).fill(n % 2 === 0 ? 1 : 0)));
  const tokens = { ...letters(parts.join('')), own };
  const of = (scale: number) => Float32Array.from(own, (m, t) => (m ? ((numbers[t] ?? 1) * scale) / 400 : 0));
  const figures = { entropies: of(2), logprobs: of(-3) };
  const segmentation = mergeSegments(cutPieces(tokens, { segmenter: 'newline', fixedLength: 4 }), figures);
  const K = segmentation.thoughtEnds.length;
  const item = {
    ...{ trace: traceOf({}), promptIds: Int32Array.of(1), completionIds: new Int32Array(own.length) },
    ...{ chars: tokens.units, tokens, status: [], reward: { reward, status: [] }, groupMean: 0.25 },
    ...{ referenceSet: [{ answer: '4', utility: 1 }], continuations: [] },
  } as unknown as ValueJob;
  const credit: CreditOptions = {
    ...({ rule: 'share', residual: 'uniform', within: 'uniform', baseline: 'group' } as const),
    ...{ estimator: named('pr'), rewardRange: [0, 1] as const, ...opts },
  };
  const exits = Float32Array.from({ length: K + 1 }, (_, k) => (values[k] as number) / 16);
  const valued = valuedRow(item, { ...figures, segmentation, branches: [] }, { values: exits });
  const row = credited(valued, item, credit);
  return { row, own, figures, credit, K };
}

const sumOf = (list: Iterable<number>) => [...list].reduce((sum, x) => sum + x, 0);
describe('σ of several turns', () => {
  it.each(SIGMA_RULES)(
    "%s is that of the trace without what was shown: of the policy's own tokens",
    (rule) => {
      fc.assert(
        fc.property(SAID, fc.constantFrom('uniform', 'entropy', 'unsure'), (said, within) => {
          const { row, own, figures } = scored(said, { rule, within });
          const kept = <T>(list: Iterable<T>) => [...list].filter((_, t) => own[t] === 1);
          const segments = row.segments.filter(({ kind }) => kind !== 'shown');
          const thoughts = segments.filter(({ kind }) => kind === 'thought');
          let at = 0;
          const expected = computeSigma(
            rule,
            {
              segmentEnds: segments.map(({ start, end }) => (at += (end as number) - (start as number))),
              deltas: thoughts.map(({ delta }) => delta as number),
              values: [row.valueStart as number, ...thoughts.map(({ value }) => value as number)],
              ...{ entropies: kept(figures.entropies), logprobs: kept(figures.logprobs) },
              ...{ reward: said.reward, baseline: 0.25 },
            },
            { within },
          );
          const sigma = kept(row.sigma as Float32Array);
          expect(sigma).toHaveLength(expected.sigma.length);
          expect(sigma.filter((s, t) => !(Math.abs(s - (expected.sigma[t] as number)) < 1e-5))).toEqual([]);
        }),
      );
    },
  );

  it.each(SIGMA_RULES)(
    '%s sums to 1 over the policy’s tokens and is 0 on the others; so are all lists of tokens',
    (rule) => {
      fc.assert(
        fc.property(SAID, fc.constantFrom('uniform', 'entropy', 'unsure'), (said, within) => {
          const asked = { rule, within, others: ['rudder', 'surprise'] } as const;
          const { row, own } = scored(said, asked as Partial<CreditOptions>);
          const { sigma_rudder: rudder, sigma_surprise: surprise } = row.requested ?? {};
          for (const list of [row.sigma, rudder, surprise] as Float32Array[]) {
            expect(list).toHaveLength(own.length);
            expect(sumOf(list)).toBeCloseTo(1, 4);
            expect(list.filter((s, t) => own[t] === 0 && !Object.is(s, 0))).toHaveLength(0);
          }
          const T = sumOf(own);
          const most = Math.max(...(row.sigma ?? []).map(Math.abs)) * T;
          expect(row.sigmaMaxWeight).toBeCloseTo(most, 3);
          if (rule === 'uniform') expect(row.sigmaGain).toBeCloseTo(1, 5);
          for (const { kind, ...numbers } of row.segments.filter((segment) => segment.kind === 'shown'))
            expect(numbers).toMatchObject({ entropy: 0, delta: 0, sigma: 0, value: null });
        }),
      );
    },
  );

  it('what a tool answers is damped by nothing: of no step over it could the policy be sure', () => {
    fc.assert(
      fc.property(SAID, fc.constantFrom('scaled', 'smoothed'), (said, steps) => {
        const { row, own, figures } = scored(said, { steps });
        const segments = row.segments.filter(({ kind }) => kind !== 'shown');
        const thoughts = segments.filter(({ kind }) => kind === 'thought');
        let at = 0;
        const ends = segments.map(({ start, end }) => (at += (end as number) - (start as number)));
        const values = [row.valueStart, ...thoughts.map(({ value }) => value)] as number[];
        // behind each turn stands what the policy was shown: behind its last segment
        const shownBehind = segments.map(({ end }) => own[end as number] === 0);
        const logprobs = figures.logprobs.filter((_, t) => own[t] === 1);
        const { values: stepped, factors } = steppedValues(values, ends, logprobs, steps, shownBehind);
        for (const [k, { delta }] of thoughts.entries()) {
          const step = (stepped[k + 1] as number) - (stepped[k] as number);
          expect(delta).toBeCloseTo(step * (factors[k] as number), 6);
        }
        expect(shownBehind).toContain(true);
      }),
      { numRuns: 60 },
    );
  });

  it('is made again from the stored row, bit for bit', () => {
    fc.assert(
      fc.property(SAID, (said) => {
        const { row, credit } = scored(said, { rule: 'share', within: 'entropy', others: ['rudder'] });
        expect(credited(row, { groupMean: 0.25 }, credit)).toEqual(row);
      }),
    );
  });
});
