// Ranges of Arrow record batches in, one batch with copies of their rows out, in the order of the ranges.
import { type Data, DataType, type Field, makeData, RecordBatch, type Schema, Struct } from 'apache-arrow';

/** Rows `from` to `to`, exclusive, of something that holds rows. */
export interface Piece<T> {
  readonly unit: T;
  readonly from: number;
  readonly to: number;
}

/** Puts rows of batches of one schema together. */
export function gatherRows(schema: Schema, pieces: readonly Piece<RecordBatch>[]): RecordBatch {
  const length = countRows(pieces);
  const children = schema.fields.map((field, n) =>
    gather(
      field,
      pieces.map(({ unit, from, to }) => ({ unit: unit.data.children[n] as Data, from, to })),
    ),
  );
  const type = new Struct(schema.fields);
  return new RecordBatch(schema, makeData({ type, length, nullCount: 0, children }));
}

type Pieces = readonly Piece<Data>[];
/** What `makeData` takes for a type that is known only at run time. */
type AnyProps = Parameters<typeof makeData>[0];

function gather({ type, name }: Pick<Field, 'type' | 'name'>, pieces: Pieces): Data {
  const length = countRows(pieces);
  const base = { type, length, ...validity(pieces, length) };
  const build = (parts: object): Data => makeData({ ...base, ...parts } as AnyProps);
  const children = (ranges: (field: number) => Pieces): Data[] =>
    (type.children as Field[]).map((field, n) => gather(field, ranges(n)));

  if (DataType.isNull(type)) return makeData({ type, length });
  if (DataType.isStruct(type))
    return build({
      children: children((n) => pieces.map((piece) => ({ ...piece, unit: piece.unit.children[n] as Data }))),
    });
  if (DataType.isFixedSizeList(type)) {
    const { listSize } = type;
    const items = pieces.map(({ unit, from, to }) => ({
      unit: unit.children[0] as Data,
      from: from * listSize,
      to: to * listSize,
    }));
    return build({ child: children(() => items)[0] });
  }
  if (DataType.isList(type) || DataType.isMap(type)) {
    const { valueOffsets, ranges } = gatherOffsets(pieces, length);
    const items = ranges.map(({ unit, from, to }) => ({ unit: unit.children[0] as Data, from, to }));
    return build({ valueOffsets, child: children(() => items)[0] });
  }
  if (DataType.isUtf8(type) || DataType.isBinary(type)) {
    const { valueOffsets, ranges } = gatherOffsets(pieces, length);
    const data = new Uint8Array(valueOffsets[length] as number);
    copyRanges(data, ranges, 1);
    return build({ valueOffsets, data });
  }
  if (DataType.isBool(type)) return build({ data: gatherBits(pieces, length, ({ values }) => values) });
  if (hasOtherLayout(type))
    throw new Error(`column ${name}: ${type} cannot be merged, expected a plain type`);

  // fixed width: so many array items a value
  const first = pieces[0]?.unit;
  const stride = first?.stride ?? 1;
  const data = new type.ArrayType(length * stride) as Uint8Array;
  copyRanges(data, pieces, stride);
  return build({ data });
}

function hasOtherLayout(type: DataType): boolean {
  return (
    DataType.isDictionary(type) ||
    DataType.isUnion(type) ||
    DataType.isLargeUtf8(type) ||
    DataType.isLargeBinary(type) ||
    DataType.isLargeList(type) ||
    DataType.isUtf8View(type) ||
    DataType.isBinaryView(type)
  );
}

function countRows(pieces: readonly Piece<unknown>[]): number {
  return pieces.reduce((sum, { from, to }) => sum + to - from, 0);
}

/** Offsets that begin at 0, and the ranges of items that they stand for. */
function gatherOffsets(pieces: Pieces, length: number): { valueOffsets: Int32Array; ranges: Piece<Data>[] } {
  const valueOffsets = new Int32Array(length + 1);
  const ranges: Piece<Data>[] = [];
  let at = 0;
  let end = 0;
  for (const { unit, from, to } of pieces) {
    const offsets = unit.valueOffsets as Int32Array;
    const first = offsets[from] as number;
    for (let i = from; i < to; i++) valueOffsets[++at] = end + (offsets[i + 1] as number) - first;
    ranges.push({ unit, from: first, to: offsets[to] as number });
    end += (offsets[to] as number) - first;
    if (end > 2 ** 31 - 1) throw new Error('a merged batch holds over 2 GiB of one column');
  }
  return { valueOffsets, ranges };
}

function copyRanges(into: Uint8Array, ranges: Pieces, stride: number): void {
  let at = 0;
  for (const { unit, from, to } of ranges) {
    const values = (unit.values as Uint8Array).subarray(from * stride, to * stride);
    into.set(values, at);
    at += values.length;
  }
}

function validity(pieces: Pieces, length: number): { nullCount: number; nullBitmap: Uint8Array | null } {
  if (pieces.every(({ unit }) => unit.nullCount === 0)) return { nullCount: 0, nullBitmap: null };
  let nullCount = 0;
  for (const { unit, from, to } of pieces)
    if (unit.nullCount > 0) for (let i = from; i < to; i++) if (!bit(unit.nullBitmap, i)) nullCount++;
  if (nullCount === 0) return { nullCount, nullBitmap: null };
  const nullBitmap = gatherBits(pieces, length, (unit) => (unit.nullCount > 0 ? unit.nullBitmap : null));
  return { nullCount, nullBitmap };
}

/** One bit a value, lowest first. @param bitmap of a piece; null: all are set */
function gatherBits(
  pieces: Pieces,
  length: number,
  bitmap: (unit: Data) => Uint8Array | null | undefined,
): Uint8Array {
  const bits = new Uint8Array((length + 7) >> 3);
  let at = 0;
  for (const { unit, from, to } of pieces) {
    const source = bitmap(unit);
    for (let i = from; i < to; i++, at++)
      if (bit(source, i)) bits[at >> 3] = (bits[at >> 3] as number) | (1 << (at & 7));
  }
  return bits;
}

function bit(bitmap: Uint8Array | null | undefined, i: number): boolean {
  return bitmap === null || bitmap === undefined || (((bitmap[i >> 3] as number) >> (i & 7)) & 1) === 1;
}
