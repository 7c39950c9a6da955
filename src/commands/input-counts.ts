// A run's inputs read again in, whether they are what they were and how many traces each row holds out: what `verify`
// holds the output against.
import { EXIT, RredcotError } from '../errors.js';
import type { Finding, InputRows, Place } from '../io/check-chunk.js';
import { fileError } from '../io/file-error.js';
import { readRows, resolveInputs } from '../io/inputs.js';
import { mapRow } from '../io/map.js';
import { fileFingerprint, type InputPrint, type RunDescription } from '../io/run-description.js';
import { statIfThere } from '../io/stat-if-there.js';
import { resolveMapping } from './mapping.js';

/** What has become of a run's inputs. */
export interface InputState {
  /** those that hold something else than the run has read */
  readonly replaced: readonly Finding[];
  /** those with another time, but the same size and the same first and last MiB */
  readonly touched: readonly string[];
  /** why their rows cannot be read again, as half a sentence */
  readonly unread: string | undefined;
}

/** Re-maps the inputs that a run names, with its own configuration. */
export async function countInputs(
  { command, config, inputs: prints, policy }: RunDescription,
  onRow: (rows: number) => void,
): Promise<InputRows> {
  const inputs = await resolveInputs(prints.map(({ path }) => path));
  const { map } = await resolveMapping(inputs, {
    map: textOf(config.map),
    preset: textOf(config.preset) ?? 'none',
    join: undefined,
    joinOn: undefined,
    maxLineBytes: undefined,
  });
  const needs = { prompt: policy !== null, references: command === 'score' };
  const limit = typeof config.limit === 'number' ? config.limit : Number.POSITIVE_INFINITY;
  let traces = new Uint32Array(1024);
  let rows = 0;
  let taken = 0;
  const starts: number[] = [];
  /** rows of a rejects file stand for those that were turned down, where these stood */
  const mended = new Map<number, Place>();
  for (const input of inputs) {
    starts.push(rows);
    for await (const row of readRows([input])) {
      if (taken >= limit) break;
      if (rows === traces.length) {
        const grown = new Uint32Array(2 * rows);
        grown.set(traces);
        traces = grown;
      }
      const found = row.kind === 'row' ? [...mapRow(row, map, needs)].length : 1;
      traces[rows] = Math.min(found, limit - taken);
      if (row.file !== input.path) mended.set(rows, { file: row.file, row: row.row });
      taken += found;
      onRow(++rows);
    }
  }
  return {
    traces: traces.subarray(0, rows),
    place(ordinal) {
      const n = starts.findLastIndex((start) => start <= ordinal);
      const physical = { file: prints[n]?.path ?? '', row: ordinal - (starts[n] as number) };
      return mended.get(ordinal) ?? physical;
    },
  };
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/** Compares the inputs that a run names with what they were. */
export async function inspectInputs({ config, inputs }: RunDescription): Promise<InputState> {
  const replaced: Finding[] = [];
  const touched: string[] = [];
  let unread: string | undefined;
  for (const print of inputs) {
    const { path } = print;
    if (print.bytes === null) {
      unread ??= `${path === '-' ? 'stdin' : path} could be read only once`;
      continue;
    }
    try {
      const present = await statIfThere(path);
      const found = present?.isFile() ? await fileFingerprint(path) : null;
      const difference = found === null ? 'it is no file any more' : differenceOf(found, print);
      if (present === null) unread ??= `${path} is gone`;
      else if (difference !== undefined)
        replaced.push({ file: path, text: `is not the input that the run has read: ${difference}` });
      else if (found?.mtime_ms !== print.mtime_ms) touched.push(path);
    } catch (error) {
      const named = fileError(error, path, 'read');
      if (!(named instanceof RredcotError) || named.exitCode !== EXIT.usage) throw named;
      unread ??= named.message;
    }
  }
  if (config.join !== undefined) unread ??= 'they were joined with another file, which is not read again';
  return { replaced, touched, unread };
}

function differenceOf(found: InputPrint, expected: InputPrint): string | undefined {
  if (found.bytes !== expected.bytes) return `${found.bytes} bytes, expected ${expected.bytes}`;
  if (found.head !== expected.head) return 'its first MiB differs';
  return found.tail === expected.tail ? undefined : 'its last MiB differs';
}
