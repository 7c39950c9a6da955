// Makes of a stored row what is shown of it: its texts, as far as the row still has them, and what `inspect` tells a person and programs.

import { stepsText, valueNameOf } from '../credit/nature.js';
import { RredcotError } from '../errors.js';
import { storedNature } from '../estimate/registry.js';
import { mapRow } from '../io/map/map.js';
import { type Mapping, resolveMapping } from '../io/map/mapping.js';
import { type Input, inputMetadata } from '../io/read/inputs.js';
import { type Config, TEXT_KEY } from '../io/write/output.js';
import { mean } from '../report/run-counts.js';
import { traceRecord } from '../report/trace-record.js';
import type { ShownTrace } from '../report/trace-view.js';
import { isUnlikely } from '../report/warnings.js';
import { type InputRow, isBad } from '../rows.js';
import { runBeside, type ScoredFiles, vocabOf } from '../scored/open-scored.js';
import { type Picked, peersOf } from '../scored/pick.js';
import { isCut, isScored, storedConfig, storedRow } from '../scored/stored-rows.js';
import type { Trace } from '../trace.js';

/** Where the texts of a file's rows are. */
export type TextPlaces = Awaited<ReturnType<typeof textPlaces>>;

/** Finds them, in a scored file: by its map, and the names of the columns, as the file says them; none of JSON lines. */
export async function textPlaces({ inputs, config, metadata }: ScoredFiles) {
  return { map: (await scoredMapping(inputs, config)).map, named: namedTexts(metadata) };
}

/** A file's own words of where its texts are. @param metadata another program's may be anything */
function namedTexts(metadata: ReadonlyMap<string, string>): Record<string, unknown> {
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
async function scoredMapping(inputs: readonly Input[], config: Config): Promise<Mapping> {
  const { map, preset } = config;
  if (typeof preset === 'string')
    try {
      const own = typeof map === 'string' ? map : undefined;
      return await resolveMapping(inputs, { preset, map: own });
    } catch (error) {
      if (!(error instanceof RredcotError)) throw error;
    }
  return resolveMapping(inputs, { preset: 'auto', map: undefined });
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

/**
 * @param path as it was given, beside which a summary may lie
 * @param isGiven whether somebody has said where the fields are
 */
export async function shownFile(
  path: string,
  inputs: readonly Input[],
  file: string,
  mapping: Mapping,
  isGiven: boolean,
) {
  const input = inputs.find((each) => each.path === file);
  const metadata = input === undefined ? new Map<string, string>() : await inputMetadata(input);
  /** whether its rows can be read again, so that peers can be looked for */
  const isFile = inputs.every(({ size }) => size !== null);
  // a row can be looked at whatever became of what lies beside its file
  const config =
    storedConfig(metadata) ?? (isFile ? (await runBeside(path).catch(() => undefined))?.config : undefined);
  // a map that was given says how this file is to be read
  const own = config === undefined || !isFile || isGiven ? mapping : await scoredMapping(inputs, config);
  /** of the policy; undefined where the file does not say */
  const vocab = vocabOf({ metadata });
  const rules = Array.isArray(config?.rule) ? config.rule : [config?.rule];
  /** the first is that of the segments */
  const credits: readonly string[] = rules.filter((rule) => typeof rule === 'string');
  const { steps } = config ?? {};
  /** what its values are; undefined where nobody knows */
  const nature = config && storedNature(config);
  return { mapping: own, named: namedTexts(metadata), nature, steps, credits, vocab, isFile };
}

/** What is shown of a row; undefined where it was neither scored nor cut. @param picked where it was looked for */
export async function shownTrace(
  row: InputRow,
  { mapping, named, nature, steps, credits, vocab, isFile }: ShownFile,
  picked: Pick<Picked, 'why' | 'warnings'> | undefined,
): Promise<ShownTrace | undefined> {
  if (!isScored(row.columns) && !isCut(row.columns)) return undefined;
  const { prompt, completion, references } = textsOf(row, { map: mapping.map, named });
  const stored = storedRow(row.columns, row);
  const scored = { ...stored, trace: { ...stored.trace, completion } };
  return {
    ...traceRecord(scored, { prompt, references, isMagnitude: nature?.isMagnitude === true }),
    place: `${row.row} of ${row.file}`,
    why: picked?.why,
    credits,
    warnings: (picked?.warnings ?? []).length > 0 ? (picked?.warnings ?? []) : unlikelyTrace(row, vocab),
    peers: isFile ? await peersOf(row, mapping.read) : [],
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
  { why, warnings, reward, baseline, status, start, segments, decisive, harmful, peers }: ShownTrace,
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
    peers: peers.map(({ id, row: number, reward: own }) => ({ id, row: number, reward: own })),
  };
}
