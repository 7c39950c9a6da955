// `siblings`: the probability of winning by going on, from the outcomes of the trace's peers, weighed by how well their tails fit its states.
import { sum } from '../credit/rules.js';
import { TraceRejected } from '../errors.js';
import { positiveInteger } from '../flag-values.js';
import { sharedTokens } from '../model/text/encode.js';
import type { Answers, TraceQuestions } from '../question.js';
import { candidateExits, placesOf } from '../segment/segment.js';
import { type Alignable, type Aligned, mostSimilar } from './alignment.js';
import { CALIBRATION, calibratedValues, calibrationFacts, givenCalibration, ofBase } from './calibrated.js';
import { storedModel } from './calibration.js';
import type { Estimator, OpenEstimator, ValueJob } from './estimator.js';
import { type Peer, refuseLate, refuseStream } from './peers.js';
import { listColumn } from './value.js';

/** Peers a trace at most, the most similar ones; L, tokens of a peer's tail that are scored. Measured: docs/fidelity.md. */
const DEFAULTS = { peers: 3, peerTokens: 40 };

/** Others of a group that a trace is compared with, or as many as it may have peers; of more, those that follow it. */
const MOST_COMPARED = 15;

/** What is asked of a trace: its references, and the tails of the peers that it is aligned with. */
interface SiblingQuestions extends TraceQuestions {
  readonly peers: readonly Aligned<Peer>[];
}

export const siblings: Estimator = {
  name: 'siblings',
  scores: 'answers',
  onRewardScale: true,
  priorColumn: 'value_prior',
  card: "the probability of winning by going on, from the outcomes of the trace and of its group's most similar completions, weighted by how likely their next tokens are there",
  creditFlags: [CALIBRATION],
  flags: [
    ['--peers <n>', `of siblings: peers a trace, the most similar of its group (default: ${DEFAULTS.peers})`],
    [
      '--peer-tokens <n>',
      `of siblings: tokens of a peer's tail that are scored (default: ${DEFAULTS.peerTokens})`,
    ],
  ],
  columns: () => [
    listColumn('value_prior', 'the calibrated value at each exit point, before peers were heard'),
    listColumn('value_ess', 'effective number of outcomes behind the value at each exit point'),
  ],
  withFlags: ({ calibration }) => (calibration === NO_CALIBRATION ? FROM_OUTCOMES.nature : siblings),
  stored({ calibration }) {
    if (calibration === NO_CALIBRATION) return FROM_OUTCOMES.nature;
    const model = storedModel(calibration);
    return model && ofBase(model.uses === 'now' ? UNFITTED : siblings, model);
  },
  async setUp(values, call) {
    const path = values.calibration;
    const calibration = path === NO_CALIBRATION ? undefined : await givenCalibration(siblings.name, path);
    const { open, ...facts } = calibration ? calibrationFacts(calibration, siblings, call) : FROM_OUTCOMES;
    refuseLate('--estimator siblings', call.segments);
    refuseStream(siblings.name, call.inputs);
    const count = (name: keyof typeof DEFAULTS, flag: string): number =>
      positiveInteger(flag, String(values[name] ?? DEFAULTS[name]), DEFAULTS[name]);
    const opts = { peers: count('peers', '--peers'), peerTokens: count('peerTokens', '--peer-tokens') };
    return {
      ...facts,
      ...(calibration?.standsBack && { nature: ofBase(UNFITTED, calibration.model) }),
      config: opts,
      readsPeers: true,
      async open(context): Promise<OpenEstimator<SiblingQuestions>> {
        const { maxTokens } = context.policy.architecture;
        return {
          ...(await open(context)),
          peers: Math.max(MOST_COMPARED, opts.peers),
          ask: (trace) => askSiblings(trace, opts, maxTokens),
          values(trace, answers, { peers }) {
            const prior = calibration
              ? calibratedValues(trace, answers, calibration)
              : { values: new Float32Array(answers.segmentation.exits.length), isMade: false };
            return siblingValues(prior, answers, trace, peers, opts);
          },
        };
      },
    };
  },
};

