// Makes of a stored row what is shown of it: its texts, as far as the row still has them, and what `inspect` tells a person and programs.

import { valueNameOf } from '../credit/nature.js';
import { RredcotError } from '../errors.js';
import { storedNature } from '../estimate/registry.js';
import { mapRow } from '../io/map/map.js';
import { type Mapping, resolveMapping } from '../io/map/mapping.js';
import type { Input } from '../io/read/inputs.js';
import type { Config } from '../io/write/output.js';
import { isUnlikely } from '../report/counts.js';
import { traceRecord } from '../report/trace-record.js';
import { type ShownTrace, stepsText } from '../report/trace-view.js';
import { type InputRow, isBad } from '../rows.js';
import { mean } from '../scored/choose.js';
import { kindOf, storedRow } from '../scored/columns.js';
import type { ScoredFiles } from '../scored/open-scored.js';
import { type Account, accountOf, configIn, textColumnsIn, vocabIn } from '../scored/stored-run.js';
import type { Trace } from '../trace.js';

/** Where the texts of a file's rows are. */
export type TextPlaces = Awaited<ReturnType<typeof textPlaces>>;

/** Finds them, in a scored file: by its map, and the names of the columns, as the file says them; none of JSON lines. */
export async function textPlaces({ inputs, config, account }: ScoredFiles) {
  return { map: await scoredMap(inputs, config), named: textColumnsIn(account) };
}

/** How rows of a scored file become traces: as its run read them, where the columns are still there; else by what its columns look like. */
async function scoredMap(inputs: readonly Input[], config: Config): Promise<Mapping['map']> {
  const { map, preset } = config;
  if (typeof preset === 'string')
    try {
      const own = typeof map === 'string' ? map : undefined;
      return (await resolveMapping(inputs, { preset, map: own })).map;
    } catch (error) {
      if (!(error instanceof RredcotError)) throw error;
    }
  return (await resolveMapping(inputs, { preset: 'auto', map: undefined })).map;
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
function promptText(prompt: Trace['prompt']): string {
  if (typeof prompt === 'string') return prompt;
  return prompt.map(({ role, content }) => `${role}: ${content}`).join('\n');
}

/** What of a file is the same for all its rows. */
export type ShownFile = Awaited<ReturnType<typeof shownFile>>;

/** @param isGiven whether somebody has said where the fields are */
export async function shownFile(inputs: readonly Input[], file: string, mapping: Mapping, isGiven: boolean) {
  const input = inputs.find((each) => each.path === file);
  // a row can be looked at whatever became of what lies beside its file
  const none: Account = new Map();
  const account = input === undefined ? none : await accountOf(input).catch(() => none);
  const isFile = inputs.every(({ size }) => size !== null);
  const config = configIn(account);
  // a map that was given says how this file is to be read
  const map = config === undefined || !isFile || isGiven ? mapping.map : await scoredMap(inputs, config);
  const places: TextPlaces = { map, named: textColumnsIn(account) };
  const rules = Array.isArray(config?.rule) ? config.rule : [config?.rule];
  /** the first is that of the segments */
  const credits: readonly string[] = rules.filter((rule) => typeof rule === 'string');
  const { steps } = config ?? {};
  /** what its values are; undefined where nobody knows */
  const nature = config && storedNature(config);
  return { places, vocab: vocabIn(account), nature, steps, credits };
}

/** What is shown of a row; undefined where it was neither scored nor cut. @param why it is this one, where it was looked for */
export function shownTrace(
  row: InputRow,
  { places, vocab, nature, steps, credits }: ShownFile,
  why: string | undefined,
): ShownTrace | undefined {
  if (kindOf(row.columns) === undefined) return undefined;
  const { prompt, completion, references } = textsOf(row, places);
  const stored = storedRow(row.columns, row);
  const scored = { ...stored, trace: { ...stored.trace, completion } };
  return {
    ...traceRecord(scored, { prompt, references, isMagnitude: nature?.isMagnitude === true }),
    place: `${row.row} of ${row.file}`,
    why,
    credits,
    warnings: unlikelyTrace(row, vocab),
    valueName: valueNameOf(nature),
    steps: stepsText(steps),
  };
}

/** That this trace alone reads as if another policy had written it. */
function unlikelyTrace({ columns }: InputRow, vocab: number | undefined): string[] {
  const { logprobs } = columns;
  const logprob = Array.isArray(logprobs) ? mean(Float32Array.from(logprobs as number[])) : null;
  if (!isUnlikely(logprob, vocab)) return [];
  const text = logprob.toFixed(2).replace('-', '−');
  return [`its mean log p is ${text} a token: did this policy write it? Its values mean little then`];
}

/** The same for programs; per-token lists as the row has them. */
export function shownRecord(
  { why, warnings, reward, baseline, status, start, segments, decisive, harmful }: ShownTrace,
  row: InputRow,
): unknown {
  const thoughts = segments.filter(({ answer }) => !answer);
  const list = (name: string) => (Array.isArray(row.columns[name]) ? row.columns[name] : null);
  return {
    ...{ why: why ?? null, warnings, reward, baseline, status },
    values: start === null ? null : [start, ...thoughts.map(({ value }) => value)],
    segments: storedRow(row.columns, row).segments,
    ...{ decisive, harmful },
    ...{ sigma: list('sigma'), logprobs: list('logprobs'), entropies: list('entropies') },
  };
}
