// `--dry-run` of attributions: measures how much more the policy would read for them, and how long that takes.
import { TraceRejected } from '../../errors.js';
import { candidateExits } from '../../segment/segment.js';
import type { PassJob } from '../cut-windows.js';
import { type Attributes, type AttributionOptions, attributionsOf, openAttribution } from './attributed.js';
import { type Ablated, withoutSegment } from './deletions.js';

/** What would be read again. */
export interface AttributionForecast {
  /** sequences: traces without a segment, or whole ones */
  readonly sequences: number;
  /** tokens that the policy would read besides */
  readonly tokens: number;
  readonly seconds: number;
  /** tokens that were read to see how long one takes */
  readonly measured: number;
}

/** Counts what traces will have read again, as if their pieces were merged evenly. */
export class AttributionTally {
  private sequences = 0;
  private tokens = 0;
  private first: Ablated | undefined;

  constructor(private readonly opts: AttributionOptions) {}

  add(job: PassJob): void {
    const trace = evenly(job);
    const lengths = this.lengthsOf(trace);
    this.sequences += lengths.length;
    this.tokens += lengths.reduce((sum, length) => sum + length, trunkOf(trace));
    this.first ??= trace;
  }

  /** Attributes the first trace, twice: the first run of a graph takes longer. */
  async measure(session: Attributes): Promise<AttributionForecast> {
    const { sequences, tokens, first, opts } = this;
    const none = { sequences, tokens, seconds: 0, measured: 0 };
    if (first === undefined) return none;
    const measured = this.lengthsOf(first).reduce((sum, length) => sum + length, trunkOf(first));
    const zeros = first.continuations.map(({ ids, scoredFrom }) => new Float32Array(ids.length - scoredFrom));
    try {
      await openAttribution(session, opts);
      await attributionsOf(session, first, zeros, opts);
      const started = performance.now();
      await attributionsOf(session, first, zeros, opts);
      const taken = (performance.now() - started) / 1000;
      return { sequences, tokens, seconds: (taken * tokens) / measured, measured };
    } catch (error) {
      if (error instanceof TraceRejected) return none;
      throw error;
    }
  }

  /** Tokens of each sequence, without what all of a trace's share. */
  private lengthsOf(trace: Ablated): number[] {
    if (this.opts.estimator !== 'loo')
      return [trace.continuations.reduce((sum, { ids }) => sum + ids.length - 1, 0)];
    const segments = Array.from({ length: trace.exits.length - 1 }, (_, n) => n + 1);
    return segments.flatMap((k) => withoutSegment(trace, k, 'deleted').map(({ ids }) => ids.length));
  }
}

function evenly({ promptIds, completionIds, pieces, continuations }: PassJob): Ablated {
  const all = candidateExits(pieces);
  const P = all.length - 1;
  const K = Math.min(pieces.segments, P);
  const exits = Int32Array.from({ length: K + 1 }, (_, k) => all[Math.round((k * P) / Math.max(1, K))] ?? 0);
  return { promptIds, completionIds, exits, continuations };
}

function trunkOf({ promptIds, exits }: Ablated): number {
  return promptIds.length + (exits[exits.length - 1] as number);
}