/** In the place of a calibration: values from outcomes alone, which no reference and no fit has a say in. */
const NO_CALIBRATION = 'none';

/** Its facts where no calibration counts: nothing has put values on the reward's scale. */
const { onRewardScale: _, ...UNFITTED } = siblings;

const FROM_OUTCOMES = {
  nature: { ...UNFITTED, scores: 'nothing' as const },
  status: ['value:outcomes'],
  open: async () => ({ config: { calibration: NO_CALIBRATION } }),
};

// ------ the questions

/** @param maxTokens that the policy takes @throws TraceRejected (`too_long`) where a tail has no room behind the trace */
export function askSiblings(trace: ValueJob, opts: typeof DEFAULTS, maxTokens: number): SiblingQuestions {
  const peers = mostSimilar(trace, trace.peers ?? [], opts.peers);
  const places = placesOf(trace.pieces);
  // peer after peer; one that has none there is left out
  const tails = (exit: number) =>
    peers
      .map((peer) => tailFrom(peer, peer.at[places.get(exit) as number] as number, opts.peerTokens))
      .filter(({ length }) => length > 0);
  const ends = Array.from(candidateExits(trace.pieces), (exit) =>
    tails(exit).map(({ length }) => trace.promptIds.length + exit + length),
  );
  const lacking = Math.max(0, ...ends.flat()) - maxTokens;
  if (lacking <= 0) return { atExits: trace.continuations, tails, peers };
  const fits = opts.peerTokens - lacking;
  const flag = fits > 0 ? `--peer-tokens ${fits}, or ` : '';
  throw new TraceRejected(
    'too_long',
    `behind its last exits the ${opts.peerTokens} tokens of a peer's tail have no room: the policy takes ${maxTokens} tokens, ${lacking} too few: ${flag}--policy <one with a longer context>`,
  );
}

/** How a peer goes on behind `from` tokens of its completion, but for what it was shown. None is left at its end. */
function tailFrom({ completionIds, pieces }: Alignable, from: number, length: number): Int32Array {
  const shown = pieces.tokens.own?.indexOf(0, from) ?? -1;
  return completionIds.subarray(from, Math.min(from + length, shown < 0 ? completionIds.length : shown));
}

// ------ the values

/** A log-weight is held between these. */
const CLIP = [-30, 3] as const;
/** c: outcomes that the calibrated value counts for among them. */
const PRIOR = 0.5;
/**
 * λ: the part of the value that is the calibrated one however many outcomes there are. It sees what peers cannot, a trace that
 * corrects itself where none of them went wrong; .2 to .4 are alike, by what was measured.
 */
const PRIOR_SHARE = 0.25;
/**
 * Outcomes that a trace counts for which began word for word as this one did and is no peer of it. At the first state where it
 * no longer does it counts for nothing, and what that changes is credit of nobody: not a whole one, by what was measured.
 */
const BEGUN_ALIKE = 0.5;
/**
 * A completion that its group has several times counts as often, since it was drawn as often; but not one of a smaller probability
 * than this, which nobody draws twice: there it is one trace under several ids.
 */
const DRAWN_TWICE = 1e-4;
/** Where all peers together weigh less than this from s_1 on, none of them has anything to say. */
const FITS = 0.1;

/**
 * V(s_k) = (1 − λ)·(n R + Σ_j n_j w_j r_j + c·V_c(s_k)) / (n + Σ_j n_j w_j + c) + λ·V_c(s_k), with log w_j the log-ratio of the first L
 * tokens of peer j's tail at s_k and at its own corresponding state, held between −30 and 3 nats, and n how often a completion was drawn.
 * An unknown R is left out. Of the trace's other peers, which began as it did, each counts as a half of one up to the state at which they part.
 * @param prior V_c: the calibrated values (K+1)
 * @param asked peers that were asked about
 */
