// Columns that a run writes on request beside ours: credits by other rules, and advantages of tokens that are no σ.
import { FLOAT32, FLOAT32_LIST, type OutputColumn, requestedColumn } from '../io/arrow/output-columns.js';
import { RULES, type SigmaRule } from './rules.js';
import {
  ofMeanOne,
  redistribute,
  type SigmaInput,
  type SigmaOptions,
  segmentAdvantages,
  spread,
  tokenWeights,
  valueSteps,
} from './sigma.js';

export const METHODS = ['sigma', 'segment', 'hierarchical'] as const;

/** What may be asked for beside σ. */
export interface RequestOptions extends SigmaOptions {
  /** rules of further credits, each in a column of its own */
  readonly others?: readonly SigmaRule[];
  /** `segment`: advantages of segments as actions; `hierarchical`: of outcome, progress and token; in `token_advantage` */
  readonly method?: (typeof METHODS)[number];
  /** α of `hierarchical`: what a segment's progress counts for beside the outcome; METHOD's where absent */
  readonly alpha?: number;
  /** β of it: how far a token's entropy takes its share from the others of its segment */
  readonly beta?: number;
}

/** α and β of METHOD §5. */
export const HIERARCHICAL = { alpha: 1, beta: 0.5 } as const;
/** What keeps the outcome finite in a group whose rewards are all the same, as TRL has it. */
const LEAST_STD = 1e-4;

/** The column of `--method segment` and `hierarchical`. */
export const TOKEN_ADVANTAGE = 'token_advantage';
/** What `--method hierarchical` has of the whole group, which a part of it does not tell. */
export const GROUP_STD = 'group_std';

/** The column of a further credit. */
export function creditColumn(rule: SigmaRule): string {
  return `sigma_${rule.replaceAll('-', '_')}`;
}

/** Whether the credit rests on the tokens' entropies. */
export function readsEntropies({ within, method, rule, others = [] }: RequestOptions): boolean {
  const isEntropic = [rule, ...others].some((each) => RULES[each].reads === 'entropies');
  return isEntropic || within === 'entropy' || method === 'hierarchical';
}

/** Whether it rests on their log-probabilities. */
export function readsLogprobs({ within, steps, rule, others = [] }: RequestOptions): boolean {
  const isOfTokens = [rule, ...others].some((each) => RULES[each].reads === 'logprobs');
  return isOfTokens || within === 'unsure' || steps !== undefined;
}

const advantages = (text: string) =>
  requestedColumn(TOKEN_ADVANTAGE, FLOAT32_LIST, `${text}; no σ, not return-equivalent`);

/** What each method writes beside σ. */
const COLUMNS_OF: Readonly<Record<(typeof METHODS)[number], readonly OutputColumn[]>> = {
  sigma: [],
  segment: [
    advantages('advantages of segments as actions: Δ of the segment, ζ − V at its end for the answer'),
  ],
  hierarchical: [
    advantages("the outcome's advantage and α times the segment's progress, by the token's factor"),
    requestedColumn(
      GROUP_STD,
      FLOAT32,
      "standard deviation of the group's rewards (n − 1); null without a group",
    ),
  ],
};

/** The columns that were asked for, in their order. */
export function requestedColumns({ others = [], method = 'sigma' }: Partial<RequestOptions>): OutputColumn[] {
  const ofRules = others.map((rule) => {
    const words = `the same credit by another rule: ${RULES[rule].words}`;
    return requestedColumn(creditColumn(rule), FLOAT32_LIST, words);
  });
  return [...ofRules, ...COLUMNS_OF[method]];
}

/**
 * Fills them for a trace.
 * @returns status: which of the credits are uniform although their rules are not, `<rule>:<reason>`
 */
export function requestedOf(input: SigmaInput, opts: RequestOptions) {
  const { others = [], method } = opts;
  const columns: Record<string, unknown> = {};
  const status: string[] = [];
  for (const rule of others) {
    const { sigma, fallback } = redistribute(input, { ...opts, rule });
    columns[creditColumn(rule)] = sigma;
    if (fallback?.startsWith('uniform:')) status.push(fallback.replace('uniform', rule));
  }
  if (method === 'segment') columns[TOKEN_ADVANTAGE] = segmentAdvantages(input, opts);
  if (method === 'hierarchical') {
    columns[TOKEN_ADVANTAGE] = hierarchicalAdvantages(input, opts);
    columns[GROUP_STD] = input.groupStd ?? null;
  }
  return { columns, status };
}

/**
 * A_t = (A_outcome + α P_k) · m_t of (T) tokens, with A_outcome = (ζ − mean)/(std + 1e-4) of the group, else ζ − b, P_k the
 * progress of the segment under the prover, and m_t = 1 + β(H_t / the segment's mean H − 1), held between 0 and 2, over its mean
 * in the segment. No σ: it does not sum to 1, and is not return-equivalent.
 * @returns null where reward or baseline is unknown
 */
function hierarchicalAdvantages(input: SigmaInput, opts: RequestOptions): Float32Array | null {
  const { ends, reward, baseline, groupStd } = input;
  const { alpha, beta } = { ...HIERARCHICAL, ...opts };
  if (reward === null || baseline === undefined) return null;
  const outcome = (reward - baseline) / (groupStd === undefined ? 1 : groupStd + LEAST_STD);
  const { raw, heard } = valueSteps(input);
  const perSegment = heard(raw).map((step) => outcome + alpha * step);
  const held = tokenWeights(input, 'entropy').map((m) => Math.min(2, Math.max(0, 1 + beta * (m - 1))));
  return spread(perSegment, ends, ofMeanOne(held, ends));
}
