// Rows of JSON files in, blocks of their bytes out, to be parsed elsewhere; a block in, its rows out.
import { fileStem, type Input, jsonBytes, type ReadOptions } from './inputs.js';
import { parsePiece, type RowPiece, readJsonPieces } from './jsonl.js';
import { mendedRow } from './mended-row.js';
import { type BadRow, type InputRow, isBad } from './rows.js';

/** Rows that follow each other among those that are wanted. It can be handed to another thread. */
export interface RowBlock {
  /** the files that rows of it are from */
  readonly files: readonly RowFile[];
  /** (B) the rows' bytes, one after the other */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** (R, 6) of each row, see {@link Place} */
  readonly places: Float64Array<ArrayBuffer>;
}

type RowFile = Pick<Input, 'path' | 'stem'>;

/** Of a row: which of the block's files it is from, where its bytes end in the block, then as in `RowPiece`. */
type Place = [file: number, end: number, length: number, offset: number, row: number, ordinal: number];
const FIELDS = 6;
/** A block is closed by the row that makes it so large. */
const BLOCK_BYTES = 2 * 2 ** 20;

export interface BlockOptions extends ReadOptions {
  /** the chunk that a row, by its number over all inputs, belongs to: a block lies in one */
  readonly chunkOf: (ordinal: number) => number;
}

/** Reads files of JSON. Where blocks end depends on the rows of a chunk alone, not on where reading began. */
export async function* readBlocks(
  inputs: readonly Input[],
  { chunkOf, ...opts }: BlockOptions,
): AsyncGenerator<RowBlock | BadRow> {
  let rows = 0; // of all inputs so far
  const wanted = (ordinal: number): boolean => {
    rows = ordinal + 1;
    return opts.wanted?.(ordinal) ?? true;
  };
  let open = new OpenBlock();
  const close = (): RowBlock => {
    const block = open.packed();
    open = new OpenBlock();
    return block;
  };
  let chunk = -1;
  for (const input of inputs) {
    const place = { file: input.path, stem: input.stem, firstOrdinal: rows };
    for await (const piece of readJsonPieces(jsonBytes(input, opts), { ...opts, ...place, wanted })) {
      const next = chunkOf(piece.ordinal);
      if (!open.isEmpty && (next !== chunk || isBad(piece))) yield close();
      chunk = next;
      if (isBad(piece)) {
        yield piece;
        continue;
      }
      open.add(piece, input);
      if (open.bytes >= BLOCK_BYTES) yield close();
    }
  }
  if (!open.isEmpty) yield close();
}

/** Gathers the rows of a block. */
class OpenBlock {
  bytes = 0;
  readonly #files: RowFile[] = [];
  readonly #pieces: RowPiece[] = [];
  readonly #places: number[] = [];

  get isEmpty(): boolean {
    return this.#pieces.length === 0;
  }

  add(piece: RowPiece, { path, stem }: Input): void {
    if (this.#files.at(-1)?.path !== path) this.#files.push({ path, stem });
    this.#pieces.push(piece);
    this.bytes += piece.bytes.length;
    const { length, offset, row, ordinal } = piece;
    this.#places.push(this.#files.length - 1, this.bytes, length, offset, row, ordinal);
  }

  packed(): RowBlock {
    // not from Node's pool, which others use too: the memory goes to another thread
    const bytes = Buffer.allocUnsafeSlow(this.bytes);
    let at = 0;
    for (const piece of this.#pieces) {
      bytes.set(piece.bytes, at);
      at += piece.bytes.length;
    }
    return {
      files: this.#files,
      bytes: new Uint8Array(bytes.buffer),
      places: Float64Array.from(this.#places),
    };
  }
}

/** Parses a block's rows. */
export function* rowsOfBlock(
  { files, bytes, places }: RowBlock,
  maxLineBytes: number | undefined,
): Generator<InputRow | BadRow> {
  const buffer = Buffer.from(bytes.buffer);
  let from = 0;
  for (let n = 0; n < places.length; n += FIELDS) {
    const [file, end, length, offset, row, ordinal] = places.subarray(n, n + FIELDS) as unknown as Place;
    const piece = { bytes: buffer.subarray(from, end), length, offset, row, ordinal };
    const { path, stem } = files[file] as RowFile;
    const found = parsePiece(piece, { file: path, stem, maxLineBytes });
    yield isBad(found) ? found : mendedRow(found, fileStem);
    from = end;
  }
}

/** The number over all inputs of a block's first row. */
export function firstOrdinalOf({ places }: RowBlock): number {
  const [, , , , , ordinal] = places as unknown as Place;
  return ordinal;
}
