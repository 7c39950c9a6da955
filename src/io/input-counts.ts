// A run's inputs read again in, how many traces each of their rows holds out: what `verify` holds the output against.
import { EXIT, RredcotError } from '../errors.js';
import { readRows, resolveInputs } from './inputs.js';
import { mapRow, parseFieldMap } from './map.js';
import { fingerprint, type RunDescription } from './run-description.js';

/** Rows of all inputs, in order. */
export interface InputCounts {
  /** traces of each row; a row that cannot be read or mapped is one reject */
  readonly traces: Uint32Array; // (rows)
  /** number over all inputs of each input's first row */
  readonly starts: readonly number[];
}

/**
 * Re-maps the inputs that a run names, with its own configuration.
 * @returns a reason, as half a sentence, where they are not what they were
 */
export async function countInputs(
  { command, config, inputs: prints, policy }: RunDescription,
  onRow: (rows: number) => void,
): Promise<InputCounts | string> {
  const problem = await findChange(prints);
  if (problem !== undefined) return problem;
  const inputs = await resolveInputs(prints.map(({ path }) => path));
  const map = parseFieldMap(typeof config.map === 'string' ? config.map : undefined);
  const needs = { prompt: policy !== null, references: command === 'score' };
  const limit = typeof config.limit === 'number' ? config.limit : Number.POSITIVE_INFINITY;
  let traces = new Uint32Array(1024);
  let rows = 0;
  let taken = 0;
  const starts: number[] = [];
  const indices = new Map(inputs.map(({ path }, n) => [path, n]));
  for await (const row of readRows(inputs)) {
    if (taken >= limit) break;
    // inputs without rows begin where the next one does
    const input = indices.get(row.file) as number;
    while (starts.length <= input) starts.push(rows);
    if (rows === traces.length) {
      const grown = new Uint32Array(2 * rows);
      grown.set(traces);
      traces = grown;
    }
    let found = 1;
    if (row.kind === 'row') found = [...mapRow(row, map, needs)].length;
    traces[rows] = Math.min(found, limit - taken);
    taken += found;
    onRow(++rows);
  }
  while (starts.length < inputs.length) starts.push(rows);
  return { traces: traces.subarray(0, rows), starts };
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
