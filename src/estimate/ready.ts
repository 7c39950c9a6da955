// Makes a trace ready for its values: its reward, and what is gathered of its group; its tokens and pieces; what is scored of it.

import { type CreditOptions, type GroupMean, groupMeanOf, withContiguousMeans } from '../credit/credit.js';
import type { Nature } from '../credit/nature.js';
import { readsEntropies, readsLogprobs } from '../credit/requested.js';
import { TraceRejected } from '../errors.js';
import type { Field } from '../io/map/fields.js';
import { foundPlaces } from '../io/map/map.js';
import type { Mapping } from '../io/map/mapping.js';
import { completionText } from '../io/map/messages.js';
import type { OpenPolicy } from '../model/onnx/open-model.js';
import {
  type EncodedTrace,
  encodeBehind,
  encodeTrace,
  endOf,
  spelledText,
  thoughtStatus,
  withTexts,
} from '../model/text/encode.js';
import { EMBEDDED_POLICY } from '../package-files.js';
import { type BadRow, eachTrace, type InputRow } from '../rows.js';
import type { OurColumn } from '../scored/columns.js';
import { BYTES } from '../scored.js';
import { cutByRow, cutTrace, type SegmentOptions } from '../segment/segment.js';
import { declarationOf } from '../segment/segmenters.js';
import { isOfTurns, type Trace, turnsIn } from '../trace.js';
import type { AnswerMarks } from './answer-text.js';
import type { EstimatorSetup, OpenEstimator, ValueJob } from './estimator.js';
import { type EndToken, endings } from './finished.js';
import type { WholeInput } from './peers.js';
import { GroupReferences, type ReferenceSource, referenceSetMaker, referencesOf } from './references.js';
import { type Reward, type RewardedTrace, resolveReward, withDispute } from './reward.js';

/**
 * - `pass`: something rests on what the policy says of the tokens: values, segments, σ, or columns that were named
 * - `tokens`: values and segments are the rows' own, and the tokenizer counts the tokens that σ is put on
 * - `nothing`: the rows bring token ids, too, and segment ends that count them; nobody has named a policy to check them by
 */
export type PolicyNeed = 'nothing' | 'tokens' | 'pass';

/** What of a run decides it. */
interface AskedOfPolicy {
  readonly credit: CreditOptions;
  readonly segments: SegmentOptions;
  readonly columns: readonly string[] | undefined;
  readonly policy: string;
}

/** Columns that a pass alone fills. */
const OF_A_PASS: readonly OurColumn[] = ['logprobs', 'entropies', 'sigma_gain'];

/** The first row stands for all: one that lacks what it has is rejected. */
export function policyNeed(
  { credit, segments, columns, policy }: AskedOfPolicy,
  { first, map }: Pick<Mapping, 'first' | 'map'>,
): PolicyNeed {
  const { segmenter, maxSegments } = segments;
  const isCutByRow = declarationOf(segmenter).isOfRow && maxSegments === undefined;
  const isNamed = OF_A_PASS.some((name) => columns?.includes(name));
  if (!credit.estimator.isOfRow || !isCutByRow || isNamed || readsEntropies(credit) || readsLogprobs(credit))
    return 'pass';
  const has = (field: Field): boolean =>
    foundPlaces({ columns: first } as InputRow, { ...map, join: undefined }, [field]).size > 0;
  // turns are cut by their texts
  const isTold = has('completion_ids') && has('segment_ends') && !has('completion_mask');
  return policy === EMBEDDED_POLICY && isTold ? 'nothing' : 'tokens';
}

/** How traces are read. */
interface Reading {
  readonly need: PolicyNeed;
  readonly opened: OpenPolicy;
  readonly segments: SegmentOptions;
  readonly marks: AnswerMarks;
  readonly endToken: EndToken;
}

/** How a run's traces are made ready. */
export interface Method extends Reading {
  readonly rewardRange: readonly [number, number];
  readonly references: ReferenceSource;
  /** facts of the values, the estimator as it was asked for, and opened */
  readonly nature: Nature;
  readonly setUp: EstimatorSetup;
  readonly estimator: OpenEstimator;
}

