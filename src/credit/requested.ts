// Columns that a run writes on request beside ours: credits by other rules, advantages of segments, normalisers.

import { FLOAT32, FLOAT32_LIST, type OutputColumn, requestedColumn } from '../io/arrow/output-columns.js';
import { HIERARCHICAL, hierarchical } from './hierarchical.js';
import { ruleOf, type SigmaRule } from './rules.js';
import { redistribute, type SigmaInput, type SigmaOptions, segmentAdvantages } from './sigma.js';

export const METHODS = ['sigma', 'segment', 'hierarchical'] as const;

/** What may be asked for beside σ. */
export interface RequestOptions extends SigmaOptions {
  /** rules of further credits, each in a column of its own */
  readonly others?: readonly SigmaRule[];
  /** `segment`: advantages of segments as actions; `hierarchical`: of outcome, progress and token; in `token_advantage` */
  readonly method?: (typeof METHODS)[number];
  /** α and β of `hierarchical`; METHOD's where absent */
  readonly alpha?: number;
  readonly beta?: number;
  readonly normalisers?: readonly Normaliser[];
  /** M of `dr_grpo`, tokens */
  readonly maxCompletionLength?: number;
  /** traces a batch of `batch_tokens`, in the order of the file */
  readonly batchSize?: number;
}

/** The column of `--method segment` and `hierarchical`. */
export const TOKEN_ADVANTAGE = 'token_advantage';
/** What `--method hierarchical` is made of, apart. */
export const PROGRESS = 'progress';
export const TOKEN_FACTOR = 'token_factor';
export const OUTCOME_ADVANTAGE = 'outcome_advantage';
export const GROUP_STD = 'group_std';

/** What is said of a method whose output is no σ; undefined of σ. */
export function methodNotice({ method }: RequestOptions): string | undefined {
  if (method !== 'hierarchical') return undefined;
  return `--method hierarchical: ${TOKEN_ADVANTAGE} joins outcome, progress and token; it is no σ and not return-equivalent`;
}

/** The column of a further credit. */
export function creditColumn(rule: SigmaRule): string {
  return `sigma_${rule.replaceAll('-', '_')}`;
}

/** The column of a normaliser. */
export function normaliserColumn(name: Normaliser): string {
  return `normaliser_${name}`;
}

/** Whether the credit rests on the tokens' entropies. */
export function readsEntropies({ within, method, rule, others = [] }: RequestOptions): boolean {
  const isEntropic = [rule, ...others].some((each) => ruleOf(each).reads === 'entropies');
  return isEntropic || within === 'entropy' || method === 'hierarchical';
}

/** Whether it rests on their log-probabilities. */
export function readsLogprobs({ within, steps, rule, others = [] }: RequestOptions): boolean {
  const isOfTokens = [rule, ...others].some((each) => ruleOf(each).reads === 'logprobs');
  return isOfTokens || within === 'unsure' || steps !== undefined;
}

const SEGMENT_ADVANTAGE = requestedColumn(
  TOKEN_ADVANTAGE,
  FLOAT32_LIST,
  'advantages of segments as actions: Δ of the segment, ζ − V at its end for the answer; no σ, not return-equivalent',
);
const HIERARCHICAL_COLUMNS: readonly OutputColumn[] = [
  requestedColumn(
    TOKEN_ADVANTAGE,
    FLOAT32_LIST,
    "the outcome's advantage and α times the segment's progress, by the token's factor; no σ, not return-equivalent",
  ),
  requestedColumn(
    OUTCOME_ADVANTAGE,
    FLOAT32,
    '(ζ − mean)/(std + 1e-4) of the group; ζ − b where b is not its mean',
  ),
  requestedColumn(
    GROUP_STD,
    FLOAT32,
    "standard deviation of the group's rewards (n − 1); null without a group",
  ),
  requestedColumn(PROGRESS, FLOAT32_LIST, "how far each segment moved the prover's value; 0 for the answer"),
  requestedColumn(
    TOKEN_FACTOR,
    FLOAT32_LIST,
    "what each token takes of its segment's advantage, by its entropy; mean 1 in a segment",
  ),
];

/** The columns that were asked for, in their order. */
export function requestedColumns({
  others = [],
  method,
  normalisers = [],
}: Pick<RequestOptions, 'others' | 'method' | 'normalisers'>): OutputColumn[] {
  return [
    ...others.map((rule) =>
      requestedColumn(
        creditColumn(rule),
        FLOAT32_LIST,
        `the same credit by another rule: ${ruleOf(rule).words}`,
      ),
    ),
    ...(method === 'segment' ? [SEGMENT_ADVANTAGE] : []),
    ...(method === 'hierarchical' ? HIERARCHICAL_COLUMNS : []),
    ...normalisers.map((name) =>
      requestedColumn(normaliserColumn(name), FLOAT32, `the weight of every token under ${name}`),
    ),
  ];
}

/**
 * Fills them for a trace.
 * @param counts of tokens beyond the trace's own, where they are known
 * @returns status: which of the credits are uniform although their rules are not, `<rule>:<reason>`
 */
export function requestedOf(input: SigmaInput, opts: RequestOptions, counts?: TokenCounts) {
  const { others = [], method, normalisers = [], maxCompletionLength: most } = opts;
  const columns: Record<string, unknown> = {};
  const status: string[] = [];
  for (const rule of others) {
    const { sigma, fallback } = redistribute(input, { ...opts, rule });
    columns[creditColumn(rule)] = sigma;
    if (fallback?.startsWith('uniform:')) status.push(fallback.replace('uniform', rule));
  }
  if (method === 'segment') columns[TOKEN_ADVANTAGE] = segmentAdvantages(input, opts);
  if (method === 'hierarchical') {
    const { outcome, progress, factors, advantages } = hierarchical(input, { ...HIERARCHICAL, ...opts });
    Object.assign(columns, {
      [TOKEN_ADVANTAGE]: advantages,
      [OUTCOME_ADVANTAGE]: outcome,
      [GROUP_STD]: input.groupStd ?? null,
      [PROGRESS]: progress,
      [TOKEN_FACTOR]: factors,
    });
  }
  const own = input.ends[input.ends.length - 1] as number;
  const tokens = { grpo: own, dapo: counts?.group, batch_tokens: counts?.batch, dr_grpo: most };
  for (const name of normalisers) {
    const number = tokens[name];
    columns[normaliserColumn(name)] = number === undefined ? null : 1 / number;
  }
  return { columns, status };
}

/**
 * - `grpo` 1/|o|, which alone sums to 1 over a trace
 * - `dapo` 1/Σ_group |o|
 * - `batch_tokens` 1/|B|, the tokens of the batch
 * - `dr_grpo` 1/M
 */
export const NORMALISERS = ['grpo', 'dapo', 'batch_tokens', 'dr_grpo'] as const;
export type Normaliser = (typeof NORMALISERS)[number];

/** The normalisers that need more than the trace itself: they are made of a whole file alone. */
export const OF_OTHERS: readonly Normaliser[] = ['dapo', 'batch_tokens'];

/** Numbers of completion tokens, but for the trace's own. */
export interface TokenCounts {
  /** of all traces of its group; undefined where it has none */
  readonly group: number | undefined;
  /** of all traces of its batch */
  readonly batch: number | undefined;
}
