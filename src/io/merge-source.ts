// Chunks of one format in, parts of them that can be loaded in any order out: columnar ones are laid out uncompressed in a
// temporary file, because a Parquet reader held open for each shard takes a row group of memory each.
import { randomBytes } from 'node:crypto';
import { type FileHandle, open, rm } from 'node:fs/promises';
import { type RecordBatch, RecordBatchReader, Schema, tableFromIPC, util } from 'apache-arrow';
import { batchStream } from './arrow-batch.js';
import { openChunkReader } from './chunk-reader.js';
import { fileError } from './file-error.js';
import { gatherRows, type Piece } from './gather.js';
import { BATCH_BYTES, type Part } from './interleave.js';
import type { OutputFormat } from './output.js';
import { readLines } from './stored-rows.js';
import { readWhole, writeWhole } from './whole.js';

/** What all chunks of a run have in common; of the first one that was read. */
export interface ChunkHeader {
  /** without metadata; JSONL has no columns */
  readonly schema: Schema;
  readonly metadata: Readonly<Record<string, string>>;
}

/** Chunks that lie side by side: `parts` of each of them, then any of these can be loaded, until `close`. */
export interface Stripe<T> {
  /** @param cuts traces at which a part has to end, ascending */
  parts(path: string, cuts: readonly number[]): Promise<Part[]>;
  load(part: Part): Promise<T>;
  /** compressed bytes for one that is not, of the chunk that is compressed least */
  readonly compression: number;
  close(): Promise<void>;
}

export interface ChunkSource<T> {
  openStripe(): Promise<Stripe<T>>;
  /** undefined before the first chunk was read */
  readonly header: ChunkHeader | undefined;
  close(): Promise<void>;
}

/** Rows of a columnar format. @param besides the output, where the temporary file may grow */
export function openColumnarSource(
  format: Exclude<OutputFormat, 'jsonl'>,
  besides: string,
): ChunkSource<RecordBatch> {
  const parquet = openChunkReader();
  let header: ChunkHeader | undefined;
  let headerPath = '';

  function check(path: string, found: Schema, metadata: Iterable<readonly [string, string]>): Schema {
    const schema = new Schema(found.fields);
    if (header === undefined) {
      const own = [...metadata].sort(([a], [b]) => (a < b ? -1 : 1));
      header = { schema, metadata: Object.fromEntries(own) };
      headerPath = path;
    } else if (!util.compareSchemas(header.schema, schema))
      throw new Error(`${path} has other columns than ${headerPath}`);
    return header.schema;
  }

  async function openStripe(): Promise<Stripe<RecordBatch>> {
    const spill = await openSpill(besides);
    let compression = 0;
    let end = 0;
    async function add(parts: Part[], ipc: Uint8Array, traces: number): Promise<void> {
      await writeSpill(spill.file, ipc, end, besides);
      parts.push({ path: spill.path, offset: end, length: ipc.length, traces });
      end += ipc.length;
    }
    return {
      async parts(path, cuts) {
        const parts: Part[] = [];
        if (format === 'parquet') {
          const found = await parquet.open(path, cuts);
          check(path, found.schema, found.metadata);
          compression = Math.max(compression, found.compression);
          for await (const { batch, ipc } of found.batches) await add(parts, ipc, batch.numRows);
          return parts;
        }
        compression = 1;
        await using file = await open(path, 'r');
        const reader = await (await RecordBatchReader.from(file)).open();
        const schema = check(path, reader.schema, reader.schema.metadata);
        let traces = 0;
        for await (const batch of reader)
          for (const piece of cutBatch(batch, traces, cuts)) {
            const copy = gatherRows(schema, [piece]);
            await add(parts, batchStream(copy), copy.numRows);
            traces += copy.numRows;
          }
        return parts;
      },
      load: async ({ offset, length }) => {
        const ipc = await readWhole(spill.file, new Uint8Array(length), offset, spill.path);
        return tableFromIPC(ipc).batches[0] as RecordBatch;
      },
      get compression() {
        return compression === 0 ? 1 : compression;
      },
      close: () => spill.file.close(),
    };
  }
  return {
    openStripe,
    get header() {
      return header;
    },
    close: () => parquet.close(),
  };
}

