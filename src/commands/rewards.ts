// The reward of each trace, and what is gathered of a group's: its mean, and its bank of references.
import { TraceRejected } from '../errors.js';
import { type BankSource, GroupBanks } from '../estimate/bank.js';
import type { Nature } from '../estimate/nature.js';
import { type AnswerMarks, type Reward, resolveReward } from '../estimate/reward.js';
import type { OpenPolicy } from '../policy/run/open-policy.js';
import { spelledText } from '../policy/text/encode.js';
import type { Trace } from '../trace.js';
import type { PolicyNeed } from './policy-need.js';

/** What decides them. */
interface RewardsOptions {
  readonly need: PolicyNeed;
  readonly tokenizer: OpenPolicy['tokenizer'];
  readonly rewardRange: readonly [number, number];
  readonly marks: AnswerMarks;
  readonly bank: BankSource;
  readonly nature: Nature;
}

/** How a run's traces are rewarded. */
export interface Rewarding {
  /** @throws TraceRejected for a reward that is none */
  readonly rewardOf: (trace: Trace) => Reward;
  /** the reward for a group's mean; null also where the trace is turned down later, where the rejects file is open */
  readonly counted: (trace: Trace) => number | null;
  /** references of each group's right completions; undefined where rows bring their own */
  readonly banks: GroupBanks | undefined;
}

export function rewarding({ need, tokenizer, rewardRange, marks, bank, nature }: RewardsOptions): Rewarding {
  const textOf = (trace: Trace) => () =>
    trace.completion ||
    (need === 'nothing' ? '' : spelledText(trace.completionIds ?? new Int32Array(0), tokenizer));
  const rewardOf = (trace: Trace) => resolveReward(trace, rewardRange, textOf(trace), marks);
  return {
    rewardOf,
    banks: bank === 'group' ? new GroupBanks(marks, nature, textOf) : undefined,
    counted(trace) {
      try {
        return rewardOf(trace).reward;
      } catch (error) {
        if (error instanceof TraceRejected) return null;
        throw error;
      }
    },
  };
}
