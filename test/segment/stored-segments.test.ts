/** What verify says of segments that their segmenter cannot have made: each kind of fault once, and rows that have none. */
import { expect, test } from 'vitest';
import { segmentFaults } from '../../dist/segment/segmenters.js';
import { decoded } from '../support/faults.js';

const ENTROPIES = [0, 1, 2, 0, 3, 0, 0, 1, 0, 0];
const LOGPROBS = [0, -1, -1, 0, -1, 0, 0, -1, 0, 0];

/** A row of ten tokens, cut at `ends`; the last segment is the answer. */
function row(ends: readonly number[], cells: Readonly<Record<string, unknown>> = {}) {
  const segments = [...ends, 10].map((end, k, all) => ({
    start: cells.status === undefined ? (all[k - 1] ?? 0) : null,
    end: cells.status === undefined ? end : null,
    char_end: 3 * end,
    kind: end === 10 ? 'answer' : 'thought',
  }));
  return decoded({ segments, status: 'ok', entropies: ENTROPIES, logprobs: LOGPROBS, ...cells });
}

const BY_LENGTH = { status: 'segments:by-length', entropies: null };

test.each([
  ['nothing is said of the segmenter', {}, [2, 4, 9], []],
  ['at most as many', { segmenter: 'hybrid', maxSegments: 3 }, [2, 4, 9], []],
  [
    'one more',
    { segmenter: 'hybrid', maxSegments: 2 },
    [2, 4, 9],
    [/has 3 thought segments, expected at most 2/],
  ],
  ['fixed', { segmenter: 'fixed', fixedLength: 3 }, [4, 7, 9], []],
  ['fixed, one segment', { segmenter: 'fixed', fixedLength: 30 }, [9], []],
  [
    'fixed, one is short',
    { segmenter: 'fixed', fixedLength: 3 },
    [4, 6, 9],
    [/segments\[1\] has 2 tokens, expected 3/],
  ],
  ['fixed, the last is long', { segmenter: 'fixed', fixedLength: 3 }, [4, 8], [/segments\[1\] has 4 tokens/]],
  [
    'fixed, the first is short',
    { segmenter: 'fixed', fixedLength: 3 },
    [2, 5, 8],
    [/segments\[0\] has 2 tokens/],
  ],
  ['fixed, merged', { segmenter: 'fixed', fixedLength: 1, maxSegments: 3 }, [4, 6, 9], []],
  ['entropy', { segmenter: 'entropy', entropyThreshold: 2 }, [2, 4, 9], []],
  [
    'entropy, too low',
    { segmenter: 'entropy', entropyThreshold: 2 },
    [1, 4, 9],
    [/ends before token 1, whose entropies 1/],
  ],
  ['entropy, a share', { segmenter: 'entropy', entropyShare: 0.25 }, [2, 4, 9], []],
  [
    'entropy, too many',
    { segmenter: 'entropy', entropyShare: 0.2 },
    [2, 4, 9],
    [/has 3 .* at most 2 \(--entropy-share\)/],
  ],
  ['cutpoint', { segmenter: 'cutpoint', cutpointProbability: 0.9, cutpointEvery: 2 }, [2, 7, 9], []],
  [
    'cutpoint, a likely token',
    { segmenter: 'cutpoint', cutpointProbability: 0.9 },
    [3, 7, 9],
    [/before token 3, whose logprobs 0/],
  ],
  ['adaptive', { segmenter: 'adaptive', adaptiveLimit: 2.9 }, [2, 4, 9], []],
  [
    'adaptive, a pair left',
    { segmenter: 'adaptive', adaptiveLimit: 3.5 },
    [2, 4, 9],
    [/segments\[0\] and \[1\] sum to 3, expected more/],
  ],
] as const)('%s', (_, config, ends, expected) => {
  const found = segmentFaults(row(ends), config);
  expect(found).toHaveLength(expected.length);
  for (const [n, text] of expected.entries()) expect(found[n]).toMatch(text);
});

test('without a policy lengths are characters, and figures are not asked for', () => {
  const adaptive = { segmenter: 'adaptive', adaptiveLimit: 11 };
  expect(segmentFaults(row([2, 4, 9], BY_LENGTH), adaptive)).toEqual([]);
  expect(segmentFaults(row([2, 4, 9], BY_LENGTH), { ...adaptive, adaptiveLimit: 13 })).toHaveLength(1);
  expect(segmentFaults(row([2, 4, 9], { entropies: null }), { ...adaptive, adaptiveLimit: 99 })).toEqual([]);
  expect(segmentFaults(row([3, 6, 9], BY_LENGTH), { segmenter: 'fixed', fixedLength: 9 })).toEqual([]);
});
