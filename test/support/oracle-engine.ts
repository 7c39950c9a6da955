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

/** What a model has read and said: ids tell what is asked, so that each question is computed once. */
const known = new WeakMap<OracleModel, { states: Map<string, State>; said: Map<string, AnswerLine> }>();

/** Answers in the order of the questions; entropies are told by the likeliest tokens, as an engine tells them. @param random draws samples */
export function answersOf(
  questions: string,
  model: OracleModel,
  random: () => number = () => 0.5,
): AnswerLine[] {
  const { states, said } = known.get(model) ?? { states: new Map(), said: new Map() };
  known.set(model, { states, said });
  const [, ...lines] = linesOf<AskedLine>(questions);
  const bases = new Map(lines.map(({ id, token_ids }) => [id, token_ids]));
  const stateOf = (id: string): State => {
    const state = states.get(id) ?? start(model);
    if (!states.has(id)) extend(model, state, bases.get(id) ?? []);
    states.set(id, state);
    return state;
  };
  return lines.flatMap((line): AnswerLine[] => {
    const { id, prefix, from } = line;
    if (line.samples !== undefined) {
      const behind = fork(stateOf(prefix?.of ?? id), prefix?.length);
      const ids = Array.from({ length: line.samples }, () => sampled(model, behind, line, random));
      return [{ id, logprobs: [], ids }];
    }
    if (from === undefined) return [];
    const answer =
      said.get(id) ?? scored(model, line, from, prefix && fork(stateOf(prefix.of), prefix.length));
    said.set(id, answer);
    return [{ ...answer }];
  });
}

function scored(
  model: OracleModel,
  { id, token_ids, top }: AskedLine,
  from: number,
  base: State = start(model),
): AnswerLine {
  const ids = [...base.ids, ...token_ids];
  // the distribution of a token comes from reading the one before it
  const begun = fork(base, Math.min(base.ids.length, from - 1));
  const first = begun.ids.length;
  const logprobs: number[] = [];
  const likeliest: number[][] = [];
  extend(model, begun, ids.slice(first, -1), (logits, n) => {
    const next = first + n + 1;
    if (next < from) return;
    const total = logSumExp(logits);
    logprobs.push((logits[ids[next] as number] as number) - total);
    const all = top === undefined ? [] : Array.from(logits, (logit) => logit - total);
    likeliest.push(all.sort((x, y) => y - x).slice(0, top));
  });
  return { id, logprobs, ...(top !== undefined && { top: likeliest }) };
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
