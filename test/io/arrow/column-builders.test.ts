// A batch is made of its own rows: what a builder held before, in buffers that it uses again, is not in it.
import { Table, tableToIPC } from 'apache-arrow';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { ColumnType } from '../../../dist/io/arrow/schema.js';
import { arrowSchema, batchBuilder } from '../../../dist/io/arrow/writer.js';
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
)('%j', (type, value) => {
  const columns = [{ name: 'v', type, value: ({ trace }) => trace.source.columns.v }] as Parameters<
    typeof arrowSchema
  >[0];
  const schema = arrowSchema(columns, {});
  const values = fc.array(fc.option(value), { minLength: 1, maxLength: 12 });
  fc.assert(
    fc.property(values, values, (before, now) => {
      const bytes = (builder: ReturnType<typeof batchBuilder>) => {
        for (const v of now) builder.add(bareRow({ v }));
        const batch = builder.finish();
        return batch === null ? null : Buffer.from(tableToIPC(new Table(batch)));
      };
      const used = batchBuilder(schema, columns);
      for (const v of before) used.add(bareRow({ v }));
      used.finish();
      expect(bytes(used)).toEqual(bytes(batchBuilder(schema, columns)));
    }),
    { numRuns: 15 },
  );
});
