// `rredcot summary`: reads a scored file once from end to end, and prints its numbers for a terminal or a dashboard.

import { valueNameOf } from '../credit/nature.js';
import { dataError, EXIT, type ExitCode, throwIfInterrupted } from '../errors.js';
import { STORED } from '../estimate/credit-flags.js';
import { hashSaid } from '../io/files/facts.js';
import { ranges } from '../io/files/run-folder.js';
import { partText } from '../io/write/facts.js';
import { RUN_KEY, VERSION_KEY } from '../io/write/output.js';
import { VERSION } from '../package-files.js';
import { plural } from '../plural.js';
import { printableJson } from '../printable.js';
import { FileCounts, TraceChoice } from '../report/gathered.js';
import type { Log } from '../report/log.js';
import { drawNumbers } from '../report/numbers-view.js';
import { warningsOf } from '../report/warnings.js';
import { type BadRow, isBad } from '../rows.js';
import { presentParts } from '../run/folder.js';
import { readRun } from '../run/identity.js';
import type { Condition } from '../scored/choose.js';
import { openScored, type ScoredFiles, storedTrace } from '../scored/open-scored.js';
import { policyIn, vocabIn } from '../scored/stored-run.js';

export interface SummaryOptions {
  readonly json: boolean;
  readonly signal: AbortSignal;
}

/** @throws RredcotError: exit 2 for what `score` has not written; 65 for a file that was changed, or has no trace */
export async function summary(
  path: string,
  { json, signal }: SummaryOptions,
  write: (text: string) => void,
  log: Log,
): Promise<ExitCode> {
  const { missing, parts, done } = await partsOf(path);
  const source = await openScored(done, STORED, log);
  const counted = await countScored(source, { traces: 0, conditions: [], signal }, log);
  assertTraces(path, counted);
  const valueName = valueNameOf(source.credit.estimator);
  if (json) {
    const found = {
      ...{ format: 1, rredcot: VERSION, file: path },
      run: source.account.get(RUN_KEY) ?? null,
      sha256: hashSaid(source.account) ?? null,
      ...{ config: source.config, policy: policyIn(source.account) ?? {} },
      ...(missing.length > 0 && { missing_parts: missing, parts }),
      ...{ warnings: counted.warnings, ...counted.numbers },
    };
    write(`${printableJson(JSON.stringify(found, null, 1))}\n`);
  } else {
    const lines = drawNumbers(path, { ...counted, valueName });
    if (missing.length > 0)
      lines.push('', `missing parts: ${ranges(missing)} of ${parts}; the same command makes them`);
    write(`${lines.join('\n')}\n`);
  }
  return EXIT.done;
}

/** Of a run's folder: the parts that it lacks, of how many, and a name for those that are there. */
async function partsOf(path: string) {
  const folder = path.replace(/(?<=.)\/+$/, '');
  const run = await readRun(folder).catch(() => undefined);
  if (run === undefined) return { missing: [], parts: 0, done: path };
  const present = await presentParts(folder, run);
  const missing = Array.from({ length: run.parts }, (_, part) => part).filter((part) => !present.has(part));
  const isPartly = missing.length > 0 && present.size > 0;
  return { missing, parts: run.parts, done: isPartly ? `${folder}/part-*.${run.output}` : path };
}

/** @throws RredcotError (exit 65) where nothing was counted */
export function assertTraces(
  path: string,
  { numbers, firstBad }: Awaited<ReturnType<typeof countScored>>,
): void {
  if (numbers.traces > 0) return;
  const why =
    firstBad === undefined ? '' : `: ${firstBad.file}:${firstBad.row}: ${firstBad.rejection.reason}`;
  throw dataError(`${path}: no trace in it${why}`, 'rredcot verify tells what is wrong with it');
}

export interface CountOptions {
  /** traces to choose */
  readonly traces: number;
  /** of those that fit all of these */
  readonly conditions: readonly Condition[];
  readonly signal: AbortSignal;
}

/** Reads all rows once; what it holds does not grow with them. */
export async function countScored(
  source: ScoredFiles,
  { traces, conditions, signal }: CountOptions,
  log: Log,
) {
  const { part, account, credit } = source;
  const vocab = vocabIn(account);
  const counts = new FileCounts(credit.estimator.noLevel === undefined, vocab);
  /** traces worth a page, by number of their row */
  const choice = new TraceChoice(traces, credit.estimator.isMagnitude === true);
  /** the first row that is not as `score` writes one */
  let firstBad: BadRow | undefined;
  let read = 0;
  for await (const row of source.read({})) {
    throwIfInterrupted(signal);
    if (++read % ROWS_TOLD === 0) log.progress(`reading: ${plural(read, 'row')}`, { read });
    const trace = isBad(row) ? row : storedTrace(row, source);
    if (isBad(trace)) {
      counts.rejects.add(trace);
      firstBad ??= trace;
      continue;
    }
    counts.add(trace, row.row);
    if (conditions.every(({ holds }) => holds(trace))) choice.add(trace);
  }
  const { numbers } = counts;
  const warnings = warningsOf(numbers, { vocab, rule: source.config.rule });
  if (part)
    warnings.unshift({ code: 'part', message: `the file ${partText(part)}: its groups may lack traces` });
  return { numbers, warnings, choice, firstBad };
}

const ROWS_TOLD = 1000;

/** How a file was made, by name: what identifies it, its configuration, and the hashes of its policy. */
export function factsOf(path: string, { account, config }: ScoredFiles): [name: string, text: string][] {
  const policy = Object.entries(policyIn(account) ?? {}).map(([name, hash]) => [`policy: ${name}`, hash]);
  const named = {
    ...{ file: path, version: account.get(VERSION_KEY), run: account.get(RUN_KEY) },
    ...{ sha256: hashSaid(account), ...config, ...Object.fromEntries(policy) },
  };
  return Object.entries(named).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, typeof value === 'string' ? value : JSON.stringify(value)]],
  );
}