export function siblingValues(
  { isMade, ...prior }: ReturnType<typeof calibratedValues>,
  { segmentation, logprobs: ownLogprobs, tails = [], peers: logprobsOf = [] }: Answers,
  { completionIds, pieces, reward: { reward: own }, peers: all = [], draws = 1 }: ValueJob,
  asked: readonly Aligned<Peer>[],
  { peerTokens }: typeof DEFAULTS,
) {
  const places = placesOf(pieces);
  const [ownTimes, ...times] = drawnTimes([
    { draws, logprobs: ownLogprobs },
    ...asked.map((peer, n) => ({ draws: peer.draws, logprobs: logprobsOf[n] })),
  ]) as [number, ...number[]];
  const drawn = own === null ? 0 : ownTimes;
  const [c, lambda] = isMade ? [PRIOR, PRIOR_SHARE] : [0, 0];
  const traces = new Set(asked.map(({ trace }) => trace));
  const begunAlike = all
    .filter(({ trace }) => !traces.has(trace))
    .map((peer) => ({
      ...{ count: BEGUN_ALIKE, weight: BEGUN_ALIKE, reward: peer.reward.reward as number },
      tokens: sharedTokens(completionIds, peer.completionIds),
    }));
  const states = Array.from(segmentation.exits, (exit, k) => {
    let next = 0;
    const ofPeers = asked.flatMap((peer, n) => {
      const logprobs = logprobsOf[n];
      const from = peer.at[places.get(exit) as number] as number;
      const { length } = tailFrom(peer, from, peerTokens);
      if (length === 0) return [];
      const here = sum(tails[k]?.[next++] as Float32Array);
      if (logprobs === undefined) return [];
      const ratio = here - sum(logprobs.subarray(from, from + length));
      const weight = Math.exp(Math.min(CLIP[1], Math.max(CLIP[0], ratio)));
      return [{ count: (times[n] as number) * weight, weight, reward: peer.reward.reward as number }];
    });
    const outcomes = [...ofPeers, ...begunAlike.filter(({ tokens }) => tokens >= exit)];
    return {
      weights: sum(outcomes.map(({ count }) => count)),
      squares: sum(outcomes.map(({ count, weight }) => count * weight)),
      rewards: sum(outcomes.map(({ count, reward }) => count * reward)),
    };
  });
  const fits =
    asked.length > 0 && (states.length < 2 || states.slice(1).some(({ weights }) => weights >= FITS));
  const values = states.map(({ weights, rewards }, k) => {
    const value = prior.values[k] as number;
    const total = drawn + weights + c;
    if (!fits || total === 0) return value;
    return ((1 - lambda) * (drawn * (own ?? 0) + rewards + c * value)) / total + lambda * value;
  });
  const effective = states.map(({ weights, squares }) => {
    if (!fits) return 0;
    return drawn + squares === 0 ? 0 : (drawn + weights) ** 2 / (drawn + squares);
  });
  return {
    ...prior,
    values: Float32Array.from(values),
    columns: { value_prior: prior.values, value_ess: Float32Array.from(effective) },
    status: [...(prior.status ?? []), ...(fits ? [] : [asked.length === 0 ? NO_PEER : NO_FIT])],
  };
}

/**
 * As how many draws the trace's own completion counts, and those of its peers. Of those that nobody draws twice the least number of
 * rows says how often the input has each of its traces.
 */
function drawnTimes(
  all: readonly { readonly draws: number; readonly logprobs: Float32Array | undefined }[],
): readonly number[] {
  const isRare = all.map(({ logprobs }) => logprobs !== undefined && sum(logprobs) < Math.log(DRAWN_TWICE));
  const copies = Math.min(...all.map(({ draws }, n) => (isRare[n] ? draws : Number.POSITIVE_INFINITY)));
  return all.map(({ draws }, n) =>
    isRare[n] ? 1 : copies === Number.POSITIVE_INFINITY ? draws : Math.max(1, draws / copies),
  );
}

/** No group, or no peer of known reward that goes on from the same prompt by another completion: the values are the calibrated ones. */
export const NO_PEER = 'siblings:no-peer';
/** The same where no peer's tail is likely at any state of the trace. */
export const NO_FIT = 'siblings:no-fit';
