// Cuts a stream of traces into windows of neighbours, which alone may share runs of the policy.
import { type BadRow, isBad } from '../rows.js';
import type { Trace } from '../trace.js';
import type { Suffix } from './references.js';
import type { TraceJob } from './strategy.js';

/** A trace on its way through the policy. */
export interface PassJob extends Omit<TraceJob, 'ids' | 'promptLength'> {
  readonly trace: Trace;
  readonly promptIds: Int32Array;
  readonly completionIds: Int32Array;
  /** traces of its window, guests among them, whose own log-probabilities its values need */
  readonly needs?: readonly Trace[];
  /** how another model reads it, in a pass of its own */
  readonly again?: AnotherReading | undefined;
}

/** What another model is given of a trace, beside the completion. */
export interface AnotherReading {
  /** the prompt as that model reads it; absent: as the policy does */
  readonly promptIds?: Int32Array;
  /** (N) what it scores after every exit point */
  readonly continuations?: readonly Suffix[];
}

/** Neighbours. */
export interface Window<T> {
  /** what the window has to pass on, in input order */
  readonly items: readonly (T | BadRow)[];
  /** traces of other windows that run along, since some of these need their log-probabilities; they are not passed on */
  readonly guests: readonly PassJob[];
}

/** Traces a window, about: an input row may explode into many. */
const WINDOW_TRACES = 256;
/** The same where a group goes on beyond that. */
const MOST_TRACES = 4096;

/**
 * Consecutive items of one window each. One that has very many traces comes in several parts; a part ends with a group where
 * that is possible.
 * @param windowOf the window of an input row, by its number over all inputs
 */
export async function* windowsOf<T extends { readonly trace: Trace }>(
  items: AsyncIterable<T | BadRow>,
  windowOf: (ordinal: number) => number,
): AsyncGenerator<Window<T>> {
  let held: (T | BadRow)[] = [];
  let current = -1;
  let group: string | undefined;
  for await (const item of items) {
    const own = windowOf(isBad(item) ? item.ordinal : item.trace.source.ordinal);
    const isNext = isBad(item) || item.trace.group === undefined || item.trace.group !== group;
    if (held.length > 0 && (own !== current || held.length >= (isNext ? WINDOW_TRACES : MOST_TRACES))) {
      yield { items: held, guests: [] };
      held = [];
    }
    current = own;
    if (!isBad(item)) group = item.trace.group;
    held.push(item);
  }
  if (held.length > 0) yield { items: held, guests: [] };
}

/** What windows have to pass on, one after the other. */
export async function* itemsOf<T>(windows: AsyncIterable<Window<T>>): AsyncGenerator<T | BadRow> {
  for await (const { items } of windows) yield* items;
}
