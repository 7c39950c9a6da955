// Rows of JSON files in, blocks of their bytes out, to be parsed elsewhere; a block in, its rows out.
import { fileStem, type Input, jsonBytes, type ReadOptions } from './inputs.js';
import { parsePiece, type RowPiece, readJsonPieces } from './jsonl.js';
import { mendedRow } from './mended-row.js';
import { type BadRow, type InputRow, isBad } from './rows.js';

/** Rows of one file that follow each other among those that are wanted. It can be handed to another thread. */
export interface RowBlock {
  readonly file: string;
  readonly stem: string;
  /** (B) the rows' bytes, one after the other */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** (R, 5) of each row: see `FIELDS` */
  readonly places: Float64Array<ArrayBuffer>;
}

/** Where a row's bytes end in the block; length and offset in the file; number in the file and over all inputs. */
const FIELDS = 5;
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
  for (const input of inputs) {
    const place = { file: input.path, stem: input.stem };
    const pieces = readJsonPieces(jsonBytes(input, opts), { ...opts, ...place, wanted, firstOrdinal: rows });
    let open: RowPiece[] = [];
    let openBytes = 0;
    let chunk = -1;
    const close = (): RowBlock => {
      const block = packed(open, openBytes, place);
      open = [];
      openBytes = 0;
      return block;
    };
    for await (const piece of pieces) {
      const next = chunkOf(piece.ordinal);
      if (open.length > 0 && (next !== chunk || isBad(piece))) yield close();
      chunk = next;
      if (isBad(piece)) {
        yield piece;
        continue;
      }
      open.push(piece);
      openBytes += piece.bytes.length;
      if (openBytes >= BLOCK_BYTES) yield close();
    }
    if (open.length > 0) yield close();
  }
}

function packed(
  pieces: readonly RowPiece[],
  length: number,
  place: Pick<RowBlock, 'file' | 'stem'>,
): RowBlock {
  // not from Node's pool, which others use too: the memory goes to another thread
  const bytes = Buffer.allocUnsafeSlow(length);
  const places = new Float64Array(FIELDS * pieces.length);
  let end = 0;
  for (const [n, piece] of pieces.entries()) {
    bytes.set(piece.bytes, end);
    end += piece.bytes.length;
    places.set([end, piece.length, piece.offset, piece.row, piece.ordinal], FIELDS * n);
  }
  return { ...place, bytes: new Uint8Array(bytes.buffer), places };
}

/** Parses a block's rows. */
export function* rowsOfBlock(
  { file, stem, bytes, places }: RowBlock,
  maxLineBytes: number | undefined,
): Generator<InputRow | BadRow> {
  const buffer = Buffer.from(bytes.buffer);
  let from = 0;
  for (let n = 0; n < places.length; n += FIELDS) {
    const [end, length, offset, row, ordinal] = places.subarray(n, n + FIELDS) as unknown as Place;
    const piece = { bytes: buffer.subarray(from, end), length, offset, row, ordinal };
    const found = parsePiece(piece, { file, stem, maxLineBytes });
    yield isBad(found) ? found : mendedRow(found, fileStem);
    from = end;
  }
}

type Place = [end: number, length: number, offset: number, row: number, ordinal: number];

/** The number over all inputs of a block's first row. */
export function firstOrdinalOf({ places }: RowBlock): number {
  return places[FIELDS - 1] as number;
}
