// An engine that shares nothing with the program: it answers the lines of `rredcot requests` by the float64 oracle's forward pass.
import { extend, fork, logSumExp, type OracleModel, type State, start } from '../oracle/llama.js';

/** A line of questions. */
export interface AskedLine {
  readonly id: string;
  readonly token_ids: number[];
  readonly prefix?: { readonly of: string; readonly length: number };
  readonly from?: number;
  readonly top?: number;
  readonly fresh?: boolean;
}

export type AnswerLine = Record<string, unknown> & { id: string; logprobs: number[]; top?: number[][] };

export const linesOf = <T>(text: string): T[] =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as T);

/** Answers in the order of the questions; entropies are told by the likeliest tokens, as an engine tells them. */
export function answersOf(questions: string, model: OracleModel): AnswerLine[] {
  const read = new Map<string, State>();
  const stateOf = ({ id, token_ids }: AskedLine): State => {
    const state = start(model);
    extend(model, state, token_ids);
    read.set(id, state);
    return state;
  };
  const [, ...lines] = linesOf<AskedLine>(questions);
  return lines.flatMap((line) => {
    const { id, prefix, token_ids, from, top } = line;
    if (prefix === undefined) stateOf(line);
    if (from === undefined) return [];
    const shared = prefix?.length ?? 0;
    const base = prefix && fork(read.get(prefix.of) as State, shared);
    const ids = [...(base?.ids ?? []), ...token_ids];
    // the distribution of a token comes from reading the one before it
    const begun = base === undefined ? start(model) : fork(base, Math.min(shared, from - 1));
    const logprobs: number[] = [];
    const likeliest: number[][] = [];
    const first = begun.ids.length;
    extend(model, begun, ids.slice(first, -1), (logits, n) => {
      const next = first + n + 1;
      if (next < from) return;
      const total = logSumExp(logits);
      logprobs.push((logits[ids[next] as number] as number) - total);
      if (top !== undefined)
        likeliest.push(
          Array.from(logits, (logit) => logit - total)
            .sort((a, b) => b - a)
            .slice(0, top),
        );
    });
    return [{ id, logprobs, ...(top !== undefined && { top: likeliest }) }];
  });
}
