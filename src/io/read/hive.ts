// Keys in the names of folders, `step=3/part.parquet`: columns of all rows below, as Hive, Spark, DuckDB and pyarrow have them.
import { usageError } from '../../errors.js';
import { count } from '../../plural.js';
import type { RowOptions } from '../../rows.js';
import type { PassThroughColumn } from '../arrow/schema.js';

/** A key and its value in one input: int64 where no input has anything else. */
export interface HiveKey extends PassThroughColumn {
  readonly value: string | number | bigint | null;
}

const NULL = '__HIVE_DEFAULT_PARTITION__';

/** The keys of each path: what one of them has all have, so that their rows have the same columns. */
export function hiveKeys(paths: readonly string[]): HiveKey[][] {
  const found = paths.map((path) => {
    const folders = path.matchAll(/(?<=^|\/)([^/=]+)=([^/]*)\//g);
    return new Map(Array.from(folders, ([, name = '', value = '']) => [decoded(name), decoded(value)]));
  });
  const columns = Array.from(new Set(found.flatMap((keys) => [...keys.keys()])), (name) => {
    const texts = found.map((keys) => keys.get(name) ?? NULL);
    const kind = texts.every(isWhole) ? 'int64' : 'string';
    return texts.map((text): HiveKey => {
      const whole = Number.isSafeInteger(Number(text)) ? Number : BigInt;
      const value = text === NULL ? null : kind === 'int64' ? whole(text) : text;
      return { name, as: name, type: { kind }, value };
    });
  });
  return paths.map((_, n) => columns.flatMap((column) => column[n] ?? []));
}

/** As many digits as any number of 64 bits can have. */
const isWhole = (text: string): boolean => text === NULL || /^-?\d{1,18}$/.test(text);

const decoded = (text: string): string =>
  text.replaceAll(/(?:%[0-9a-f]{2})+/gi, (bytes) => Buffer.from(bytes.replaceAll('%', ''), 'hex').toString());

/** Each is a file, at the least. */
const [MOST_FOLDERS, LONGEST_NAME] = [1000, 255];

/** As pyarrow has it. */
const escaped = (char: string) => Buffer.from(char).toString('hex').toUpperCase().replaceAll(/../g, '%$&');
const encoded = (text: string) => text.replaceAll(/[^\w.~-]/gu, escaped);

/** Names the folders of rows by what they have in a column. @throws RredcotError (exit 2) for what names none, and too many of them */
export function hiveFolders(column: string) {
  const names = new Map<unknown, string>();
  let first: string | undefined;
  return (value: unknown = null): string => {
    const name = names.get(value) ?? `${encoded(column)}=${value === null ? NULL : encoded(`${value}`)}`;
    names.set(value, name);
    const kind = Number.isSafeInteger(value) ? 'bigint' : typeof value;
    if (value !== null) first ??= kind;
    const isKey = kind === first && (kind === 'bigint' || kind === 'string');
    const isNamed = isKey && value !== NULL && name.length <= LONGEST_NAME;
    if ((value === null || isNamed) && names.size <= MOST_FOLDERS) return name;
    const wrong = `has ${String(value).slice(0, 80)}, expected whole numbers alone, or texts that can name a folder`;
    const many = `has more than ${count(MOST_FOLDERS)} values, each of which would be a folder`;
    throw usageError(
      `--partition ${column}: the column ${names.size > MOST_FOLDERS ? many : wrong}`,
      '--partition <another column>, or none',
    );
  };
}

/** Gives rows the keys that they have no column of, and tells of the others. */
export function besideRows(
  keys: readonly HiveKey[],
  file: string,
  onLoss: RowOptions['onLoss'],
): RowOptions['beside'] {
  if (keys.length === 0) return undefined;
  return (columns) =>
    keys.flatMap(({ name, value }) => {
      if (!columns.includes(name)) return [[name, value]];
      onLoss?.(
        'hive_key',
        `${file}: "${name}" is a key of its folder and a column of its rows, which is taken`,
      );
      return [];
    });
}