/** @param first number of the batch's first trace in the chunk */
function* cutBatch(
  batch: RecordBatch,
  first: number,
  cuts: readonly number[],
): Generator<Piece<RecordBatch>> {
  for (let from = 0; from < batch.numRows; ) {
    const cut = cuts.find((trace) => trace > first + from) ?? Number.POSITIVE_INFINITY;
    const to = Math.min(batch.numRows, cut - first);
    yield { unit: batch, from, to };
    from = to;
  }
}

/** A file without a name: it is gone with the process, whatever ends that. */
async function openSpill(besides: string): Promise<{ readonly file: FileHandle; readonly path: string }> {
  const path = `${besides}.${randomBytes(4).toString('hex')}.tmp`;
  try {
    const file = await open(path, 'wx+');
    await rm(path, { force: true });
    return { file, path };
  } catch (error) {
    throw fileError(error, path, 'written');
  }
}

async function writeSpill(
  file: FileHandle,
  bytes: Uint8Array,
  position: number,
  path: string,
): Promise<void> {
  try {
    await writeWhole(file, bytes, position);
  } catch (error) {
    throw fileError(error, path, 'written');
  }
}

/** Lines of a JSONL chunk. */
export interface Lines {
  readonly bytes: Uint8Array;
  /** (traces + 1) where each begins, and the end of the last */
  readonly starts: readonly number[];
}

const NEWLINE = 10;

/** Rows of JSONL chunks: lines as they are, from the chunks themselves, or from a temporary file where these are compressed. */
export function openLineSource(besides: string): ChunkSource<Lines> {
  return {
    header: { schema: new Schema([]), metadata: {} },
    openStripe: async () => {
      let spill: Awaited<ReturnType<typeof openSpill>> | undefined;
      let end = 0;
      async function keep(chunk: Buffer): Promise<void> {
        spill ??= await openSpill(besides);
        await writeSpill(spill.file, chunk, end, besides);
        end += chunk.length;
      }
      return {
        parts(path, cuts) {
          const isCompressed = path.toLowerCase().endsWith('.gz');
          return lineParts(path, cuts, isCompressed ? end : 0, isCompressed ? keep : undefined);
        },
        load: (part) => loadLines(part, spill?.file),
        compression: 1,
        close: async () => spill?.file.close(),
      };
    },
    close: async () => {},
  };
}

/** @param offset of the chunk's first byte in the file that parts lie in */
async function lineParts(
  path: string,
  cuts: readonly number[],
  offset: number,
  keep: ((chunk: Buffer) => Promise<void>) | undefined,
): Promise<Part[]> {
  const parts: Part[] = [];
  let position = offset;
  let begin = offset;
  let traces = 0;
  let before = 0;
  let cut = 0;
  for await (const chunk of readLines(path)) {
    await keep?.(chunk);
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, at + 1)) {
      const end = position + at + 1;
      traces++;
      while ((cuts[cut] ?? Number.POSITIVE_INFINITY) < traces) cut++;
      if (cuts[cut] !== traces && end - begin < BATCH_BYTES) continue;
      parts.push({ path, offset: begin, length: end - begin, traces: traces - before });
      begin = end;
      before = traces;
    }
    position += chunk.length;
  }
  if (begin < position)
    parts.push({ path, offset: begin, length: position - begin, traces: traces - before });
  return parts;
}

/** @param spill where the lines are; undefined: in the chunk itself */
async function loadLines({ path, offset, length }: Part, spill: FileHandle | undefined): Promise<Lines> {
  const file = spill ?? (await open(path, 'r'));
  try {
    const bytes = await readWhole(file, Buffer.alloc(length), offset, path);
    const starts = [0];
    for (let at = bytes.indexOf(NEWLINE); at >= 0; at = bytes.indexOf(NEWLINE, at + 1)) starts.push(at + 1);
    return { bytes, starts };
  } finally {
    if (spill === undefined) await file.close();
  }
}
