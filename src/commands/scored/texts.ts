// Finds the texts that a stored row was scored from, as far as the row still has them.
import { RredcotError } from '../../errors.js';
import { mapRow } from '../../io/map/map.js';
import type { FieldMap } from '../../io/map/sources.js';
import type { Input } from '../../io/read/inputs.js';
import { TEXT_KEY } from '../../io/write/output.js';
import { type InputRow, isBad } from '../../rows.js';
import type { Trace } from '../../trace.js';
import { type Mapping, resolveMapping } from '../job/mapping.js';
import type { Config } from './open-scored.js';

/** Where the texts of a file's rows are. */
export interface TextPlaces {
  readonly map: FieldMap;
  /** names of the columns, as the file says them; empty of JSON lines */
  readonly named: Readonly<Record<string, unknown>>;
}

/** A file's own words of where its texts are. @param metadata another program's may be anything */
export function namedTexts(metadata: ReadonlyMap<string, string>): Record<string, unknown> {
  try {
    return JSON.parse(metadata.get(TEXT_KEY) ?? '{}') as Record<string, unknown>;
  } catch {
    return {};
  }
}

/**
 * How the rows of a scored file become traces: as its run read them, where the columns are still there for it; else by what its
 * columns look like.
 */
export async function scoredMapping(inputs: readonly Input[], config: Config): Promise<Mapping> {
  const opts = { join: undefined, joinOn: undefined, maxLineBytes: undefined };
  const { map, preset } = config;
  if (typeof preset === 'string')
    try {
      return await resolveMapping(inputs, {
        ...opts,
        preset,
        map: typeof map === 'string' ? map : undefined,
      });
    } catch (error) {
      if (!(error instanceof RredcotError)) throw error;
    }
  return resolveMapping(inputs, { ...opts, preset: 'auto', map: undefined });
}

/** Texts of a trace: what is not there any more is empty. */
export function textsOf(row: InputRow, { map, named }: TextPlaces) {
  const traces = [...mapRow(row, map, { prompt: false, references: false })];
  // a list of the input's has the texts of other traces too
  const item = traces.length > 1 ? Number(row.columns.source_item ?? 0) : 0;
  const found = traces[item];
  const trace = found === undefined || isBad(found) ? undefined : found;
  const column = (field: string): string | undefined => {
    const text = row.columns[String(named[field] ?? field)];
    return typeof text === 'string' ? text : undefined;
  };
  return {
    prompt: column('prompt') ?? (trace === undefined ? '' : promptText(trace.prompt)),
    completion: column('completion') ?? trace?.completion ?? '',
    references: trace?.references.map(({ answer }) => answer) ?? [],
  };
}

/** Messages as their roles and words. */
export function promptText(prompt: Trace['prompt']): string {
  if (typeof prompt === 'string') return prompt;
  return prompt.map(({ role, content }) => `${role}: ${content}`).join('\n');
}