/** How a run's traces are rewarded. */
export function rewarding({ need, opened, rewardRange, marks, references, nature }: Method) {
  const textOf = (trace: Trace): string => {
    const { completion, completionIds = NONE, completionMask, turns } = trace;
    const last = turns?.findLast(({ role }) => role === 'assistant');
    if (last !== undefined) return completionText([last]) ?? last.content;
    const [from, to] = (completionMask && turnsIn(completionMask).at(-1)) ?? [0, completionIds.length];
    // the answer stands in what the policy wrote last
    if (completion !== '' && completionMask === undefined) return completion;
    return need === 'nothing' ? '' : spelledText(completionIds.subarray(from, to), opened.tokenizer);
  };
  /** what the policy read before that: a thought may be opened there */
  const before = ({ prompt, promptIds, completionIds, completionMask }: Trace): string => {
    const [from] = (completionMask && turnsIn(completionMask).at(-1)) ?? [0];
    const ids = from > 0 ? completionIds?.subarray(0, from) : promptIds;
    if (ids !== undefined && need !== 'nothing') return endOf(ids, opened.tokenizer);
    return typeof prompt === 'string' ? prompt : (marks.opening ?? '');
  };
  /** @throws TraceRejected for a reward that is none */
  const rewardOf = (trace: Trace): Reward =>
    resolveReward(trace, rewardRange, () => textOf(trace), { ...marks, opening: before(trace) });
  const groupReferences = references === 'group' ? new GroupReferences(marks, nature, textOf) : undefined;
  return {
    rewardOf,
    /** references of each group's right completions; undefined where rows bring their own */
    groupReferences,
    /**
     * Traces with their rewards, and the group's mean reward, before anything else can turn a trace down: its reward counts all the
     * same. Groups of a stream are held back behind this, so that a reference set is whole when its first trace is scored.
     */
    rewarded(
      traces: AsyncIterable<Pick<RewardedTrace, 'trace'> | BadRow>,
      prescan: WholeInput['run']['prescan'],
      usesGroups: boolean,
    ): AsyncIterable<(RewardedTrace & GroupMean) | BadRow> {
      const isStream = prescan === undefined;
      const found = eachTrace(traces, ({ trace }) => {
        const reward = rewardOf(trace);
        if (isStream) groupReferences?.add(trace, reward.reward);
        return { trace, reward: withDispute(reward, trace, () => textOf(trace), marks) };
      });
      if (usesGroups && isStream) return withContiguousMeans(found);
      const groups = usesGroups ? prescan?.groupRewards : undefined;
      return eachTrace(found, (item) => {
        return { ...item, ...groupMeanOf(groups?.get(item.trace.group ?? ''), item.reward.reward) };
      });
    },
    /** the reward for a group's mean; null also where the trace is rejected later, where the rejects file is open */
    counted(trace: Trace): number | null {
      try {
        return rewardOf(trace).reward;
      } catch (error) {
        if (error instanceof TraceRejected) return null;
        throw error;
      }
    },
  };
}

/**
 * @param isStream traces come once: a group's reference set is dropped when the next group begins
 * @returns what makes a trace ready; it throws TraceRejected for what the policy cannot take
 */
export async function preparing(
  { opened, need, setUp: { status: ofValues = [] }, estimator, nature, segments, marks, endToken }: Method,
  groupReferences: GroupReferences | undefined,
  isStream: boolean,
): Promise<(item: RewardedTrace & GroupMean) => Promise<ValueJob>> {
  const { exitTemplate } = opened.policy;
  const makeReferenceSet =
    estimator.referenceSetOf ?? (await referenceSetMaker(exitTemplate, nature, opened.tokenizer.encode));
  const read = reader({ need, opened, segments, marks, endToken });
  return async (item) => {
    const { references, referenceStatus } = referencesOf(item.trace, item.reward.reward, groupReferences);
    if (isStream) groupReferences?.reach(item.trace.group);
    const { continuations, ...made } = await makeReferenceSet(references);
    // what another policy scores, this one does not
    const own = nature.isOfProver ? [] : continuations;
    const longest = own.reduce((most, { ids }) => Math.max(most, ids.length), 0);
    const { tokens, pieces, trace, status: ofTokens } = await read(item.trace, longest, item.reward.reward);
    const status = [...ofTokens, ...referenceStatus, ...made.status, ...ofValues];
    return { ...item, ...made, ...tokens, trace, continuations, references, status, pieces };
  };
}

