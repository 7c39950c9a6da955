// Makes a trace ready for the policy: its tokens, its pieces, what is scored of it, and what another model reads of it.
import { type GroupBanks, referencesOf } from '../estimate/bank.js';
import type { GroupMean, RewardedTrace } from '../estimate/baseline.js';
import type { Nature } from '../estimate/nature.js';
import { bankMaker } from '../estimate/references.js';
import type { Asked, Opened, ValueJob } from '../estimators/estimator.js';
import type { OpenPolicy } from '../policy/run/open-policy.js';
import type { SegmentOptions } from '../segment/segment.js';
import { type PolicyNeed, reader } from './policy-need.js';

/** What of a run it takes. */
export interface PrepareOptions {
  readonly opened: OpenPolicy;
  readonly need: PolicyNeed;
  readonly asked: Asked;
  readonly estimator: Opened;
  readonly nature: Nature;
  readonly segments: SegmentOptions;
  /** of groups, where references are taken from them */
  readonly banks: GroupBanks | undefined;
  /** traces come once: a group's bank is dropped when the next group begins */
  readonly isStream: boolean;
}

/** @returns what makes a trace ready; it throws TraceRejected for what the policy, or another model, cannot take */
export async function preparing({
  opened,
  need,
  asked: { status: ofValues = [] },
  estimator: { scorer, prepare },
  nature,
  segments,
  banks,
  isStream,
}: PrepareOptions): Promise<(item: RewardedTrace & GroupMean) => Promise<ValueJob>> {
  const { exitTemplate } = scorer ?? opened.policy;
  const makeBank = await bankMaker(exitTemplate, nature, scorer?.encode ?? opened.tokenizer.encode);
  const read = reader(need, opened, segments);
  return async (item) => {
    const { references, bankStatus } = referencesOf(item.trace, item.reward.reward, banks);
    if (isStream) banks?.reach(item.trace.group);
    const { continuations, ...made } = await makeBank(references);
    // what another policy scores, this one does not
    const own = scorer === undefined ? continuations : [];
    const longest = own.reduce((most, { ids }) => Math.max(most, ids.length), 0);
    const { tokens, pieces, trace, status: ofTokens } = await read(item.trace, longest);
    const again = await prepare?.({ given: item.trace, tokens, references, continuations });
    const status = [...ofTokens, ...bankStatus, ...made.status, ...ofValues];
    const whole = { ...item, ...made, ...tokens, trace };
    return { ...whole, continuations: own, references, status, pieces, again };
  };
}
