// Segmentation alone: merging 5,000 pieces of a 25,000-token trace down to 40.
import { mergePieces } from '../dist/segment/merge.js';
import { segmentSums } from '../dist/segment/segment.js';
import { tokensOf } from './checkpoint.mjs';
import { median } from './measure.mjs';

const entropies = Float32Array.from(tokensOf(10_000, 5)(25_000), (n) => n / 10_000);
const ends = Int32Array.from({ length: 5_000 }, (_, i) => 5 * (i + 1));
const times = [];
for (let i = 0; i < 50; i++) {
  const start = performance.now();
  mergePieces(ends, segmentSums(entropies, ends), 40);
  if (i >= 10) times.push(performance.now() - start);
}
console.log(
  JSON.stringify([
    {
      name: 'segmentation, 25,000 tokens, 5,000 pieces to 40',
      value: median(times),
      unit: 'ms',
      reach: '<=5',
    },
  ]),
);
