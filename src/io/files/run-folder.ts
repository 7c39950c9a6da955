// A run's folder: how input rows are cut into parts, which shard makes which of them, and where each file stands.
import { createHash } from 'node:crypto';
import { homedir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { count } from '../../plural.js';
import { isStored } from './files.js';

/** Part k belongs to shard k mod count. */
export interface Shard {
  readonly index: number;
  readonly count: number;
}

/** The only shard of a run that is not split. */
export const WHOLE: Shard = { index: 0, count: 1 };

/** Parts of a run at most: as many as their names have digits for, so that they sort in their order. */
export const MAX_PARTS = 100_000;

/** And so many where the user does not say: small files cost every reader time. */
const MOST_PARTS = 32_768;

/** Input rows whose traces may share runs of the policy; a part holds whole windows, so its bytes depend on no other. */
const WINDOW_ROWS = 64;

/** Rows of so many bytes in the mean fill a window together; of longer ones it has fewer, the fewer the less they share a run. */
const SHORT_ROW_BYTES = 2 ** 11;

/** A run has about so many parts, so that as many processes have work, until a part would be larger than a death may cost. */
const PARTS = {
  // minutes of a policy
  policy: { count: 32, mostRows: 512 },
  // half a minute where a row takes a fraction of a millisecond
  none: { count: 8, mostRows: 16_384 },
} as const;

/**
 * Rows a part where the user does not say.
 *
 * A policy's work on a row grows faster than its length, up to the square of it. So a part of rows of k times the short length has
 * k² times fewer, down to one: ten long traces are ten parts, and as many shards have work. All parts have the same number of
 * rows, so that the part of a row follows from its number alone.
 * @param rows of all inputs
 * @param rowBytes their mean length in the inputs; undefined where a part is to hold whole groups, however long they are
 */
export function defaultRowsPerPart(rows: number, hasPolicy: boolean, rowBytes: number | undefined): number {
  const { count, mostRows } = hasPolicy ? PARTS.policy : PARTS.none;
  const isLong = hasPolicy && rowBytes !== undefined && rowBytes > SHORT_ROW_BYTES;
  const share = isLong ? (SHORT_ROW_BYTES / rowBytes) ** 2 : 1;
  const window = Math.max(1, Math.floor(WINDOW_ROWS * share));
  const windows = Math.max(1, Math.ceil(rows / count / window));
  const own = Math.min(Math.max(1, Math.floor(mostRows * share)), windows * window);
  return Math.max(own, window * Math.ceil(rows / MOST_PARTS / window));
}

/** Of a stream, whose rows nobody has counted: its windows alone follow from it. */
export const ROWS_OF_STREAM = PARTS.none.mostRows;

/**
 * The part of an input row.
 * @param ordinal number of the row over all inputs
 * @param parts of the run, of which the last one takes what is left: a stream, and what is made of stored rows, is one part however many rows it has
 */
export function partOfRow(ordinal: number, rowsPerPart: number, parts = Number.POSITIVE_INFINITY): number {
  return Math.min(Math.floor(ordinal / rowsPerPart), parts - 1);
}

/** The window of an input row: a number that grows from window to window, and never spans two parts. */
export function windowOf(ordinal: number, rowsPerPart: number): number {
  const windowsPerPart = Math.ceil(rowsPerPart / WINDOW_ROWS);
  const inPart = Math.floor((ordinal % rowsPerPart) / WINDOW_ROWS);
  return partOfRow(ordinal, rowsPerPart) * windowsPerPart + inPart;
}

/** Parts of a run; one without any row where there is none. @param rows of all inputs */
export function partCount(rows: number, rowsPerPart: number): number {
  return Math.max(1, Math.ceil(rows / rowsPerPart));
}

const PART = /^part-(\d{5})\.(parquet|arrow|jsonl)$/;

function nameOf(part: number): string {
  return `part-${String(part).padStart(5, '0')}`;
}

/** The number of a part, by the name of its file; undefined for other files. */
export function partNumber(name: string): number | undefined {
  const [, digits] = PART.exec(name) ?? [];
  return digits === undefined ? undefined : Number(digits);
}

/** Where the files of a run stand. @param folder on this machine, or an address */
export function runPaths(folder: string) {
  const root = folder.replace(/(?<=.)\/+$/, '');
  return {
    run: `${root}/_run.json`,
    /** where hubs and loaders look for a dataset's card */
    card: `${root}/README.md`,
    rejects: `${root}/rejects`,
    part: (part: number, format: string) => `${root}/${nameOf(part)}.${format}`,
    rejectsOf: (part: number) => `${root}/rejects/${nameOf(part)}.jsonl`,
    /** what JSON lines cannot say of themselves */
    facts: `${root}/_facts`,
    factsOf: (part: number) => `${root}/_facts/${nameOf(part)}.json`,
  };
}

/** The run that a single file is until it is whole: a folder beside it; of one that goes to a store a place of its own on this machine. */
export function hiddenFolder(path: string): string {
  const name = `.${basename(path)}.run`;
  if (!isStored(path)) return join(dirname(path), name);
  const { XDG_CACHE_HOME, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL } = process.env;
  const store = AWS_ENDPOINT_URL_S3 || AWS_ENDPOINT_URL || '';
  const own = createHash('sha256').update(`${store}\n${path}`).digest('hex').slice(0, 16);
  return join(XDG_CACHE_HOME || join(homedir(), '.cache'), 'rredcot', own, name);
}

/** What stands beside a single file, and its rejects beside a run of nothing else. */
export function filePaths(output: string) {
  const path = output.replace(/(?<=.)\/+$/, '');
  return {
    rejects: `${path}.rejects.jsonl`,
    /** its closing figures */
    summary: `${path}.summary.json`,
  };
}

/** More than so many are cut short. */
const MOST_RANGES = 8;

/** Numbers of parts as people write them: 0–3, 7, 9–12, … */
export function ranges(numbers: readonly number[]): string {
  const parts: string[] = [];
  for (let from = 0, to = 0; from < numbers.length; from = ++to) {
    while (numbers[to + 1] === (numbers[to] as number) + 1) to++;
    parts.push(from === to ? `${numbers[from]}` : `${numbers[from]}–${numbers[to]}`);
  }
  const shown = parts.slice(0, MOST_RANGES).join(', ');
  return parts.length <= MOST_RANGES ? shown : `${shown}, … (${count(numbers.length)})`;
}
