// Counts the tokens that each estimator puts through the policy.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { bagsOf, chooseMates, tailsAt } from '../../dist/estimate/mates.js';
import { estimatorNamed } from '../../dist/estimate/registry.js';
import { shareTails } from '../../dist/estimate/shared-tails.js';
import { encodeTrace } from '../../dist/model/text/encode.js';
import { openTokenizer } from '../../dist/model/text/open-tokenizer.js';
import { candidateExits, cutPieces } from '../../dist/segment/segment.js';
import { thoughtsOf } from './traces.mjs';

/** Tokens of the exit template before the answer. */
export async function tokensBeforeAnswer(folder) {
  const { exitTemplate } = JSON.parse(readFileSync(join(folder, 'policy.json'), 'utf8'));
  const tokenizer = await openTokenizer(folder);
  try {
    return (await tokenizer.encode(exitTemplate.close + exitTemplate.open)).length;
  } finally {
    await tokenizer.close();
  }
}

const readOnce = (rows) =>
  rows.reduce((sum, { prompt_ids, completion_ids }) => sum + prompt_ids.length + completion_ids.length, 0);

/**
 * Of an estimator that generates nothing: each trace is read once, by another model or for attention and gradient once more, and at
 * every exit every reference behind the exit template; of `loo` the trace again, and what follows each segment.
 * @param before tokens of the template before the answer; `reference_tokens` counts what is scored, which of a continuation is all of it
 */
export function forwardTokens(estimator, rows, before) {
  const own = estimatorNamed(estimator).scores === 'continuations' ? 0 : before;
  const branches = rows.map((row) => {
    const references = row.reference_tokens.reduce((sum, tokens) => sum + own + tokens, 0);
    return (thoughtsOf(row).length + 1) * references;
  });
  const again = READS_AGAIN.has(estimator) ? readOnce(rows) : 0;
  const without = estimator === 'loo' ? rows.map((row) => afterSegments(row, before)) : [];
  return [...branches, ...without].reduce((sum, tokens) => sum + tokens, readOnce(rows) + again);
}

/**
 * Of `siblings`, beside that: the tails of mates as far as they are no other's, whole groups given.
 * @param rows cut at their lines
 * @param config of the run
 */
export async function tailTokens(rows, folder, config) {
  const tokenizer = await openTokenizer(folder);
  try {
    const groups = new Map();
    for (const { prompt, completion, ...row } of rows) {
      const completionIds = Int32Array.from(row.completion_ids);
      const ids = { promptIds: Int32Array.from(row.prompt_ids), completionIds };
      const { tokens } = await encodeTrace({ prompt, completion, ...ids }, tokenizer, Infinity, Infinity);
      const trace = { completionIds, pieces: cutPieces(tokens, { segmenter: 'newline' }) };
      groups.set(row.group, [...(groups.get(row.group) ?? []), { ...trace, bags: bagsOf(trace) }]);
    }
    let sum = 0;
    for (const group of groups.values())
      for (const own of group) {
        const others = group.filter(({ completionIds }) => `${completionIds}` !== `${own.completionIds}`);
        const tails = tailsAt(own, chooseMates(own, others, config.mates), config);
        const shared = shareTails(own.completionIds, Array.from(candidateExits(own.pieces)), tails);
        for (const { suffix } of shared.branches) sum += suffix.ids.length;
      }
    return sum;
  } finally {
    await tokenizer.close();
  }
}

const READS_AGAIN = new Set(['attention', 'gradient', 'loo', 'progress', 'prm', 'posterior']);

/** Tokens behind each segment of a trace that is left out, up to each reference. */
function afterSegments(row, before) {
  const ends = thoughtsOf(row).map(({ end }) => end);
  const references = row.reference_tokens.map((tokens) => before + tokens);
  return ends.reduce(
    (sum, end) => sum + references.reduce((all, own) => all + ends.at(-1) - end + own, 0),
    0,
  );
}

/** Of Monte Carlo: each trace is read twice, for its entropies and for the states; the rest is written. */
export function sampledTokens(rows, written) {
  return 2 * readOnce(rows) + written;
}
