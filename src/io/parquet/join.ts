// Joins Parquet files of the same columns: pages are copied, not decoded.
import { open } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import { usageError } from '../../errors.js';
import type { AtomicFile } from '../files/atomic-file.js';
import { MAX_ROW_GROUPS } from '../files/chunks.js';
import { readWhole } from '../files/file-bytes.js';
import { HASH_KEY, UNSEALED } from '../files/seal.js';
import { readFooter } from './footer.js';
import { FILE, footerOf, GROUP, groupRange, MAGIC, movedGroup, PAIR } from './part.js';
import {
  integer,
  structList,
  structs,
  THRIFT,
  type ThriftStruct,
  type ThriftValue,
  text,
  writeThrift,
} from './thrift.js';

const COPIED_BYTES = 4 * 2 ** 20;

/** A file that others are put into, one after the other. */
export interface JoinedParquet {
  /** @returns its rows */
  add(path: string): Promise<number>;
  /** writes the footer and makes the file visible */
  close(): Promise<null>;
}

/**
 * @param metadataFor what the file says of itself, where the first of those that are put into it says something of itself
 * @param onProgress called every few megabytes; may throw to stop
 */
export async function joinParquet(
  file: AtomicFile,
  metadataFor: (first: ReadonlyMap<string, string>) => Readonly<Record<string, string>>,
  onProgress: () => void,
): Promise<JoinedParquet> {
  let first: { readonly path: string; readonly footer: ThriftStruct; readonly columns: Buffer } | undefined;
  const groups: ThriftStruct[] = [];
  let [end, rows] = [MAGIC.length, 0];
  await file.write(MAGIC);

  async function copy(path: string, from: number, to: number): Promise<void> {
    await using source = await open(path, 'r');
    for (let at = from; at < to; at += COPIED_BYTES) {
      onProgress();
      const bytes = new Uint8Array(Math.min(COPIED_BYTES, to - at));
      await file.write(await readWhole(source, bytes, at, path));
    }
    end += to - from;
  }
  return {
    async add(path) {
      const { footer, ranges, count } = await readFooter(path, (footer, size) => {
        const own = structs(footer, FILE.groups);
        const ranges = own.map((group, n) => ({ group, ...groupRange(group, n, path, size) }));
        return { footer, ranges, count: Number(integer(footer, FILE.rows)) };
      });
      const columns = writeThrift(new Map([[FILE.schema, footer.get(FILE.schema) as ThriftValue]]));
      first ??= { path, footer, columns };
      if (!columns.equals(first.columns)) throw new Error(`${path} has other columns than ${first.path}`);
      if (!isDeepStrictEqual(metadataOf(footer), metadataOf(first.footer)))
        throw new Error(`${path} is of another run than ${first.path}`);
      if (groups.length + ranges.length > MAX_ROW_GROUPS)
        throw usageError(
          `${file.path}: a Parquet file of over ${MAX_ROW_GROUPS} row groups cannot be written`,
          '-o all/, for files of 1GiB',
        );
      for (const { group, start, end: groupEnd } of ranges) {
        if (Number(integer(group, GROUP.rows)) === 0) continue;
        groups.push(movedGroup(group, end - start));
        await copy(path, start, groupEnd);
      }
      rows += count;
      return count;
    },
    async close() {
      if (first === undefined) throw new Error(`${file.path}: there is no file to join`);
      await file.write(
        footerOf(unsealed(first.footer, metadataFor(metadataOf(first.footer))), groups, BigInt(rows)),
      );
      await file.flush();
      const found = await readFooter(file.temporaryPath, (footer) => Number(integer(footer, FILE.rows)));
      if (found !== rows)
        throw new Error(`${file.path}: ${rows} rows were copied, its footer counts ${found}`);
      await file.commit();
      return null;
    },
  };
}

/** A footer's metadata but for the file's own hash, by key. */
function metadataOf(footer: ThriftStruct): ReadonlyMap<string, string> {
  const pairs = footer.has(FILE.keyValues) ? structs(footer, FILE.keyValues) : [];
  const all = pairs.map((pair) => [text(pair, PAIR.key), text(pair, PAIR.value)] as const);
  return new Map(all.filter(([key]) => key !== HASH_KEY));
}

/** The footer with these metadata, and a place for the hash of the file that it ends. */
function unsealed(footer: ThriftStruct, metadata: Readonly<Record<string, string>>): ThriftStruct {
  const binary = (value: string): ThriftValue => ({ type: THRIFT.binary, value: Buffer.from(value) });
  const pairs = Object.entries({ ...metadata, [HASH_KEY]: UNSEALED }).map(
    ([key, value]): ThriftStruct =>
      new Map([
        [PAIR.key, binary(key)],
        [PAIR.value, binary(value)],
      ]),
  );
  return new Map(footer).set(FILE.keyValues, structList(pairs));
}
