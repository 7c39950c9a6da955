// Joins the parts of a run into one file, in their order.
import type { RecordBatch, Schema } from 'apache-arrow';
import type { BatchSource } from '../arrow/reader.js';
import type { BatchWriter } from '../arrow/writer.js';
import { type AtomicFile, openAtomicFile } from '../files/atomic-file.js';
import { FACTS_KEY, type Facts } from '../files/facts.js';
import { fileBytes, orAbort } from '../files/files.js';
import { PART_KEY, parsePart } from './facts.js';
import { type OutputFormat, openColumnar } from './output.js';

export interface JoinedParts {
  /** where the file lies until it is whole */
  readonly folder: string;
  readonly format: OutputFormat;
  /** what the file says of its rows */
  readonly facts: Facts;
  /** asked at every batch: may throw to stop */
  readonly onProgress: () => void;
  /** where not all is taken: which rows, without which column */
  readonly taken?: {
    readonly without: string;
    readonly metadata: Readonly<Record<string, string>>;
    rows(batch: RecordBatch): readonly { readonly from: number; readonly to: number }[];
  };
}

/** Writes the rows of all parts. @returns the file, whole, for the caller to publish */
export async function joinFiles(
  path: string,
  parts: readonly string[],
  opts: JoinedParts,
): Promise<AtomicFile> {
  const file = await openAtomicFile(path, opts.folder);
  await orAbort((opts.format === 'jsonl' ? joinLines : joinBatches)(file, parts, opts), file.abort);
  return file;
}

async function joinLines(file: AtomicFile, parts: readonly string[], { onProgress }: JoinedParts) {
  for (const part of parts)
    for await (const bytes of fileBytes(part)) {
      onProgress();
      await file.write(bytes);
    }
  await file.finish();
}

async function joinBatches(file: AtomicFile, parts: readonly string[], opts: JoinedParts) {
  const { format, facts, onProgress, taken } = opts;
  const kind = format === 'parquet' ? format : 'arrow';
  // lines need none of these
  const { Schema } = await import('apache-arrow');
  const { batchOf, gatherRows } = await import('../arrow/columns.js');
  let opened: { readonly schema: Schema; readonly batches: BatchWriter } | undefined;
  let rows = 0;
  try {
    for (const part of parts) {
      const source = await openPart(part, format);
      const { fields, metadata } = source.schema;
      const schema = new Schema(fields.filter(({ name }) => name !== taken?.without));
      opened ??= await openColumnar(file, kind, schema, { ...ofWhole(metadata), ...taken?.metadata });
      for await (const { batch } of source.batches()) {
        onProgress();
        const kept = batch.data.children.filter((_, n) => fields[n]?.name !== taken?.without);
        const unit = batchOf(schema, batch.numRows, kept);
        const ranges = taken?.rows(batch) ?? [{ from: 0, to: batch.numRows }];
        const gathered = gatherRows(
          opened.schema,
          ranges.map((range) => ({ unit, ...range })),
        );
        if (gathered.numRows > 0) await opened.batches.write(gathered);
        rows += gathered.numRows;
      }
      await source.close();
    }
    if (rows !== facts.traces)
      throw new Error(`${file.path}: the parts say ${facts.traces} traces and hold ${rows}`);
    await opened?.batches.close(facts);
  } catch (error) {
    await opened?.batches.abort();
    throw error;
  }
}

/** Opens a columnar part. */
export async function openPart(part: string, format: OutputFormat): Promise<BatchSource> {
  if (format === 'parquet') return (await import('../parquet/reader.js')).openParquet(part);
  return (await import('../arrow/reader.js')).openArrow(part);
}

/** What a part says of itself, but for what is of the part alone. */
function ofWhole(metadata: ReadonlyMap<string, string>): Record<string, string> {
  const isOfPart = (key: string, value: string) =>
    key === FACTS_KEY || (key === PART_KEY && parsePart(value)?.by === 'pieces');
  return Object.fromEntries([...metadata].filter(([key, value]) => !isOfPart(key, value)));
}
