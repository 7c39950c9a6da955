// Scored rows and written completions in, the tokens that each estimator puts through the policy out.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { estimatorNamed } from '../../dist/estimators/registry.js';
import { openTokenizer } from '../../dist/policy/text/open-tokenizer.js';
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
 * every exit every reference behind the exit template; of `siblings` also the mates' tails, at most; of `loo` the trace again, and what
 * follows each segment.
 * @param before tokens of the template before the answer; `reference_tokens` counts what is scored, which of a continuation is all of it
 * @param config of the run
 */
export function forwardTokens(estimator, rows, before, { mates = 0, mateTokens = 0 } = {}) {
  const own = estimatorNamed(estimator).scores === 'continuations' ? 0 : before;
  const branches = rows.map((row) => {
    const references = row.reference_tokens.reduce((sum, tokens) => sum + own + tokens, 0);
    const others = rows.filter(({ group }) => group === row.group).length - 1;
    return (thoughtsOf(row).length + 1) * (references + Math.min(mates, others) * mateTokens);
  });
  const again = READS_AGAIN.has(estimator) ? readOnce(rows) : 0;
  const without = estimator === 'loo' ? rows.map((row) => afterSegments(row, before)) : [];
  return [...branches, ...without].reduce((sum, tokens) => sum + tokens, readOnce(rows) + again);
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
