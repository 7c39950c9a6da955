// Sequences that a model which judges or attributes reads.

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
export interface Beside {
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
export function besideEachOther(trace: Int32Array, references: readonly Beside[]): Sequence {
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
