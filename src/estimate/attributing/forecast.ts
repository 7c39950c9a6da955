// `--dry-run` of attributions: traces that are ready in, how much more the policy would read for them and how long that takes out.
import { TraceRejected } from '../../errors.js';
import { candidateExits } from '../../segment/segment.js';
import type { PassJob } from '../passes/cut-windows.js';
import { type Ablated, type KeepsTrunks, type Loo, leaveOneOut, withoutSegment } from './deletions.js';

/** What would be read again. */
export interface AttributionForecast {
  readonly branches: number;
  /** tokens that the policy would read besides */
  readonly rows: number;
  readonly seconds: number;
  /** rows that were run to see how long one takes */
  readonly measured: number;
}

/** Counts what traces will have read again, as if their pieces were merged evenly. */
export class AttributionTally {
  private branches = 0;
  private rows = 0;
  private first: Ablated | undefined;

  constructor(private readonly loo: Loo) {}

  add(job: PassJob): void {
    const trace = evenly(job);
    this.branches += (trace.exits.length - 1) * trace.continuations.length;
    this.rows += rowsOf(trace);
    this.first ??= trace;
  }

  /** Attributes the first trace, twice: the first run of a graph takes longer. */
  async measure(session: KeepsTrunks): Promise<AttributionForecast> {
    const { branches, rows, first, loo } = this;
    const none = { branches, rows, seconds: 0, measured: 0 };
    if (first === undefined || rows === 0) return none;
    const zeros = first.continuations.map(() => new Float32Array(1));
    try {
      await leaveOneOut(session, first, zeros, loo);
      const started = performance.now();
      await leaveOneOut(session, first, zeros, loo);
      const taken = (performance.now() - started) / 1000;
      const measured = rowsOf(first);
      return { branches, rows, seconds: (taken * rows) / Math.max(1, measured), measured };
    } catch (error) {
      if (error instanceof TraceRejected) return none;
      throw error;
    }
  }
}

function evenly({ promptIds, completionIds, pieces, continuations }: PassJob): Ablated {
  const all = candidateExits(pieces);
  const P = all.length - 1;
  const K = Math.min(pieces.segments, P);
  const exits = Int32Array.from({ length: K + 1 }, (_, k) => all[Math.round((k * P) / Math.max(1, K))] ?? 0);
  return { promptIds, completionIds, exits, continuations };
}

/** Tokens of the trunk, and of all branches. */
function rowsOf(trace: Ablated): number {
  const { promptIds, exits } = trace;
  let rows = promptIds.length + (exits[exits.length - 1] as number);
  for (let k = 1; k < exits.length; k++)
    rows += withoutSegment(trace, k, 'deleted').reduce((sum, { ids }) => sum + ids.length, 0);
  return rows;
}
