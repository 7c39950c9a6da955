// `rredcot report`: writes one HTML file about the run of a scored file and some of its traces.
import { statSync } from 'node:fs';
import { valueNameOf } from '../credit/nature.js';
import { creditColumn } from '../credit/requested.js';
import { EXIT, type ExitCode, throwIfInterrupted } from '../errors.js';
import { STORED } from '../estimate/credit-flags.js';
import { writeText } from '../io/files/atomic-file.js';
import { fileStem } from '../io/read/inputs.js';
import { assertPlace } from '../io/write/target.js';
import { count, plural } from '../plural.js';
import { escapeControls } from '../printable.js';
import type { Kind } from '../report/gathered.js';
import type { Log } from '../report/log.js';
import { type PackedPage, packTrace, scoredPage } from '../report/page/scored-page.js';
import { type NamedSigma, traceRecord } from '../report/trace-record.js';
import { type InputRow, isBad } from '../rows.js';
import { parseWhere } from '../scored/choose.js';
import { openScored, type ScoredFiles, storedTrace } from '../scored/open-scored.js';
import type { OutputRow } from '../scored.js';
import { type TextPlaces, textPlaces, textsOf } from './shown.js';
import { assertTraces, countScored, factsOf } from './summary.js';

export interface ReportOptions {
  readonly output: string;
  /** pages of traces, at most */
  readonly traces: number;
  /** which traces may have a page: all of the conditions have to hold */
  readonly where: readonly string[];
  readonly signal: AbortSignal;
}

/** Bytes of packed traces in a page, so that it stays below 3 MB. */
const MOST_PACKED = 2.6e6;

/**
 * Reads the file twice: all of it for its numbers, and the traces that were chosen.
 * @throws RredcotError: exit 2 for what `score` has not written, or a condition that cannot be asked; 65 for a file that was changed,
 * or has no trace
 */
export async function report(path: string, opts: ReportOptions, log: Log): Promise<ExitCode> {
  const { output, signal } = opts;
  const source = await openScored(path, STORED, log);
  const inputs = source.inputs.map((each) => each.path);
  await assertPlace(output, inputs);
  const conditions = opts.where.map((text) => parseWhere(text, path, source));
  const counted = await countScored(source, { traces: opts.traces, conditions, signal }, log);
  assertTraces(path, counted);
  const { chosen } = counted.choice;
  const packed = await packChosen(source, chosen, signal);
  const fewer =
    packed.length < chosen.size
      ? `${plural(chosen.size - packed.length, 'more trace')} had no room: a page holds ${count(MOST_PACKED / 1e6)} MB of them.`
      : undefined;
  if (fewer !== undefined) log.warn('report_full', fewer);
  const page = scoredPage({
    title: fileStem(path),
    numbers: counted.numbers,
    warnings: counted.warnings,
    valueName: valueNameOf(source.credit.estimator),
    facts: factsOf(path, source),
    traces: packed,
    fewer,
  });
  await writeText(output, page);
  const { size } = statSync(output);
  log.record('done', { traces: counted.numbers.traces, pages: packed.length, bytes: size, output });
  log.text(
    () =>
      `${plural(counted.numbers.traces, 'trace')}, ${packed.length} with a page of their own; ${count(Math.ceil(size / 1024))} KiB`,
  );
  log.text(() => `written to ${escapeControls(output)}`);
  return EXIT.done;
}

/** `<input>.report.html` in the current folder. */
export function defaultPage(path: string): string {
  return `${fileStem(path.replace(/(?<=.)\/+$/, ''))}.report.html`;
}

/** Records of the chosen rows, in the order of the file; those of a kind that is first by rank come in first. */
async function packChosen(
  source: ScoredFiles,
  chosen: ReadonlyMap<number, readonly Kind[]>,
  signal: AbortSignal,
): Promise<PackedPage[]> {
  const places = await textPlaces(source);
  const found = new Map<number, PackedPage>();
  for await (const row of source.read({ wanted: (ordinal) => chosen.has(ordinal) })) {
    throwIfInterrupted(signal);
    if (isBad(row) || !chosen.has(row.ordinal)) continue;
    const packed = packRow(row, chosen.get(row.ordinal) ?? [], places, source);
    if (packed !== undefined) found.set(row.ordinal, packed);
  }
  // what was chosen first stays where there is not room for all
  let bytes = 0;
  const kept = [...chosen.keys()].filter((ordinal) => {
    bytes += found.get(ordinal)?.packed.length ?? 0;
    return bytes <= MOST_PACKED;
  });
  return kept.sort((a, b) => a - b).flatMap((ordinal) => found.get(ordinal) ?? []);
}

/** Turns of each kind that a page shows. */
const TURNS = 5;

function packRow(
  row: InputRow,
  kinds: readonly Kind[],
  places: TextPlaces,
  source: ScoredFiles,
): PackedPage | undefined {
  const trace = storedTrace(row, source);
  if (isBad(trace)) return undefined;
  const { completion, ...texts } = textsOf(row, places);
  const [first, ...credits] = creditsOf(trace, row, source);
  const beside = {
    ...{ ...texts, credits, turns: TURNS },
    isMagnitude: source.credit.estimator.isMagnitude === true,
  };
  const scored = { ...trace, trace: { ...trace.trace, completion } };
  return packTrace({
    ...traceRecord(scored, beside),
    ...{ row: row.row, kinds, entropies: trace.entropies },
    credits: first === undefined ? [] : [first, ...credits],
  });
}

/** σ of the segments' rule, and those of further rules. */
export function creditsOf(
  { sigma }: OutputRow,
  { columns }: InputRow,
  { credit }: ScoredFiles,
): NamedSigma[] {
  if (sigma === null) return [];
  const others = (credit.others ?? []).flatMap((rule) => {
    const list = columns[creditColumn(rule)];
    return Array.isArray(list) ? [{ name: rule, sigma: Float32Array.from(list as number[]) }] : [];
  });
  return [{ name: credit.rule, sigma }, ...others];
}
