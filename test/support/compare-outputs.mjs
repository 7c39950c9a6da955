// Reads two output folders, Parquet, Arrow and JSONL, and finds where their schemas or values differ, bit for bit.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { Type, tableFromIPC, Vector } from 'apache-arrow';
import { parquetMetadata, parquetReadObjects } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';

/** The kinds of data files, the longest endings first; all else in a folder (cards) is not compared. */
const READERS = [
  ['.parquet', readParquet],
  ['.arrow', readArrow],
  ['.arrows', readArrow],
  ['.jsonl', (bytes) => readLines(bytes)],
  ['.jsonl.gz', (bytes) => readLines(gunzipSync(bytes))],
];

/** The first difference of two folders, null where there is none, and the number of rows compared. */
export async function compareFolders(before, after) {
  const [old, now] = await Promise.all([readFolder(before), readFolder(after)]);
  const names = [[...old.keys()].join(', '), [...now.keys()].join(', ')];
  if (names[0] !== names[1]) return { first: `files: ${names[0]} before, ${names[1]} now`, rows: 0 };
  let rows = 0;
  for (const [name, data] of old) {
    const other = now.get(name);
    rows += data.rows.length;
    const first = compareSchemas(data.schema, other.schema) ?? compareRows(data.rows, other.rows);
    if (first !== null) return { first: `${name}: ${first}`, rows };
  }
  return { first: null, rows };
}

/** Data sets by name; a folder of several files is one, of the rows of all. */
async function readFolder(folder) {
  const sets = new Map();
  const paths = readdirSync(folder, { recursive: true }).filter((path) =>
    statSync(join(folder, path)).isFile(),
  );
  for (const path of paths.sort()) {
    const [, read] = READERS.find(([ending]) => path.endsWith(ending)) ?? [];
    if (read === undefined) continue;
    const name = path.replace(/\/.*?(\.rejects)?(\.\w+)$/, '/*$1$2');
    const { schema, rows } = await read(readFileSync(join(folder, path)));
    const set = sets.get(name);
    if (set === undefined) sets.set(name, { schema, rows });
    else set.rows = [...set.rows, ...rows];
    const odd = set && compareSchemas(set.schema, schema);
    if (odd) throw new Error(`${folder}/${path}: its columns are not those of the files before it: ${odd}`);
  }
  return sets;
}

function readLines(bytes) {
  const lines = bytes.toString().split('\n');
  if (lines.pop() !== '') throw new Error('the last line has no end');
  return { schema: [], rows: lines };
}

/** Values as they are stored: without the logical types, whose conversions lose digits; only lists and maps stay. */
async function readParquet(file) {
  const bytes = file.buffer.slice(file.byteOffset, file.byteOffset + file.byteLength);
  const metadata = parquetMetadata(bytes);
  const schema = metadata.schema.slice(1).map((element) => plain(element));
  const embedded = metadata.key_value_metadata?.find(({ key }) => key === 'ARROW:schema')?.value;
  if (embedded) {
    schema.push(
      ...tableFromIPC(Buffer.from(embedded, 'base64')).schema.fields.map(
        (field) => `as Arrow ${describe(field)}`,
      ),
    );
  }
  for (const element of metadata.schema) {
    if (element.converted_type === 'LIST' || element.converted_type === 'MAP') continue;
    delete element.converted_type;
    delete element.logical_type;
  }
  return { schema, rows: await parquetReadObjects({ file: bytes, metadata, compressors, utf8: false }) };
}

const plain = (value) => JSON.stringify(value, (_, each) => (typeof each === 'bigint' ? `${each}` : each));

function readArrow(bytes) {
  const { schema, batches } = tableFromIPC(bytes);
  const rows = batches.flatMap(({ data }) =>
    Array.from({ length: data.length }, (_, i) =>
      Object.fromEntries(schema.fields.map(({ name }, c) => [name, storedValue(data.children[c], i)])),
    ),
  );
  return { schema: schema.fields.map(describe), rows };
}

/** A field with all that its type's own text leaves out. */
function describe({ name, type, nullable, metadata }) {
  const children = (type.children ?? []).map(describe).join(', ');
  const more = [nullable ? '' : 'required', type.isOrdered ? 'ordered' : '', plain([...metadata])].join(' ');
  return `${name}: ${type} ${more}${children === '' ? '' : ` of (${children})`}`;
}

