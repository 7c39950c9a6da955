// `posterior`: how far a hint, the answer or a right peer's text in the prompt, makes the tokens so far likelier, by one more pass over the trace; or likelier than a wrong hint does.

import { CORRECT } from '../credit/nature.js';
import { oneOf } from '../flag-values.js';
import { spelledText } from '../model/text/encode.js';
import type { ReaderAnswers, TraceQuestions } from '../question.js';
import { compareAnswers } from './answer.js';
import { type AnswerMarks, ownAnswer, plainAnswer } from './answer-text.js';
import type { Estimator, EstimatorSetup, OpenEstimator, ValueJob } from './estimator.js';
import { type Peer, type Peers, refuseStream } from './peers.js';
import { listColumn } from './value.js';

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
      '--contrast <how>',
      "of posterior: wrong: likelier than behind a wrong hint, the group's most frequent wrong answer, or else the reference with another last digit, or letter; of --hint peer a wrong peer's text (default: none)",
    ],
    [
      '--hint-template <file>',
      "of posterior: how a prompt tells the answer, or the peer's text (default: the policy's own)",
    ],
    ['--hint-policy <folder>', 'of posterior: a policy folder that reads the hint (default: --policy)'],
  ],
  columns: ({ contrast }) => [
    listColumn('hint_logprobs', 'log-probability of each completion token behind the hinted prompt, nats'),
    ...(contrast === undefined
      ? []
      : [listColumn('contrast_logprobs', 'the same behind the prompt with the wrong hint, nats')]),
  ],
  setUp({ hint: asked = HINTS[0], contrast, hintTemplate, hintPolicy }, { inputs }): EstimatorSetup {
    const hint = oneOf('--hint', String(asked), HINTS);
    const isOfPeer = hint === 'peer';
    const hasContrast = contrast !== undefined;
    if (hasContrast) oneOf('--contrast', String(contrast), ['wrong']);
    const ofPeers = isOfPeer || hasContrast;
    if (ofPeers) refuseStream(`posterior ${isOfPeer ? '--hint peer' : '--contrast wrong'}`, inputs);
    return {
      config: { ...(isOfPeer && { hint }), ...(hasContrast && { contrast }) },
      ...(ofPeers && { readsPeers: true }),
      ...(!isOfPeer && { readsReferences: true }),
      async open(context): Promise<OpenEstimator> {
        const { bestOf, openHint, secondConfig } = await import('./second-policy.js');
        const files = [hintTemplate, hintPolicy] as readonly (string | undefined)[];
        const { template, reader, hinted, ofAnswer, ofPeer } = await openHint(hint, files, context);
        const textOf = (peer: Peer) => spelledText(peer.completionIds, context.tokenizer);
        const told = (trace: ValueJob, isRight: boolean) => {
          if (isOfPeer) {
            const peer = shortestPeer(trace, isRight);
            return peer && ofPeer(peer.completionIds.subarray(0, lengthOf(peer)));
          }
          const right = bestOf(trace.references);
          const answer = isRight ? right : wrongAnswer(trace, right, textOf, context.marks);
          return answer === undefined ? undefined : ofAnswer(answer);
        };
        return {
          config: { hintTemplate: template, ...(reader && { hintPolicy: secondConfig(reader) }) },
          ...(ofPeers && { peers: Number.POSITIVE_INFINITY }),
          second: { model: reader, name: reader ? 'hint policy' : 'policy' },
          async ask(trace): Promise<TraceQuestions> {
            const right = await told(trace, true);
            if (right === undefined) return { atExits: [], second: {} };
            const wrong = hasContrast ? await told(trace, false) : undefined;
            const otherPromptIds = wrong && hinted(trace, wrong);
            return { atExits: [], second: { promptIds: hinted(trace, right), otherPromptIds } };
          },
          values(_, { logprobs, segmentation: { exits }, second }, { second: asked }) {
            const hasHint = asked?.promptIds !== undefined;
            // without a hint nothing is told by it
            const read = hasHint ? (second as ReaderAnswers).logprobs : logprobs;
            const other = second?.peers?.[0];
            const isAlone = hasHint && hasContrast && other === undefined;
            return {
              values: posteriorValues(other ?? logprobs, read, exits),
              columns: { hint_logprobs: read, contrast_logprobs: other ?? logprobs },
              status: [...(hasHint ? [] : [NO_HINT]), ...(isAlone ? [NO_CONTRAST] : [])],
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

const isOfRight = ({ reward }: Peer): boolean => (reward.reward as number) > CORRECT;

/** The right peer, or the wrong one, with the fewest tokens; of equal ones the first that follows the trace. */
function shortestPeer({ peers = [] }: ValueJob, isRight: boolean): Peer | undefined {
  const own = peers.filter((peer) => isOfRight(peer) === isRight);
  return own.toSorted((a, b) => lengthOf(a) - lengthOf(b))[0];
}

/**
 * What most of the wrong peers answered, of equals the first by its text; where none has an answer the right one with another last digit, or as
 * another letter. An answer that is a reference too is not wrong, whatever was marked.
 * @returns undefined where that is neither
 */
export function wrongAnswer(
  { peers = [], references }: Partial<Peers> & Pick<ValueJob, 'references'>,
  right: string,
  textOf: (peer: Peer) => string,
  marks: AnswerMarks,
): string | undefined {
  const rights = references.filter(({ utility }) => utility > 0);
  const isWrong = (own: string): boolean =>
    own !== '' &&
    rights.every(({ answer }) => {
      const verdict = compareAnswers(own, answer);
      // "8 apples" may be 8
      return verdict === 'different' || (verdict === 'unknown' && !own.includes(answer));
    });
  const draws = new Map<string, number>();
  for (const peer of peers.filter((each) => !isOfRight(each))) {
    const answer = plainAnswer(ownAnswer(textOf(peer), marks) ?? '');
    if (isWrong(answer)) draws.set(answer, (draws.get(answer) ?? 0) + peer.draws);
  }
  const [most] = [...draws].toSorted(([one, a], [other, b]) => b - a || (one < other ? -1 : 1));
  const changed = right
    .replace(/\d(?=\D*$)/, (digit) => `${(Number(digit) + 1) % 10}`)
    // of a choice the letter before it, B of A
    .replace(/(?<=^\W*)[a-z](?=\W*$)/i, (letter) => {
      const code = letter.charCodeAt(0);
      return String.fromCharCode(/a/i.test(letter) ? code + 1 : code - 1);
    });
  return most?.[0] ?? (changed !== right && isWrong(changed) ? changed : undefined);
}

/** Status of a trace without a hint: its group has no right peer, or it has no group. */
const NO_HINT = 'hint:no-peer';
/** …of one with a right hint and no wrong one: its values are those of the right one alone. */
const NO_CONTRAST = 'hint:no-contrast';

/**
 * v_k = logistic(Σ_{s_0 ≤ t < exit k} log π(o_t | x, hint) − log π(o_t | x)), summed in float64: ½ at s_0, wherever the tag
 * that opens the thought stands.
 * @param logprobs (T) nats, without the hint, or with a wrong one (RLCSD, arXiv 2606.11709)
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
