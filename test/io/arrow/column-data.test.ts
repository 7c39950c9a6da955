// A batch is made of its own rows, as they are: what was in the batch before is not in it.
import { type Data, type RecordBatch, Table, tableToIPC } from 'apache-arrow';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { ColumnType } from '../../../dist/io/arrow/schema.js';
import { valueAt } from '../../../dist/io/arrow/values.js';
import { arrowSchema, type BatchWriter, batchedRows } from '../../../dist/io/arrow/writer.js';
import { bareRow } from '../../support/io-helpers.js';

const KINDS: readonly (readonly [ColumnType, fc.Arbitrary<unknown>])[] = [
  [{ kind: 'bool' }, fc.boolean()],
  [{ kind: 'int32' }, fc.integer()],
  [{ kind: 'int64' }, fc.maxSafeInteger()],
  [{ kind: 'float32' }, fc.float({ noNaN: true })],
  [{ kind: 'double' }, fc.double({ noNaN: true })],
  [{ kind: 'string' }, fc.string()],
];

it.each(
  KINDS.flatMap(([type, value]): (typeof KINDS)[number][] => [
    [type, value],
    [{ kind: 'list', element: type }, fc.array(fc.option(value), { maxLength: 4 })],
    [{ kind: 'struct', fields: [{ name: 'a', type }] }, fc.record({ a: fc.option(value) })],
  ]),
)('%j', async (type, value) => {
  const columns = [{ name: 'v', type, value: ({ trace }) => trace.source.columns.v }] as Parameters<
    typeof arrowSchema
  >[0];
  const schema = arrowSchema(columns);
  const values = fc.array(fc.option(value), { minLength: 1, maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(values, values, async (before, now) => {
      const batches: RecordBatch[] = [];
      const writer: BatchWriter = {
        write: async (batch) => void batches.push(batch),
        close: async () => {},
        abort: async () => {},
      };
      const rows = batchedRows(writer, schema, columns);
      for (const list of [now, before, now]) {
        for (const v of list) rows.add(bareRow({ v }));
        await rows.flush();
      }
      const [first, , again] = batches.map((batch) => Buffer.from(tableToIPC(new Table(batch))));
      expect(again).toEqual(first);
      const data = batches[0]?.data.children[0] as Data;
      expect(now.map((_, i) => valueAt(data, i))).toEqual(now);
    }),
    { numRuns: 15 },
  );
});
