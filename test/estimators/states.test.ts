// What the calibrated value knows of a state, on a worked example.
import { expect, it } from 'vitest';
import { FEATURES, stateFeatures } from '../../dist/estimators/states.js';

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
