// What a run of the policy is given and gives: traces and their branches, and where each trace's keys are.

let lastKept = 0;
/** A number under which a session may keep keys and values, or rows that write: whoever asks, no other has it. */
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

/** One more than the last position of a branch's tokens. */
export function branchEnd({ exit, ids, gap }: Branch): number {
  return exit + ids.length + (gap?.tokens ?? 0);
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
}

/** What the policy says of one trace of a run; every token is predicted from everything before it. */
export interface TraceScores {
  /** (T) entropy of the predicting distribution, nats, full vocabulary; T = 0 where only branches were run */
  readonly entropies: Float32Array;
  /** (T) log-probability of the token itself, nats */
  readonly logprobs: Float32Array;
  /** log-probabilities of every branch's scored tokens, and then of `also`, nats */
  readonly branches: readonly Float32Array[];
}

/** Where a trace's keys are: on a trunk, and where that is its prompt alone, on a limb behind it. */
export interface TrunkPlace {
  /** which of the trunks */
  readonly trunk: number;
  readonly limb?: {
    /** which of the limbs */
    readonly number: number;
    /** tokens of the trace that are on the trunk */
    readonly from: number;
  };
}

/** What a run reads. */
export interface Placed {
  /** (B) ids of each trunk: a trace, or a prompt that traces share */
  readonly trunks: readonly Int32Array[];
  /** (N) ids of each limb: the completion of a trace that shares its prompt */
  readonly limbs: readonly Int32Array[];
  /** of each trace */
  readonly places: readonly TrunkPlace[];
}

/**
 * Traces with the same number in `shares` stand on one trunk.
 * @throws RangeError where their prompts differ
 */
export function placeTraces(traces: readonly Omit<PackedTrace, 'branches'>[]): Placed {
  const trunks: Int32Array[] = [];
  const limbs: Int32Array[] = [];
  const shared = new Map<number, number>(); // number of a prompt → its trunk
  const places = traces.map(({ ids, promptLength, shares }): TrunkPlace => {
    if (shares === undefined) return { trunk: trunks.push(ids) - 1 };
    const prompt = ids.subarray(0, promptLength);
    const trunk = shared.get(shares) ?? trunks.push(prompt) - 1;
    shared.set(shares, trunk);
    const read = trunks[trunk] as Int32Array;
    if (read.length !== promptLength || prompt.some((id, t) => id !== read[t]))
      throw new RangeError(`traces that share prompt ${shares} have different ones`);
    return { trunk, limb: { number: limbs.push(ids.subarray(promptLength)) - 1, from: promptLength } };
  });
  return { trunks, limbs, places };
}

// ------ sequences that a model which judges or attributes reads

/** A sequence, and the rows of it that are read out. */
export interface ReadSteps {
  /** (T) */
  readonly ids: Int32Array;
  readonly rows: Int32Array;
}

/** A trace, and behind it references that each see the trace and themselves: S tokens, n of which are scored. */
export interface Sequence {
  /** (S) */
  readonly ids: Int32Array;
  /** (S) positions */
  readonly pos: Int32Array;
  /** (S) −1: the trace's; else its reference's number */
  readonly number: Int32Array;
  /** (n) rows that predict a scored token, and these tokens */
  readonly rows: Int32Array;
  readonly targets: Int32Array;
  /** (n) what each counts for */
  readonly weights: Float32Array;
}

/** A reference as it stands in a {@link Sequence}. */
export interface ScoredPart {
  readonly ids: Int32Array;
  /** tokens scoredFrom.. are scored */
  readonly scoredFrom: number;
  /** what each of them counts for */
  readonly weight: number;
}

/**
 * A trace and its references, each as if it came next. The last token of a reference predicts nothing that is scored: it is left
 * out.
 */
export function besideEachOther(trace: Int32Array, references: readonly ScoredPart[]): Sequence {
  const T = trace.length;
  const [all, pos, number] = [Array.from(trace), Array.from(trace.keys()), Array.from(trace, () => -1)];
  const [rows, targets, weights]: [number[], number[], number[]] = [[], [], []];
  for (const [n, { ids, scoredFrom, weight }] of references.entries()) {
    const first = all.length;
    for (const [j, id] of ids.entries()) {
      if (j >= scoredFrom) {
        rows.push(j === 0 ? T - 1 : first + j - 1);
        targets.push(id);
        weights.push(weight);
      }
      if (j === ids.length - 1) continue;
      all.push(id);
      pos.push(T + j);
      number.push(n);
    }
  }
  return {
    ids: Int32Array.from(all),
    pos: Int32Array.from(pos),
    number: Int32Array.from(number),
    rows: Int32Array.from(rows),
    targets: Int32Array.from(targets),
    weights: Float32Array.from(weights),
  };
}
