// Steps by kind: a worked example, and sums that do not depend on how steps are told apart.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { drawSteps } from '../../dist/report/numbers-view.js';
import { StepKinds } from '../../dist/report/steps.js';
import { TRANSITIONS } from '../../dist/segment/split.js';
import { bareRow } from '../support/io-helpers.js';

interface Step {
  readonly text: string;
  readonly tokens: number;
  readonly delta: number;
  readonly sigma: number;
}

/** A scored row whose thought is these steps, without an answer. */
function rowOf(steps: readonly Step[], reward: number | null, status: readonly string[] = []) {
  let [start, charStart] = [0, 0];
  const segments = steps.map(({ text, tokens, delta, sigma }) => {
    const segment = {
      ...{ start, end: start + tokens, charStart, charEnd: charStart + [...text].length },
      ...{ kind: 'thought' as const, entropy: 0, value: 0.5, delta, sigma },
    };
    [start, charStart] = [segment.end, segment.charEnd];
    return segment;
  });
  const row = { ...bareRow({}), segments, reward, baseline: 0.5, status };
  return [row, steps.map(({ text }) => text).join('')] as const;
}

it('counts by the word that opens a step, by fifths of the trace, and by tokens', () => {
  const kinds = new StepKinds(TRANSITIONS, false);
  // 𝛼 is two units of UTF-16, one character
  const right = [
    { text: '<think>\nSo 𝛼\n', tokens: 8, delta: 0.25, sigma: 0.6 },
    { text: 'Wait, no.\n', tokens: 2, delta: -0.5, sigma: 0.4 },
  ];
  const wrong = [
    { text: 'Sorry\n', tokens: 9, delta: 0, sigma: 0.9 },
    { text: 'Wait\n', tokens: 300, delta: -0.25, sigma: 0.1 },
  ];
  kinds.add(...rowOf(right, 1));
  kinds.add(...rowOf(wrong, 0));
  kinds.add(...rowOf(wrong, 0, ['uniform:small-return'])); // no σ of its rule
  const weight = (sigma: number, tokens: number, T: number) => (sigma * T) / tokens;
  const found = kinds.kinds.map(({ by, kind, ...means }) => [`${by} ${kind}`, means] as const);
  expect(found.map(([name, { steps }]) => [name, steps])).toEqual([
    ['keyword Wait', 3],
    ['keyword other', 2],
    ['keyword So', 1],
    ['place 1/5', 2],
    ['place 3/5', 3],
    ['place 5/5', 1],
    ['tokens 1-8', 2],
    ['tokens 9-16', 2],
    ['tokens 257+', 2],
  ]);
  const [, wait] = found[0] as (typeof found)[number];
  expect(wait.gain).toBe(0);
  expect(wait.loss).toBeCloseTo((0.5 + 0.25 + 0.25) / 3, 12);
  expect(wait.weight_right).toBeCloseTo(weight(0.4, 2, 10), 12);
  expect(wait.weight_wrong).toBeCloseTo(weight(0.1, 300, 309), 12);
  expect(found[2]?.[1]).toMatchObject({ gain: 0.25, loss: 0, weight_wrong: null });
  expect(drawSteps(kinds.kinds).slice(1, 3)).toEqual([
    'kind of step                     steps mean rise mean fall σ·T right σ·T wrong',
    'keyword Wait                         3     0.000     0.333     2.000     0.103',
  ]);
  // without a text no word is known, and a magnitude has the sign of the outcome
  const blind = new StepKinds(TRANSITIONS, true);
  blind.add(rowOf(wrong, 0)[0], '');
  expect(blind.kinds.map(({ by, loss }) => [by, loss])).toEqual([
    ['place', 0],
    ['place', 0.25],
    ['tokens', 0],
    ['tokens', 0.25],
  ]);
});

it('has each step once in each of the three, and their rises and falls add up', () =>
  fc.assert(
    fc.property(
      fc.array(
        fc.record({
          text: fc.constantFrom('Wait\n', 'But so\n', 'x\n', '\n'),
          tokens: fc.integer({ min: 1, max: 600 }),
          delta: fc.double({ min: -1, max: 1, noNaN: true }),
          sigma: fc.double({ min: -1, max: 1, noNaN: true }),
        }),
        { minLength: 1, maxLength: 40 },
      ),
      (steps) => {
        const kinds = new StepKinds(TRANSITIONS, false);
        kinds.add(...rowOf(steps, 1));
        for (const by of ['keyword', 'place', 'tokens']) {
          const own = kinds.kinds.filter((kind) => kind.by === by);
          const total = (of: (kind: (typeof own)[number]) => number) =>
            own.reduce((sum, kind) => sum + kind.steps * of(kind), 0);
          expect(total(() => 1)).toBe(steps.length);
          expect(total(({ gain, loss }) => gain - loss)).toBeCloseTo(
            steps.reduce((sum, { delta }) => sum + delta, 0),
            9,
          );
        }
      },
    ),
  ));
