// Reads schema and record batches of a Parquet file, one row group at a time.

import { RecordBatchReader, Schema } from 'apache-arrow';
import { checkBatch } from '../arrow/check.js';
import { type BatchSource, damaged } from '../arrow/reader.js';
import { openParquetDecoder } from './decoder.js';
import { readParquetFooter } from './footer.js';

/** Schemas of footers seen: the files of one data set share theirs, and to ask for it takes a worker thread. */
const schemas = new Map<string, Schema>();

/** Opens a Parquet file of any size. @throws RredcotError (exit 65) where it is damaged */
export async function openParquet(path: string): Promise<BatchSource> {
  const footer = await readParquetFooter(path);
  const file = { path, version: footer.version };
  const decoder = openParquetDecoder();
  let schema = schemas.get(footer.schemaKey);
  if (schema === undefined) {
    try {
      schema = RecordBatchReader.from(await decoder.schema(file, footer.schemaPart())).open().schema;
    } catch (error) {
      await decoder.close();
      throw damaged(error, path, 'its schema');
    }
    schemas.set(footer.schemaKey, schema);
  }
  return {
    // files with the same columns may differ in what they say of themselves
    schema: new Schema(schema.fields, new Map(footer.metadata)),
    losses: footer.losses,
    async *batches(isWanted, columns) {
      const names = schema.fields.map(({ name }) => name).filter(columns ?? (() => true));
      const chosen = names.length === schema.fields.length ? undefined : names;
      let row = 0;
      try {
        for (const [n, group] of footer.groups.entries()) {
          const first = row;
          const end = row + group.rows;
          if (isWanted?.(row, end) ?? true) {
            try {
              for await (const ipc of decoder.rows(file, group, chosen))
                for (const batch of RecordBatchReader.from(ipc)) {
                  if (batch.numRows === 0) continue;
                  checkBatch(batch);
                  const share = [row / footer.rows, (row + batch.numRows) / footer.rows] as const;
                  yield { batch, row, share };
                  row += batch.numRows;
                }
              // parquet-wasm may end early without a word
              if (row !== end) throw new Error(`${row - first} of ${group.rows} rows came`);
            } catch (error) {
              throw damaged(error, path, `row group ${n}, from row ${row} on,`);
            }
          }
          row = end;
        }
      } finally {
        await decoder.close();
      }
    },
    close: decoder.close,
  };
}
