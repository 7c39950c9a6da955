// The trainers' own forms of a scored trace: which columns stand in for ours, and how a trace fills them.

import { TraceRejected } from '../../errors.js';
import { type OutputRow, ownTokens, type SegmentRow } from '../../scored.js';
import {
  FLOAT32,
  FLOAT32_LIST,
  INT32_LIST,
  type OutputColumn,
  requestedColumn,
  STRING,
} from '../arrow/output-columns.js';
import type { ColumnType } from '../arrow/schema.js';

/** A trainer's own form of a scored trace. */
export interface Export<Row extends object = object> {
  readonly columns: readonly OutputColumn[];
  /** it has lists of tokens, beside which a mask stands where traces have several turns */
  readonly isOfTokens?: boolean;
  /** @throws TraceRejected (`export`) for a trace that has no such form */
  readonly row: (row: OutputRow) => Row;
}

function form<Row extends object>(
  types: { readonly [column in keyof Row & string]: ColumnType },
  row: (trace: ReturnType<typeof credited>, row: OutputRow) => Row,
  isOfTokens = false,
): Export<Row> {
  return { columns: columnsOf(types), isOfTokens, row: (scored) => row(credited(scored), scored) };
}

const columnsOf = (types: { readonly [column: string]: ColumnType }) =>
  Object.entries(types).map(([name, type]) => requestedColumn(name, type));

/**
 * What an export reads of a scored trace of T tokens: lists, how many of T are the policy's, ζ, and R* = ζ − b: the advantage of the
 * whole trace, which σ spreads over its tokens.
 * @throws TraceRejected where the reward or the baseline is not known: there is nothing to train on
 */
function credited(row: OutputRow) {
  const { promptIds, completionIds, logprobs, sigma, reward, baseline } = row;
  if (promptIds === null || completionIds === null || logprobs === null || sigma === null)
    throw new Error(`${row.trace.id}: a row without σ cannot be exported`);
  if (reward === null)
    throw notExported('the reward is not known, and an advantage needs one: --map reward=<path>');
  if (baseline === null)
    throw notExported(
      'the trace has no baseline, and an advantage needs one: --baseline value or <number>, or --map group=<path>',
    );
  const ownCount = ownTokens(row)?.reduce((sum, isOwn) => sum + isOwn, 0) ?? sigma.length;
  return { promptIds, completionIds, logprobs, sigma, ownCount, reward, advantage: reward - baseline };
}

function notExported(reason: string): TraceRejected {
  return new TraceRejected('export', reason);
}

/** Columns of a trace as steps. */
const STEPS = { prompt: STRING, completions: { kind: 'list', element: STRING } } as const;

/**
 * Steps with a label each, for TRL's PRMTrainer: the segments' texts, which together are the completion, and whether a
 * segment's part of the return, R*·σ, is positive. One of a wrong trace (R* < 0) is good where σ is negative: it raised
 * the value. Turned down is a trace whose σ tells no segment from another, or whose segments' texts are not known.
 */
const prm = form(
  { ...STEPS, labels: { kind: 'list', element: { kind: 'bool' } } },
  ({ advantage }, { trace, segments, status }) => {
    const fallback = status.find((code) => code.startsWith('uniform:'));
    if (fallback !== undefined || advantage === 0)
      throw notExported(`σ tells no step from another (${fallback ?? 'the advantage is 0'})`);
    const { own, ...texts } = stepsOf(trace, segments);
    return { ...texts, labels: own.map(({ sigma }) => advantage * (sigma ?? 0) > 0) };
  },
);

/** Steps with the change of the value by each, Δ_k (0 for the answer's): graded labels, which `labels` of PRMTrainer would cut to whole numbers. */
const progress: Export = {
  columns: columnsOf({ ...STEPS, progress: FLOAT32_LIST }),
  row({ trace, segments, valueStart }: OutputRow) {
    if (valueStart === null) throw notExported('the row has no values');
    const { own, ...texts } = stepsOf(trace, segments);
    return { ...texts, progress: Float32Array.from(own, ({ delta }) => delta ?? 0) };
  },
};