/** A value as its buffers hold it; apache-arrow's own getters round decimals, times and half floats. */
function storedValue(data, i) {
  const { type, values, valueOffsets: offsets, children, stride } = data;
  if (data.offset !== 0) throw new Error('a buffer with an offset, which no file has');
  if (type.typeId === Type.Null || !data.getValid(i)) return null;
  const range = (from, to, child) =>
    Array.from({ length: to - from }, (_, k) => storedValue(child, from + k));
  switch (type.typeId) {
    case Type.Struct:
      return Object.fromEntries(type.children.map(({ name }, c) => [name, storedValue(children[c], i)]));
    case Type.List:
    case Type.LargeList:
    case Type.Map:
      return range(Number(offsets[i]), Number(offsets[i + 1]), children[0]);
    case Type.FixedSizeList:
      return range(i * type.listSize, (i + 1) * type.listSize, children[0]);
    case Type.Union: {
      const c = type.typeIdToChildIndex[data.typeIds[i]];
      return {
        type: c,
        value: storedValue(children[c], offsets === undefined || offsets.length === 0 ? i : offsets[i]),
      };
    }
    case Type.Dictionary: {
      const part = data.dictionary.data.length === 1 ? data.dictionary.data[0] : null;
      if (part === null) throw new Error('a dictionary in several parts');
      return storedValue(part, Number(values[i]));
    }
    case Type.Bool:
      return ((values[i >> 3] >> (i & 7)) & 1) === 1;
    case Type.Utf8:
    case Type.LargeUtf8:
    case Type.Binary:
    case Type.LargeBinary:
      return values.subarray(Number(offsets[i]), Number(offsets[i + 1]));
    case Type.Utf8View:
    case Type.BinaryView:
      return new Vector([data]).get(i);
    default:
      return stride === 1 ? values[i] : values.subarray(i * stride, (i + 1) * stride);
  }
}

function compareSchemas(before, after) {
  const at = Array.from({ length: Math.max(before.length, after.length) }).findIndex(
    (_, i) => before[i] !== after[i],
  );
  return at < 0 ? null : `column types: ${before[at] ?? 'none'}\nnow ${after[at] ?? 'none'}`;
}

/** The first difference, and of how many values how large they are: the last bits of sums tell a batch from an error. */
function compareRows(before, after) {
  if (before.length !== after.length) return `${before.length} rows before, ${after.length} now`;
  const found = { first: null, count: 0, greatest: 0, other: 0 };
  for (const [i, row] of before.entries()) compareValues(row, after[i], `row ${i}`, found);
  if (found.first === null) return null;
  const numbers = `numbers differ by ${found.greatest.toPrecision(2)} of the greater or 1 at most`;
  return `${found.first}\n${found.count} values differ, ${found.other} of them not numbers; ${numbers}`;
}

function compareValues(before, after, path, found) {
  if (typeof before === 'string' && before !== after && before.startsWith('{') && after?.startsWith?.('{')) {
    const count = found.count;
    compareValues(JSON.parse(before), JSON.parse(after), path, found); // lines of JSONL: where in the line
    if (found.count === count) note(before, after, `${path}, as text`, found);
  } else if (isNested(before) && isNested(after)) {
    const keys = [Object.keys(before), Object.keys(after)];
    if (
      keys[0].length !== keys[1].length ||
      (!ArrayBuffer.isView(before) && keys[0].join() !== keys[1].join())
    ) {
      note(before, after, path, found);
    } else for (const key of keys[0]) compareValues(before[key], after[key], `${path}.${key}`, found);
  } else if (!Object.is(before, after)) note(before, after, path, found);
}

const isNested = (value) => typeof value === 'object' && value !== null;

function note(before, after, path, found) {
  found.first ??= `${path}: ${show(before)} before, ${show(after)} now`;
  found.count += 1;
  if (typeof before === 'number' && typeof after === 'number') {
    const size = Math.max(Math.abs(before), Math.abs(after), 1);
    found.greatest = Math.max(found.greatest, Math.abs(before - after) / size);
  } else found.other += 1;
}

function show(value) {
  const text = value instanceof Uint8Array ? Buffer.from(value).toString() : (plain(value) ?? String(value));
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}
