// A run's inputs read again in, how many traces each of their rows holds out: what `verify` holds the output against.
import { EXIT, RredcotError } from '../errors.js';
import type { InputRows, Place } from '../io/check-chunk.js';
import { readRows, resolveInputs } from '../io/inputs.js';
import { mapRow } from '../io/map.js';
import { fingerprint, type RunDescription } from '../io/run-description.js';
import { resolveMapping } from './mapping.js';

/**
 * Re-maps the inputs that a run names, with its own configuration.
 * @returns a reason, as half a sentence, where they are not what they were
 */
export async function countInputs(
  { command, config, inputs: prints, policy }: RunDescription,
  onRow: (rows: number) => void,
): Promise<InputRows | string> {
  const problem = await findChange(prints);
  if (problem !== undefined) return problem;
  if (config.join !== undefined) return 'they were joined with another file, which is not read again';
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

async function findChange(prints: RunDescription['inputs']): Promise<string | undefined> {
  const stream = prints.find(({ bytes }) => bytes === null);
  if (stream !== undefined) return `${stream.path === '-' ? 'stdin' : stream.path} could be read only once`;
  try {
    const found = await fingerprint(await resolveInputs(prints.map(({ path }) => path)));
    const changed = found.findIndex((print, n) => JSON.stringify(print) !== JSON.stringify(prints[n]));
    return changed < 0 ? undefined : `${prints[changed]?.path} has changed since the run began`;
  } catch (error) {
    if (error instanceof RredcotError && error.exitCode === EXIT.usage) return error.message;
    throw error;
  }
}
