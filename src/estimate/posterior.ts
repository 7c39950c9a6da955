// `posterior`: how far a hint, the answer or a right peer's text in the prompt, makes the tokens so far likelier, by one more pass over the trace.

import { CORRECT } from '../credit/nature.js';
import { oneOf } from '../flag-values.js';
import type { ReaderAnswers, TraceQuestions } from '../question.js';
import type { Estimator, EstimatorSetup, OpenEstimator, ValueJob } from './estimator.js';
import { type Peer, refuseStream } from './peers.js';
import { listColumn, noReferences } from './value.js';

/** What a hint tells: a reference's answer, or the text of one of the group's right completions; the first is the default. */
const HINTS = ['answer', 'peer'] as const;

export const posterior: Estimator = {
  name: 'posterior',
  scores: 'nothing',
  isAttribution: true,
  isMagnitude: true,
  noLevel: 'no values of a state',
  valueName: 'p(hint)',
  card: 'no value: how far a hint, the reference answer or the text of a right peer (`hint`), makes the tokens so far likelier, as a probability',
  flags: [
    ['--hint <what>', `of posterior: what a prompt tells: ${HINTS.join('|')} (default: ${HINTS[0]})`],
    [
      '--hint-template <file>',
      "of posterior: how a prompt tells the answer, or the peer's text (default: the policy's own)",
    ],
    ['--hint-policy <folder>', 'of posterior: a policy folder that reads the hint (default: --policy)'],
  ],
  configKeys: ['hint', 'hintTemplate', 'hintPolicy'],
  columns: () => [
    listColumn('hint_logprobs', 'log-probability of each completion token behind the hinted prompt, nats'),
  ],
  setUp({ hint: asked = HINTS[0], hintTemplate, hintPolicy }, { inputs }): EstimatorSetup {
    const hint = oneOf('--hint', String(asked), HINTS);
    const isOfPeer = hint === 'peer';
    if (isOfPeer) refuseStream('posterior --hint peer', inputs);
    return {
      ...(isOfPeer ? { readsPeers: true, config: { hint } } : { readsReferences: true }),
      async open(context): Promise<OpenEstimator> {
        const { openHint, secondConfig } = await import('./second-policy.js');
        const files = [hintTemplate, hintPolicy] as readonly (string | undefined)[];
        const { template, reader, hinted, ofAnswer, ofPeer } = await openHint(hint, files, context);
        const told = (trace: ValueJob) => {
          if (!isOfPeer) return ofAnswer(trace.references);
          const peer = rightPeer(trace);
          return peer && ofPeer(peer.completionIds.subarray(0, lengthOf(peer)));
        };
        return {
          config: { hintTemplate: template, ...(reader && { hintPolicy: secondConfig(reader) }) },
          ...(isOfPeer && { peers: Number.POSITIVE_INFINITY }),
          second: { model: reader, name: reader ? 'hint policy' : 'policy' },
          async ask(trace): Promise<TraceQuestions> {
            const ids = await told(trace);
            return { atExits: [], second: ids === undefined ? {} : { promptIds: hinted(trace, ids) } };
          },
          values(_, { logprobs, segmentation: { exits }, second }, { second: asked }) {
            const hasHint = asked?.promptIds !== undefined;
            // without a hint nothing is told by it
            const read = hasHint ? (second as ReaderAnswers).logprobs : logprobs;
            return {
              values: posteriorValues(logprobs, read, exits),
              columns: { hint_logprobs: read },
              status: hasHint ? [] : [NO_HINT],
              ...noReferences(exits.length),
            };
          },
          [Symbol.asyncDispose]: async () => reader?.[Symbol.asyncDispose](),
        };
      },
    };
  },
};

/** Tokens without its end token. */
function lengthOf({ completionIds, pieces }: Peer): number {
  return Math.min(completionIds.length, pieces.tokens.textEnd);
}

/** The right peer with the fewest tokens; of equal ones the first that follows the trace. */
function rightPeer({ peers = [] }: ValueJob): Peer | undefined {
  const right = peers.filter(({ reward }) => (reward.reward as number) > CORRECT);
  return right.toSorted((a, b) => lengthOf(a) - lengthOf(b))[0];
}

/** Status of a trace without a hint: its group has no right peer, or it has no group. */
const NO_HINT = 'hint:no-peer';

/**
 * v_k = logistic(Σ_{s_0 ≤ t < exit k} log π(o_t | x, hint) − log π(o_t | x)), summed in float64: ½ at s_0, wherever the tag
 * that opens the thought stands.
 * @param logprobs (T) nats, without the hint
 * @param hinted (T) nats, with it
 * @param exits (K+1) rising, in tokens of the completion
 * @returns (K+1) in (0, 1), as they are stored
 */
export function posteriorValues(logprobs: Float32Array, hinted: Float32Array, exits: Int32Array) {
  let [sum, t] = [0, exits[0] ?? 0];
  return Float32Array.from(exits, (exit) => {
    for (; t < exit; t++) sum += (hinted[t] as number) - (logprobs[t] as number);
    return 1 / (1 + Math.exp(-sum));
  });
}
