// The noise of who answers: how far its answers are off, by those that are known.
import { unsureness } from '../../credit/sigma.js';

/** Of normal errors the standard deviation, by their median, which does not mind a few large ones. */
const OF_MEDIAN = 1.48;
/** What is surer tells nothing, and what is less likely than this is often off by more: nobody would give it. */
const SURE = -1e-3;
const LIKELY = Math.log(0.05);

/**
 * Standard deviation of the log-probability of an improbable answer, or token, nats. Errors are of logits, so that of one of probability p is
 * (1 − p) times as large, whatever p is. What was not off at all was computed alike, and says nothing.
 * @param compared log-probabilities as they were given and as they are known
 */
export function answerNoise(compared: readonly (readonly [found: number, known: number])[]): number {
  const errors = compared
    .filter(([found, known]) => found !== known && known < SURE)
    .map(([found, known]) => ({ known, off: Math.abs(found - known) / unsureness(known) }));
  const likely = errors.filter(({ known }) => known > LIKELY);
  const sorted = (likely.length > 0 ? likely : errors).map(({ off }) => off).sort((a, b) => a - b);
  return OF_MEDIAN * (sorted[sorted.length >> 1] ?? 0);
}