/** A trace as tokens and pieces, with the texts that its ids spell, where the row brought ids alone. */
type ReadTrace = Pick<ValueJob, 'trace' | 'pieces' | 'status'> & { readonly tokens: EncodedTrace };

const NONE = new Int32Array(0);

/** @returns what reads a trace, and throws TraceRejected for what it cannot read @param room tokens that the policy's context needs behind the trace */
export function reader({ need, opened, segments, marks, endToken }: Reading) {
  const { policy, tokenizer, prompts } = opened;
  const { vocab, maxTokens, pictures = [] } = policy.architecture;
  const endTokenOf = endings(opened, marks, endToken);
  const cut = (tokens: EncodedTrace) => {
    const pieces = cutTrace(tokens, segments);
    return { pieces, status: [...tokens.status, ...thoughtStatus(tokens, pieces.thought, tokenizer)] };
  };
  async function read(given: Trace, most: number, reward: number | null): Promise<ReadTrace> {
    const prepared = await prompts.prepare(given);
    const end = await endTokenOf(given, prepared.prompt, reward);
    const tokens = await encodeTrace(prepared, tokenizer, vocab, most, end);
    const picture = pictures.find((id) =>
      [tokens.promptIds, tokens.completionIds].some((ids) => ids.includes(id)),
    );
    if (picture !== undefined)
      throw new TraceRejected(
        'ids',
        `token ${picture} stands for a picture, of which the policy reads nothing`,
      );
    return { tokens, trace: withTexts(tokens, tokenizer), ...cut(tokens) };
  }
  /** Nothing is run behind the prompt: it is as the row has it, whatever policy has read it. */
  async function readCompletion(given: Trace, reward: number | null): Promise<ReadTrace> {
    const end = await endTokenOf(given, given.prompt, reward);
    const tokens = await encodeBehind(NONE, given, tokenizer, vocab, undefined, end);
    const completion = given.completion || spelledText(tokens.completionIds, tokenizer);
    const { promptIds = NONE } = given;
    const made = cut(tokens);
    const isBytes = policy.path === EMBEDDED_POLICY && given.completionIds === undefined;
    const status = isBytes ? [...made.status, BYTES] : made.status;
    return { ...made, status, tokens: { ...tokens, promptIds }, trace: { ...given, completion } };
  }
  return async (given: Trace, room: number, reward: number | null): Promise<ReadTrace> => {
    if (need === 'pass') return read(given, maxTokens - room, reward);
    const hasPrompt = given.promptIds !== undefined || given.prompt.length > 0;
    const isOfPolicy = need !== 'nothing' && policy.path !== EMBEDDED_POLICY && hasPrompt;
    if (!isOfPolicy && (need === 'nothing' ? isOfTurns(given) : given.turns !== undefined))
      throw new TraceRejected(
        'turns',
        'it has several turns, which a policy has to spell: --policy <the one that wrote the traces>',
      );
    if (need === 'nothing') return readByRow(given, segments);
    return isOfPolicy ? read(given, Number.POSITIVE_INFINITY, reward) : readCompletion(given, reward);
  };
}

/** Of a trace whose row has all of it. */
function readByRow(trace: Trace, segments: SegmentOptions): ReadTrace {
  const { promptIds = NONE, completionIds = NONE, status = [] } = trace;
  if (completionIds.length === 0)
    throw new TraceRejected(
      'empty_completion',
      'no completion_ids in the row, as the first row has them: --map completion_ids=<path>, or --policy <the policy that wrote the traces>, whose tokenizer counts them',
    );
  const pieces = cutByRow(trace, completionIds.length, segments);
  const tokens = { trace, promptIds, completionIds, tokens: pieces.tokens, chars: null, status };
  return { tokens, pieces, trace, status };
}
