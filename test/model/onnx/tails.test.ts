// Tails as few branches: the numbers are those of every tail read by itself, and nothing is read twice.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { shareTails, tailScores } from '../../../dist/model/onnx/tails.js';
import { fakeStats } from '../../support/fake-policy.js';

const tokens = (maxLength: number) => fc.array(fc.integer({ min: 0, max: 1 }), { minLength: 1, maxLength });

it('tails of several exits: have the scores of each read by itself, from no more tokens', () => {
  let [shared, alone] = [0, 0];
  fc.assert(
    fc.property(
      tokens(12),
      fc.array(fc.record({ exit: fc.nat(11), tails: fc.array(tokens(6), { maxLength: 4 }) }), {
        maxLength: 6,
      }),
      (completion, asked) => {
        const prompt = [7, 8];
        const own = Int32Array.from(completion);
        const exits = asked.map(({ exit }) => Math.min(exit, completion.length - 1));
        const tails = asked.map((each) => each.tails.map((ids) => Int32Array.from(ids)));
        let next = 0;
        const plan = shareTails(own, exits, () => tails[next++] as Int32Array[]);
        const { logprobs } = fakeStats([...prompt, ...completion], prompt.length);
        const behind = (exit: number, ids: ArrayLike<number>) =>
          fakeStats([...prompt, ...completion.slice(0, exit), ...Array.from(ids)], prompt.length + exit)
            .logprobs;
        const scored = plan.branches.map(({ exit, suffix }) => behind(exit, suffix.ids));
        const expected = tails.map((each, k) => each.map((ids) => behind(exits[k] as number, ids)));
        expect(tailScores(plan, exits, logprobs, scored)).toEqual(expected);
        for (const [b, { exit, suffix }] of plan.branches.entries()) {
          expect(suffix.ids[0]).not.toBe(completion[exit]);
          for (const [c, other] of plan.branches.entries())
            if (b !== c && exit === other.exit)
              expect(`${other.suffix.ids},`.startsWith(`${suffix.ids},`)).toBe(false);
        }
        shared += plan.branches.reduce((sum, { suffix }) => sum + suffix.ids.length, 0);
        alone += tails.flat().reduce((sum, { length }) => sum + length, 0);
      },
    ),
  );
  expect(shared).toBeLessThan(0.8 * alone);
});
