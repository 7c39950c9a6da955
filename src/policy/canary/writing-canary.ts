// The graph that writes, held against the one that scores, which has proved itself: what one wrote, the other reads again.
import type { Precision } from '../build/precision.js';
import { type Begun, continueTraces, type PolicyWrites } from '../run/continue.js';
import { rowKey } from '../run/random.js';
import { Farthest, type Finding, NATS } from './canary.js';

/** What reads a sequence again. */
export interface Reads {
  run(
    traces: readonly {
      readonly ids: Int32Array;
      readonly promptLength: number;
      readonly branches: readonly [];
    }[],
  ): Promise<readonly { readonly logprobs: Float32Array }[]>;
}

/** Tokens that a row writes: from the second on it reads keys and values of its own. */
const WRITTEN = 6;

/**
 * Lets a session go on from two states of a trace at once, so that one row is padded, and reads what it wrote by its scoring graph.
 * @param ids (T ≥ 4) of a trace
 * @param opts maxTokens: of a sequence
 * @returns how far apart the two graphs' log-probabilities of what was written are, nats
 */
export async function proveWriting(
  session: PolicyWrites & Reads,
  ids: Int32Array,
  { precision, maxTokens }: { readonly precision: Precision; readonly maxTokens: number },
): Promise<Finding> {
  const logprob = new Farthest('written log p', 'nats', NATS[precision]);
  const starts = [ids.length >> 1, ids.length - 1].map((exit) => ({
    exit,
    key: rowKey('canary', exit, 0),
    most: Math.min(WRITTEN, maxTokens - exit),
  }));
  const begun: Begun = { ids, starts };
  const how = { temperature: 1, topP: 1, stops: [], batch: starts.length };
  const [written = []] = await continueTraces(session, [begun], how);
  const sequences = starts.map(({ exit }, row) => ({
    ids: Int32Array.of(...ids.subarray(0, exit), ...(written[row]?.ids ?? [])),
    promptLength: exit,
    branches: [] as const,
  }));
  const read = await session.run(sequences);
  for (const [row, { exit, most }] of starts.entries()) {
    const place = (t: number) => `token ${t} of ${most} written behind ${exit} of ${ids.length}`;
    logprob.add(written[row]?.logprobs ?? [], read[row]?.logprobs ?? [], place);
  }
  return logprob.result();
}
