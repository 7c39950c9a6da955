// Puts a stream of traces that are to be continued to the policy: neighbours share a batch, results in input order.
import { TraceRejected } from '../../errors.js';
import { type ContinueOptions, continueTraces, type PolicyWrites } from '../../policy/run/continue.js';
import { inHalves } from '../../policy/run/halves.js';
import type { Written } from '../../policy/run/sampling.js';
import { type BadRow, eachTrace, isBad } from '../../rows.js';
import type { Trace } from '../../trace.js';
import { type Continuable, type Episode, type Players, playEpisodes } from './episodes.js';

export interface Continued<T> {
  readonly item: T;
  readonly trace: Trace;
  /** in the order of the starts */
  readonly written: readonly (Written & Partial<Episode>)[] | TraceRejected;
}

/**
 * Continues every trace; what was set aside passes by in its place.
 * @param windowOf the window of an input row, by its number over all inputs: traces of other windows never share a run
 */
export async function* continued<T extends Continuable>(
  items: AsyncIterable<T | BadRow>,
  session: PolicyWrites,
  opts: ContinueOptions & { readonly players?: Players | undefined },
  windowOf: (ordinal: number) => number,
): AsyncGenerator<Continued<T> | BadRow> {
  const { players } = opts;
  let held: (T | BadRow)[] = [];
  let [rows, window] = [0, -1];
  async function* flush(): AsyncGenerator<Continued<T> | BadRow> {
    const whole = held;
    [held, rows] = [[], 0];
    const own = whole.filter((item) => !isBad(item)) as T[];
    const written = await inHalves(
      own,
      (each): Promise<(Written[] | TraceRejected)[]> =>
        players === undefined
          ? continueTraces(
              session,
              each.map(({ begun }) => begun),
              opts,
            )
          : playEpisodes(session, each, opts, players),
      ({ begun: { ids } }) =>
        new TraceRejected(
          'out_of_memory',
          `the machine has not enough memory to continue its ${ids.length} tokens: run it where there is more`,
        ),
    );
    yield* eachTrace(whole, (item) => {
      return { item, trace: item.trace, written: written[own.indexOf(item)] as Written[] };
    });
  }
  for await (const item of items) {
    const current = windowOf(isBad(item) ? item.ordinal : item.trace.source.ordinal);
    if (held.length > 0 && (current !== window || rows >= opts.batch)) yield* flush();
    window = current;
    held.push(item);
    if (!isBad(item)) rows += item.begun.starts.length;
  }
  yield* flush();
}
