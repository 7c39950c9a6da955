// What a run of the policy is given and gives: traces and their branches, and where each trace's keys are.
import type { Likeliest } from '../../trace.js';

let lastKept = 0;
/** A number under which a session may keep keys and values: whoever asks, no other has it. */
export function nextKept(): number {
  return ++lastKept;
}

/** A continuation of a trace from one exit point, of which a span is scored. */
export interface Branch {
  /** tokens of the trace in sight: the branch stands at position `exit` */
  readonly exit: number;
  /** the continuation's token ids (A) */
  readonly ids: Int32Array;
  /** tokens scoredFrom..A-1 are scored, each given everything before it; at least 1: the token before must be in `ids` */
  readonly scoredFrom: number;
  /** another token in the place of the last one, which is scored too */
  readonly also?: number;
  /** tokens of the trace that are hidden from the branch: their places stay free, so many positions before `ids[before]` */
  readonly gap?: { readonly before: number; readonly tokens: number };
}

/** How many log-probabilities a branch has. */
export function scoresOf({ ids, scoredFrom, also }: Branch): number {
  return ids.length - scoredFrom + (also === undefined ? 0 : 1);
}

/** A trace in a run: its own tokens, of which promptLength.. are scored, and its branches. */
export interface PackedTrace {
  readonly ids: Int32Array;
  readonly promptLength: number;
  readonly branches: readonly Branch[];
  /** traces of a run with the same number here have the same prompt, which is read once; absent: read with the trace */
  readonly shares?: number | undefined;
  /** exits at which its hidden state is wanted: tokens of the trace before each; absent: none */
  readonly states?: readonly number[] | undefined;
  /** the last layer's row before each of its own tokens is wanted, of a session that gives distributions; of an engine the likeliest tokens */
  readonly last?: true | undefined;
  /** by which an engine names it */
  readonly trace?: { readonly id: string };
}

/** What the policy says of one trace of a run; every token is predicted from everything before it. */
export interface TraceScores {
  /** (T) entropy of the predicting distribution, nats, full vocabulary; T = 0 where only branches were run */
  readonly entropies: Float32Array;
  /** (T) log-probability of the token itself, nats */
  readonly logprobs: Float32Array;
  /** log-probabilities of every branch's scored tokens, and then of `also`, nats */
  readonly branches: readonly Float32Array[];
  /** (states · d) float16, where they were wanted and the graph has them */
  readonly states?: Uint16Array;
  /** (T · d) the last layer's rows, where they were wanted */
  readonly last?: Float32Array;
  /** (T) of an engine in their place */
  readonly likeliest?: readonly Likeliest[];
}

/** Where a trace's keys are: on a prefix, and where that is its prompt alone, on a suffix behind it. */
export interface PrefixPlace {
  /** which of the prefixes */
  readonly prefix: number;
  readonly suffix?: {
    /** which of the suffixes */
    readonly number: number;
    /** tokens of the trace that are on the prefix */
    readonly from: number;
  };
}

/**
 * What a run reads: (B) ids of each prefix, a trace or a prompt that traces share; (N) ids of each suffix, the completion of a trace that
 * shares its prompt; and where each trace is. Traces with the same number in `shares` stand on one prefix.
 * @throws RangeError where their prompts differ
 */
export function placeTraces(traces: readonly PackedTrace[]) {
  const prefixes: Int32Array[] = [];
  const suffixes: Int32Array[] = [];
  const shared = new Map<number, number>(); // number of a prompt → its prefix
  const places = traces.map(({ ids, promptLength, shares }): PrefixPlace => {
    if (shares === undefined) return { prefix: prefixes.push(ids) - 1 };
    const prompt = ids.subarray(0, promptLength);
    const prefix = shared.get(shares) ?? prefixes.push(prompt) - 1;
    shared.set(shares, prefix);
    const read = prefixes[prefix] as Int32Array;
    if (read.length !== promptLength || prompt.some((id, t) => id !== read[t]))
      throw new RangeError(`traces that share prompt ${shares} have different ones`);
    return { prefix, suffix: { number: suffixes.push(ids.subarray(promptLength)) - 1, from: promptLength } };
  });
  return { prefixes, suffixes, places };
}

export interface RunJob {
  /** (B) where `use` is given, `ids` are empty: the branches follow on the traces of the run that was kept */
  readonly traces: readonly PackedTrace[];
  /** keeps the traces' keys and values in this thread under a number */
  readonly keep?: number | undefined;
  /** the number of a run that was kept */
  readonly use?: number;
}
