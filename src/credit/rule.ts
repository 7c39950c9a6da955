// What a σ rule declares of itself; the rules are in per-segment.ts and per-token.ts, and nobody else has their names.

/** What of a trace its segments' credit follows from; K thought segments, and the answer's where there is one. */
export interface Steps {
  /** (K or K+1) segment ends, exclusive */
  readonly ends: Int32Array;
  /** whether the last segment is the answer */
  readonly answered: boolean;
  /** (K or K+1) Δ_k; 0 for the answer */
  readonly deltas: Float64Array;
  /** v(s_K) */
  readonly last: number;
  /** ζ */
  readonly reward: number;
  /** R* = ζ − b; NaN where the trace has no baseline */
  readonly advantage: number;
}

/** (K or K+1) σ of one token of each segment, or the status code that says why there is none. */
export type PerSegment = Float64Array | string;

/** What shapes a rule's credit, by its flag. */
export type RuleFlag = 'residual' | 'even' | 'tau' | 'smooth' | 'penalty';

/** A rule: of segments, whose credit the values' differences decide, or of tokens, whatever the values. */
export interface Rule {
  /** what it does, in the words of a dataset card */
  readonly words: string;
  /** (K or K+1) σ of one token of each segment */
  readonly ofSegments?: (
    steps: Steps,
    opts: { readonly residual: 'uniform' | 'answer'; readonly tau?: number },
  ) => PerSegment;
  /** (T) σ, or undefined where no token has any weight */
  readonly ofTokens?: (tokens: {
    readonly logprobs: Float32Array;
    readonly entropies: Float32Array;
    readonly T: number;
  }) => Float32Array | undefined;
  /** which of a token's numbers it reads */
  readonly reads?: 'entropies' | 'logprobs';
  /** the flags that have a meaning with it */
  readonly flags?: readonly RuleFlag[];
  /** σ has the sign of what a segment did */
  readonly isSigned?: true;
  /** what happened, and the literal differences, need no b */
  readonly needsNoBaseline?: true;
  /** it divides by ζ − v̂(s_0), which means nothing of logarithms and the like */
  readonly needsLevel?: true;
}
