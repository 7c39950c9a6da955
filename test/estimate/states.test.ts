// What the calibrated value knows of a state, on a worked example.
import { expect, it } from 'vitest';
import { FEATURES, FEATURES_OF, stateFeatures } from '../../dist/estimate/states.js';

it('is v̂ two ways, the tokens so far and how surprising they were; nothing behind a state', () => {
  const logprobs = [-0.5, -2.29, -2.31, -4, -9];
  const found = stateFeatures({
    values: Float32Array.of(0.5, 1, 0.25),
    geoValues: Float32Array.of(0, 0.5, 0.75),
    ends: Int32Array.of(2, 4),
    logprobs: Float32Array.from(logprobs),
  });
  // v̂ is held within 1e-4 of 0 and 1 where its logarithm is taken, and a token of log p < −2.3 is improbable
  const far = Math.log(1e-4 / (1 - 1e-4));
  const expected = [
    [0, 0.5, 0, 0, 0, 0, 0, far, 0],
    [-far, 1, 2, -2.29, -2.79, 0, -2.79, 0, 0.5],
    [-Math.log(3), 0.25, 4, -4, -9.1, 2, -6.31, Math.log(3), 0.75],
  ].flat();
  expect(found).toHaveLength(3 * FEATURES.length);
  for (const [i, number] of expected.entries()) expect(found[i], FEATURES[i % 9]).toBeCloseTo(number, 6);
});

it('of `ask` it is also the summed entropies, the lowest P(yes) so far, and whether anything is written', () => {
  const values = Float32Array.of(0.75, 0.5, 0.875);
  const states = {
    ...{ values, geoValues: values, ends: Int32Array.of(1, 3) },
    ...{ logprobs: Float32Array.of(-1, -1, -1), entropies: Float32Array.of(0.5, 0.25, 2) },
  };
  const F = FEATURES_OF.ask.length;
  const found = stateFeatures(states, [], 'ask');
  const last = (k: number) => Array.from(found.subarray((k + 1) * F - 3, (k + 1) * F));
  expect(FEATURES_OF.ask.slice(-3)).toEqual(['entropy_sum', 'lowest_value', 'start']);
  expect([0, 1, 2].map(last)).toEqual([
    [0, 0.75, 1],
    [0.5, 0.5, 0],
    [2.75, 0.5, 0],
  ]);
});