/** Prompt and steps of a trace as texts, and the segments that are steps. @throws TraceRejected (`export`) where they are not known */
function stepsOf({ prompt, completion }: OutputRow['trace'], segments: readonly SegmentRow[]) {
  // messages are rendered, unless the row has their ids
  if (typeof prompt !== 'string' || prompt === '')
    throw notExported('the row has no prompt text, expected some: --map prompt=<path>');
  const own = segments.filter(
    ({ charStart, charEnd, kind }) => kind !== 'shown' && (charStart !== charEnd || charStart === null),
  );
  // what the policy was shown stands with the step before it
  const ends = own.map((_, k) => own[k + 1]?.charStart ?? segments.at(-1)?.charEnd ?? null);
  return { own, prompt, completions: stepTexts(completion, ends) };
}

/** Cuts a text at segment ends, which count code points while JavaScript counts UTF-16 units. */
function stepTexts(text: string, ends: readonly (number | null)[]): string[] {
  let [unit, point] = [0, 0];
  return ends.map((charEnd) => {
    if (charEnd === null || text === '')
      throw notExported('the segments have no text: the ids spell another one than the completion');
    const start = unit;
    for (; point < charEnd; point++) unit += (text.codePointAt(unit) as number) > 0xffff ? 2 : 1;
    return text.slice(start, unit);
  });
}

/**
 * The token lists of a Tinker Datum, each of N = P + T − 1 entries: position i reads token i of prompt and completion and
 * predicts token i + 1. What is said of a predicted token is 0 where that is one of the prompt. Advantages are R*·σ, since
 * Tinker's losses sum over tokens; weights, for σ-weighted `cross_entropy`, are σ·T, mean 1 over the completion.
 */
const tinker = form(
  {
    model_input: INT32_LIST,
    target_tokens: INT32_LIST,
    logprobs: FLOAT32_LIST, // nats
    advantages: FLOAT32_LIST,
    weights: FLOAT32_LIST,
  },
  ({ promptIds, completionIds, logprobs, sigma, ownCount, advantage }) => {
    const P = promptIds.length; // at least 1: the policy reads no completion without a prompt
    const N = P + completionIds.length - 1;
    const ids = new Int32Array(N + 1);
    ids.set(promptIds);
    ids.set(completionIds, P);
    // the first completion token is predicted where the last prompt token is read
    const afterPrompt = (values: Float32Array): Float32Array => {
      const shifted = new Float32Array(N);
      shifted.set(values, P - 1);
      return shifted;
    };
    return {
      model_input: ids.subarray(0, N),
      target_tokens: ids.subarray(1),
      logprobs: afterPrompt(logprobs),
      advantages: afterPrompt(sigma.map((s) => advantage * s)),
      weights: afterPrompt(sigma.map((s) => s * ownCount)),
    };
  },
  true,
);

/**
 * An episode of VinePPO and SPO. Advantages are R*·σ·T, whose mean is R*: their PPO loss averages over tokens, so a trace
 * with uniform σ has R* everywhere.
 */
const vineppo = form(
  {
    query_token_ids: INT32_LIST,
    response_token_ids: INT32_LIST, // (T)
    scores: FLOAT32, // ζ
    advantages: FLOAT32_LIST, // (T)
  },
  ({ promptIds, completionIds, sigma, ownCount, reward, advantage }) => ({
    query_token_ids: promptIds,
    response_token_ids: completionIds,
    scores: reward,
    advantages: sigma.map((s) => advantage * s * ownCount),
  }),
  true,
);

export const EXPORT_FORMS = { prm, progress, tinker, vineppo };
export type ExportName = keyof typeof EXPORT_FORMS;
export const EXPORTS = Object.keys(EXPORT_FORMS) as readonly ExportName[];

/** The row with its export's values among what was asked for; as it is where there is no export. */
export function withExport(row: OutputRow, form: Export | undefined): OutputRow {
  return form === undefined ? row : { ...row, requested: { ...row.requested, ...form.row(row) } };
}
