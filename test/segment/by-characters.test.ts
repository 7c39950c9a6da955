// Without a policy, length stands in for entropy: neighbours with the fewest characters together are merged.
import { expect, it } from 'vitest';
import { cutPieces, mergeSegments } from '../../dist/segment/segment.js';

const lines = 'aa\nb\nccccccc\nd\n'; // 3, 2, 8 and 2 characters
const tokens = {
  text: lines,
  units: Int32Array.from({ length: lines.length + 1 }, (_, t) => t),
  textEnd: lines.length,
};

it.each([
  [4, [3, 5, 13, 15]],
  [3, [5, 13, 15]],
  [2, [5, 15]],
  [1, [15]],
])('down to %i', (maxSegments, ends) => {
  const pieces = cutPieces(tokens, { segmenter: 'newline', fixedLength: 64, maxSegments });
  expect([...mergeSegments(pieces, null).thoughtEnds]).toEqual(ends);
});
