// Which traces share a run of the policy that continues them: neighbours of one window, up to a batch of rows.
import { expect, it } from 'vitest';
import type { PolicyWrites } from '../../../dist/model/decode/continue.js';
import { continued } from '../../../dist/model/decode/episodes.js';
import { type RowStart, rowKey, type Written } from '../../../dist/model/decode/sampling.js';
import { isBad, rejectTrace } from '../../../dist/rows.js';
import { traceOf } from '../../support/io-helpers.js';

/** Ends every row at once; keeps which traces it was given together, by their first tokens. */
function writer() {
  const runs: number[][] = [];
  const session = {
    keepPrefixes: async (_: number, ids: readonly Int32Array[]) =>
      void runs.push(ids.map(([first = 0]) => first)),
    release: async () => {},
    advanceRows: async (_: number, { rows }: { rows: readonly RowStart[] }) => ({
      ended: rows.map(({ token }, row) => ({ row, ids: Int32Array.of(token) })),
      ...{ tokens: 0, isDone: true },
    }),
  } as unknown as PolicyWrites;
  return { session, runs };
}

it('runs neighbours together, never those of two windows, and gives them back in order', async () => {
  const traces = Array.from({ length: 7 }, (_, n) => {
    const trace = traceOf({}, n);
    const start = { exit: 2, key: rowKey(0, `${n}`, 0, 0), most: 1 };
    return { trace, begun: { ids: Int32Array.of(n, 10 * n), starts: [start, start] } };
  });
  const items = traces.map((item, n) =>
    n === 2 ? rejectTrace(item.trace, { code: 'odd', reason: '' }) : item,
  );
  const { session, runs } = writer();
  const how = { ...{ temperature: 1, topP: 1, stops: [], batch: 4 } };
  const found = [];
  let [read, ahead] = [0, 0];
  const stream = (async function* () {
    for (const item of items) {
      read++;
      yield item;
    }
  })();
  for await (const item of continued(stream, session, how, (row) => Math.floor(row / 4))) {
    ahead = Math.max(ahead, read - found.length);
    found.push(isBad(item) ? 'odd' : (item.written as Written[]).map(({ ids }) => ids[0]));
  }
  // windows of four rows, batches of four completions: two traces
  expect(runs).toEqual([[0, 1], [3], [4, 5], [6]]);
  // and no more is held than a batch, and what tells that it is full
  expect(ahead).toBe(3);
  expect(found).toEqual([[0, 0], [10, 10], 'odd', [30, 30], [40, 40], [50, 50], [60, 60]]);
});
