// What the output's formats have in common: rows are added one by one and written many at a time.
import type { BatchBuilder } from './arrow-batch.js';
import type { OutputRow } from './columns.js';
import type { BatchWriter } from './parquet.js';

/** Writes rows in one format to one place. */
export interface RowWriter {
  /** takes what is written of a row; the row itself is not kept */
  add(row: OutputRow): void;
  /** writes what was added since the last time */
  flush(): Promise<void>;
  /** writes rows that a {@link RowEncoder} of the same columns and format has made; the bytes may be given away */
  writeEncoded(encoded: Uint8Array, rows: number): Promise<void>;
  /** @returns as `ByteSink.commit` */
  close(): Promise<string | null>;
  abort(): Promise<void>;
}

/** Rows as bytes, which another thread writes. */
export interface RowEncoder {
  add(row: OutputRow): void;
  /** what was added since the last time, in memory of its own; null where nothing was */
  finish(): Uint8Array<ArrayBuffer> | null;
}

/** A writer of record batches as one of rows. */
export function batchedRows(batches: BatchWriter, rows: BatchBuilder): RowWriter {
  return {
    add: (row) => rows.add(row),
    async flush() {
      const batch = rows.finish();
      if (batch !== null) await batches.write(batch);
    },
    writeEncoded: (stream, length) => batches.writeStream(stream, length),
    close: () => batches.close(),
    abort: () => batches.abort(),
  };
}
