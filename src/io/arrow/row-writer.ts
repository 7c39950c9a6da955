// What the output's formats have in common: rows are added one by one and written many at a time.
import type { RecordBatch } from 'apache-arrow';
import type { OutputRow } from '../../scored.js';

/** Writes rows in one format to one place. */
export interface RowWriter {
  /** takes what is written of a row; the row itself is not kept */
  add(row: OutputRow): void;
  /** writes what was added since the last time */
  flush(): Promise<void>;
  /** @returns as `ByteSink.commit` */
  close(): Promise<string | null>;
  abort(): Promise<void>;
}

/** Writes record batches to one file. */
export interface BatchWriter {
  /** copies the batch before it first waits: what the batch is made of may be used again */
  write(batch: RecordBatch): Promise<void>;
  /** @returns as `ByteSink.commit` */
  close(): Promise<string | null>;
  abort(): Promise<void>;
}
