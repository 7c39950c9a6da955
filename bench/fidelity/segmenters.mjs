// Scored rows in, their thoughts cut by every segmenter into K segments out, as the program itself cuts them.

import { encodeTrace } from '../../dist/model/text/encode.js';
import { openTokenizer } from '../../dist/model/text/open-tokenizer.js';
import { cutPieces, mergeSegments } from '../../dist/segment/segment.js';

/** Numbers of segments that are tried. */
export const COUNTS = [5, 10, 20, 40];

/** Every segmenter by name, with the flags by which n tokens become K segments, or as many as it finds where these are fewer. */
export const SEGMENTERS = [
  ['hybrid', (_, K) => ({ segmenter: 'hybrid', maxSegments: K })],
  ['newline', (_, K) => ({ segmenter: 'newline', maxSegments: K })],
  ['sentence', (_, K) => ({ segmenter: 'sentence', maxSegments: K })],
  ['keyword', (_, K) => ({ segmenter: 'keyword', maxSegments: K })],
  ['fixed', (n, K) => ({ segmenter: 'fixed', fixedLength: Math.ceil(n / K) })],
  ['fixed 1, merged', (_, K) => ({ segmenter: 'fixed', fixedLength: 1, maxSegments: K })],
  ['entropy', (n, K) => ({ segmenter: 'entropy', entropyShare: Math.min(1, (K - 1) / (n - 1) + 1e-9) })],
  ['cutpoint', (_, K) => ({ segmenter: 'cutpoint', cutpointEvery: 1, maxSegments: K })],
];

/**
 * @param folder of the policy that scored the rows
 * @returns of each row its thought's `start`, `figures` of its tokens, and `cuts(options)`: rising boundaries from 1 to n, counted from there
 */
export async function cutters(folder, rows) {
  const tokenizer = await openTokenizer(folder);
  try {
    const found = [];
    for (const row of rows) {
      const { prompt, completion, logprobs, entropies } = row;
      const ids = {
        promptIds: Int32Array.from(row.prompt_ids),
        completionIds: Int32Array.from(row.completion_ids),
      };
      const vocab = Number.POSITIVE_INFINITY;
      const { tokens } = await encodeTrace({ prompt, completion, ...ids }, tokenizer, vocab, vocab);
      const figures = { logprobs: Float32Array.from(logprobs), entropies: Float32Array.from(entropies) };
      const { start, end } = cutPieces(tokens, { segmenter: 'newline', fixedLength: 1 }).thought;
      const cuts = (options) => {
        const { thoughtEnds } = mergeSegments(cutPieces(tokens, { fixedLength: 1, ...options }), figures);
        return Array.from(thoughtEnds, (cut) => cut - start);
      };
      const ofThought = {
        logprobs: figures.logprobs.subarray(start, end),
        entropies: figures.entropies.subarray(start, end),
      };
      found.push({ start, end, cuts, figures: ofThought });
    }
    return found;
  } finally {
    await tokenizer.close();
  }
}
