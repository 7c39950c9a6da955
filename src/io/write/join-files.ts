// Joins the parts of a run into one file, in their order.
import type { Schema } from 'apache-arrow';
import type { BatchWriter } from '../arrow/writer.js';
import { type AtomicFile, openAtomicFile } from '../files/atomic-file.js';
import { FACTS_KEY, type Facts } from '../files/facts.js';
import { fileBytes } from '../files/files.js';
import { PART_KEY, parsePart } from './facts.js';
import { type OutputFormat, openColumnar } from './output.js';

interface JoinedParts {
  /** where the file lies until it is whole */
  readonly folder: string;
  readonly format: OutputFormat;
  /** what the file says of its rows */
  readonly facts: Facts;
  /** asked at every batch: may throw to stop */
  readonly onProgress: () => void;
}

/** Writes the rows of all parts. @returns the file, whole, for the caller to publish */
export async function joinFiles(
  path: string,
  parts: readonly string[],
  opts: JoinedParts,
): Promise<AtomicFile> {
  const file = await openAtomicFile(path, opts.folder);
  try {
    await (opts.format === 'jsonl' ? joinLines(file, parts, opts) : joinBatches(file, parts, opts));
  } catch (error) {
    await file.abort();
    throw error;
  }
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
  const { format, facts, onProgress } = opts;
  const kind = format === 'parquet' ? format : 'arrow';
  // lines need none of these
  const { Schema } = await import('apache-arrow');
  const { gatherRows } = await import('../arrow/columns.js');
  const { openArrow } = await import('../arrow/reader.js');
  const { openParquet } = await import('../parquet/reader.js');
  let opened: { readonly schema: Schema; readonly batches: BatchWriter } | undefined;
  let rows = 0;
  try {
    for (const part of parts) {
      const source = await (kind === 'parquet' ? openParquet(part) : openArrow(part));
      const { fields, metadata } = source.schema;
      opened ??= await openColumnar(file, kind, new Schema(fields), ofWhole(metadata));
      for await (const { batch } of source.batches()) {
        onProgress();
        await opened.batches.write(gatherRows(opened.schema, [{ unit: batch, from: 0, to: batch.numRows }]));
        rows += batch.numRows;
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

/** What a part says of itself, but for what is of the part alone. */
function ofWhole(metadata: ReadonlyMap<string, string>): Record<string, string> {
  const isOfPart = (key: string, value: string) =>
    key === FACTS_KEY || (key === PART_KEY && parsePart(value)?.by === 'pieces');
  return Object.fromEntries([...metadata].filter(([key, value]) => !isOfPart(key, value)));
}
