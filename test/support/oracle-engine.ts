// An engine that shares nothing with the program: it answers the lines of `rredcot requests` by the float64 oracle's forward pass.
import { extend, fork, logSumExp, type OracleModel, type State, start } from '../oracle/llama.js';
import { drawn } from '../oracle/toy.js';

/** A line of questions. */
export interface AskedLine {
  readonly id: string;
  readonly token_ids: number[];
  readonly prefix?: { readonly of: string; readonly length: number };
  readonly from?: number;
  readonly top?: number;
  readonly fresh?: boolean;
  readonly samples?: number;
  readonly max_tokens?: number;
  readonly stop?: number[];
}

export type AnswerLine = Record<string, unknown> & {
  id: string;
  logprobs: number[];
  top?: number[][];
  ids?: number[][];
};

export const linesOf = <T>(text: string): T[] =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as T);

/** Answers in the order of the questions; entropies are told by the likeliest tokens, as an engine tells them. @param random draws samples */
export function answersOf(
  questions: string,
  model: OracleModel,
  random: () => number = () => 0.5,
): AnswerLine[] {
  const read = new Map<string, State>();
  const stateOf = ({ id, token_ids }: AskedLine): State => {
    const state = start(model);
    extend(model, state, token_ids);
    read.set(id, state);
    return state;
  };
  const [, ...lines] = linesOf<AskedLine>(questions);
  return lines.flatMap((line): AnswerLine[] => {
    const { id, prefix, token_ids, from, top } = line;
    if (prefix === undefined) stateOf(line);
    if (line.samples !== undefined) {
      const behind = fork(read.get(prefix?.of ?? id) as State, prefix?.length);
      const ids = Array.from({ length: line.samples }, () => sampled(model, behind, line, random));
      return [{ id, logprobs: [], ids }];
    }
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

/** Token ids behind a state, drawn one by one, T = 1. */
function sampled(
  model: OracleModel,
  behind: State,
  { max_tokens: most = 0, stop = [] }: AskedLine,
  random: () => number,
): number[] {
  const own = fork(behind, behind.ids.length - 1);
  const ids: number[] = [];
  for (let last = behind.ids.at(-1) as number; ids.length < most && !stop.includes(ids.at(-1) ?? -1); ) {
    extend(model, own, [last], (logits) => {
      const total = logSumExp(logits);
      last = drawn(
        logits.map((logit) => Math.exp(logit - total)),
        random,
      );
    });
    ids.push(last);
  }
  return ids;
}
