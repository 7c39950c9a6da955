// When an interval is one: so many resamples make a figure that its percentiles mean something.
import { expect, it } from 'vitest';
import { type Figure, withIntervals } from '../../dist/compare/bootstrap.js';

/** Of three groups with one trace each: their mean, where every one of the first `needed` was drawn. */
function figure(needed: number): Figure {
  const terms = Float64Array.from(
    [1, 2, 3].flatMap((number, i) => [number, 1, i === 0, i === 1, i === 2].map(Number)),
  );
  return {
    ...{ terms, m: 5 },
    value: ([sum = 0, n = 0, ...drawn]) =>
      Array.from(drawn)
        .slice(0, needed)
        .every((times) => times > 0)
        ? sum / n
        : Number.NaN,
  };
}

it.each([
  // of three drawn with replacement one is among them in 19 of 27, two are in 12, all three in 6
  [0, true],
  [1, true],
  [2, false],
  [3, false],
])('a figure that %i of 3 groups make has an interval: %s', (needed, isKnown) => {
  const [found] = withIntervals([figure(needed)], Int32Array.of(0, 1, 2), { resamples: 1000, seed: 1 });
  expect(found?.value).toBe(2);
  expect([found?.low, found?.high].map(Number.isNaN)).toEqual([!isKnown, !isKnown]);
  if (isKnown) expect((found?.low as number) < 2 && (found?.high as number) > 2).toBe(true);
});
