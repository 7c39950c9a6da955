// What a scored file was made of: the keys under which it says so, and inputs that are a part of another file.
import { type Input, inputMetadata } from '../read/inputs.js';
import { readSummary } from '../run/summary-file.js';

/** The keys of a file's metadata under which stands what it was redistributed from, and what was filtered out of it. */
export const REDISTRIBUTED_KEY = 'rredcot.redistributed';
export const FILTERED_KEY = 'rredcot.filtered';

/** What columnar files say of what they were made of. */
export function originsIn(metadata: ReadonlyMap<string, string>): Record<string, string> {
  const keys = [REDISTRIBUTED_KEY, FILTERED_KEY].filter((key) => metadata.has(key));
  return Object.fromEntries(keys.map((key) => [key, metadata.get(key) as string]));
}

/** Whether `rredcot filter` has made the input: its groups may lack traces. JSON lines on stdin do not tell. */
export async function isFiltered(input: Input): Promise<boolean> {
  if ((await inputMetadata(input)).has(FILTERED_KEY)) return true;
  return input.layout?.format === 'json' && (await readSummary(input.path))?.filtered !== undefined;
}
