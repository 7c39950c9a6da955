// Decides what a run's credit needs of the policy (nothing, tokens, a pass), and reads its traces accordingly.
import { TraceRejected } from '../errors.js';
import type { CreditOptions } from '../estimate/credit.js';
import type { PassJob } from '../estimate/cut-windows.js';
import { readsEntropies, readsLogprobs } from '../estimate/requested.js';
import type { OurColumn } from '../io/arrow/output-columns.js';
import { locate } from '../io/map/map.js';
import type { Field } from '../io/map/sources.js';
import { EMBEDDED_POLICY } from '../policy/embedded.js';
import type { OpenPolicy } from '../policy/run/open-policy.js';
import {
  type EncodedTrace,
  encodeBehind,
  encodeTrace,
  spelledText,
  thoughtStatus,
  withTexts,
} from '../policy/text/encode.js';
import { type BadRow, eachTrace, type InputRow } from '../rows.js';
import { cutByRow, cutTrace } from '../segment/given.js';
import { mergeSegments, type Pieces, type SegmentOptions } from '../segment/segment.js';
import type { Trace } from '../trace.js';
import type { Mapping } from './job/mapping.js';

/**
 * - `pass`: something rests on what the policy says of the tokens: values, segments, σ, or columns that were named
 * - `tokens`: values and segments are the rows' own, and the tokenizer counts the tokens that σ is put on
 * - `nothing`: the rows bring token ids, too, and segment ends that count them; nobody has named a policy to check them by
 */
export type PolicyNeed = 'nothing' | 'tokens' | 'pass';

/** What of a run decides it. */
interface Asked {
  readonly credit: CreditOptions;
  readonly segments: SegmentOptions;
  readonly exportName: string | undefined;
  readonly columns: readonly OurColumn[] | undefined;
  readonly policy: string;
}

/** Columns that a pass alone fills. */
const OF_A_PASS: readonly OurColumn[] = ['logprobs', 'entropies', 'sigma_gain'];

/** The first row stands for all: one that lacks what it has is turned down. */
export function policyNeed(
  { credit, segments, exportName, columns, policy }: Asked,
  { first, map }: Pick<Mapping, 'first' | 'map'>,
): PolicyNeed {
  const { segmenter, maxSegments } = segments;
  const isOfRow = credit.estimator.isOfRow && segmenter === 'given' && maxSegments === undefined;
  const isNamed = exportName !== undefined || OF_A_PASS.some((name) => columns?.includes(name));
  if (!isOfRow || isNamed || readsEntropies(credit) || readsLogprobs(credit)) return 'pass';
  const has = (field: Field): boolean => {
    const sources = map.mapped.get(field) ?? map.defaults.get(field) ?? [];
    const place = locate({ columns: first } as InputRow, field, sources);
    return place !== undefined && ('items' in place || (place.value ?? null) !== null);
  };
  return policy === EMBEDDED_POLICY && has('completion_ids') && has('segment_ends') ? 'nothing' : 'tokens';
}

/** What is said of a run without a pass. */
export function needNotice(need: PolicyNeed, policy: string): string | undefined {
  if (need === 'pass') return undefined;
  const counted =
    need === 'nothing'
      ? 'tokens are the completion_ids'
      : policy === EMBEDDED_POLICY
        ? "tokens are the bundled policy's, bytes; --policy <folder> counts those of the policy that wrote the traces"
        : `tokens are those of ${policy}`;
  return `values and segments are the rows' own, so no policy runs: ${counted}; logprobs and entropies are null`;
}

/** A trace as tokens and pieces. */
export interface ReadTrace {
  readonly tokens: EncodedTrace;
  readonly pieces: Pieces;
  /** with the texts that its ids spell, where the row brought ids alone */
  readonly trace: Trace;
  /** what the user should know of it: status codes */
  readonly status: readonly string[];
}

const NONE = new Int32Array(0);

/**
 * @returns what reads a trace. It throws TraceRejected for what it cannot read
 * @param room tokens that the policy's context needs behind the trace
 */
export function reader(
  need: PolicyNeed,
  { policy, tokenizer, prompts }: OpenPolicy,
  segments: SegmentOptions,
): (given: Trace, room: number) => Promise<ReadTrace> {
  const { vocab, maxTokens } = policy.architecture;
  const cut = (tokens: EncodedTrace) => {
    const pieces = cutTrace(tokens, segments);
    return { pieces, status: [...tokens.status, ...thoughtStatus(tokens, pieces.thought, tokenizer)] };
  };
  async function read(given: Trace, most: number): Promise<ReadTrace> {
    const tokens = await encodeTrace(await prompts.prepare(given), tokenizer, vocab, most);
    return { tokens, trace: withTexts(tokens, tokenizer), ...cut(tokens) };
  }
  /** Nothing is run behind the prompt: it is as the row has it, whatever policy has read it. */
  async function readCompletion(given: Trace): Promise<ReadTrace> {
    const tokens = await encodeBehind(NONE, given, tokenizer, vocab);
    const completion = given.completion || spelledText(tokens.completionIds, tokenizer);
    const { promptIds = NONE } = given;
    return { ...cut(tokens), tokens: { ...tokens, promptIds }, trace: { ...given, completion } };
  }
  return async (given, room) => {
    if (need === 'pass') return read(given, maxTokens - room);
    if (need === 'nothing') return readByRow(given, segments);
    const hasPrompt = given.promptIds !== undefined || given.prompt.length > 0;
    const isOfPolicy = policy.path !== EMBEDDED_POLICY && hasPrompt;
    return isOfPolicy ? read(given, Number.POSITIVE_INFINITY) : readCompletion(given);
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

/** Traces as if they had been scored, where no policy reads them: nothing is said of their tokens. */
export function unread<T extends PassJob>(ready: AsyncIterable<T | BadRow>) {
  return eachTrace(ready, (job) => {
    const segmentation = mergeSegments(job.pieces, null);
    const none = new Float32Array(job.completionIds.length);
    const branches = Array.from(segmentation.exits, () => []);
    const result = { logprobs: none, entropies: none, isUnread: true as const, segmentation, branches };
    return { job, trace: job.trace, result, needed: [] };
  });
}
