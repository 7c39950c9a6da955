// A trace's row once its values are known: all that it says but its credit.
import type { GroupMean } from '../credit/baseline.js';
import type { EncodedTrace } from '../model/text/encode.js';
import type { Answers } from '../question.js';
import { blankRow, type OutputRow, UNREAD } from '../scored.js';
import { allEnds, type Pieces, segmentRows, segmentSums } from '../segment/segment.js';
import { THINK_CLOSE } from '../segment/span.js';
import type { ScoredReferences } from './references.js';
import type { RewardedTrace } from './reward.js';
import type { TraceValues } from './value.js';

/** A trace with everything that its scoring needs. */
export interface ReadyTrace extends EncodedTrace, RewardedTrace, GroupMean, ScoredReferences {
  readonly pieces: Pieces;
}

/** The row. */
export function valuedRow(
  item: ReadyTrace,
  { entropies, logprobs, segmentation, isUnread }: Answers,
  { values, columns, referenceLogprobs, referenceTokens, status = [] }: TraceValues,
): OutputRow {
  const { reward, tokens } = item;
  return {
    ...blankRow(item.trace),
    promptIds: item.promptIds.length === 0 ? null : item.promptIds,
    completionIds: item.completionIds,
    ...(isUnread ? { logprobs: null, entropies: null } : { logprobs, entropies }),
    segments: segmentRows({
      ...{ segmentation, values, own: tokens.own, chars: item.chars },
      ...(isUnread ? {} : { entropies: segmentSums(entropies, allEnds(segmentation)) }),
    }),
    valueStart: values[0] as number,
    ...{ referenceLogprobs, referenceTokens, reward: reward.reward },
    referenceUtilities: Float32Array.from(item.referenceSet, ({ utility }) => utility),
    requested: { ...columns },
    closesThought: tokens.text.includes(THINK_CLOSE),
    status: [...item.status, ...reward.status, ...status, ...(isUnread ? [UNREAD] : [])],
  };
}
