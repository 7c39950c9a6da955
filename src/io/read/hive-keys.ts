// Hive keys in the paths of inputs in (`step=3/part-0.parquet`), columns out that are the same in all rows of a file.
import { dirname } from 'node:path';

/** What stands for a null in such a path. */
const NULL = '__HIVE_DEFAULT_PARTITION__';

/** Names and values, which are text. */
export type HiveKeys = Readonly<Record<string, string | null>>;

/** The keys of a path as it was given. */
export function hiveKeys(path: string): HiveKeys {
  const pairs = dirname(path)
    .split('/')
    .flatMap((folder) => /^([^=]+)=(.*)$/.exec(folder)?.slice(1, 3).map(unescaped) ?? []);
  const keys: Record<string, string | null> = {};
  for (let n = 0; n < pairs.length; n += 2) {
    const value = pairs[n + 1] as string;
    keys[pairs[n] as string] = value === NULL ? null : value;
  }
  return keys;
}

/** Inputs with the keys of their paths as columns, each with the keys of all: one that a path lacks is null. */
export function withHiveKeys<T extends { readonly path: string }>(
  inputs: readonly T[],
): (T & { readonly keys: HiveKeys })[] {
  const all = inputs.flatMap(({ path }) => Object.keys(hiveKeys(path)));
  const none = Object.fromEntries(all.map((name) => [name, null]));
  return inputs.map((input) => ({ ...input, keys: { ...none, ...hiveKeys(input.path) } }));
}

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
