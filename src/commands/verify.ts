// `rredcot verify`: reads scored rows again from end to end and tells what is not as it should be.
import { EXIT, type ExitCode, RredcotError, throwIfInterrupted } from '../errors.js';
import { readRows, resolveInputs } from '../io/read/inputs.js';
import { partText } from '../io/write/part.js';
import { plural } from '../plural.js';
import type { Log } from '../report/log.js';
import { isBad } from '../rows.js';
import { checkRow } from '../scored/check-row.js';
import { accountOf, assertWritten } from '../scored/open-scored.js';
import { partOf } from '../scored/origins.js';
import { oursOf } from '../scored/stored-rows.js';

export interface VerifyOptions {
  readonly signal: AbortSignal;
  /** takes one line for stdout */
  readonly print: (line: string) => void;
}

/** A file with more findings than this is told to be so: one cause has many effects. */
const MOST_FINDINGS = 20;

/** Checks a run folder or a scored file; every finding is a line on stdout that names file and row. @returns 65 where there are some */
export async function verify(path: string, { signal, print }: VerifyOptions, log: Log): Promise<ExitCode> {
  let findings = 0;
  const found = (text: string): void => {
    findings++;
    if (findings <= MOST_FINDINGS + 1) print(findings > MOST_FINDINGS ? `${path}: and more` : text);
  };
  const inputs = await resolveInputs([path]);
  const account = await accountOf(path, inputs);
  await assertWritten(path, inputs, account.metadata, (file) =>
    log.warn('no_hash', `${file}: nothing says which bytes were written: only its rows are checked`),
  ).catch((error: unknown) => {
    if (!(error instanceof RredcotError) || error.exitCode !== EXIT.data) throw error;
    found(error.message);
  });
  const { command, columns } = account.config ?? {};
  const rules = {
    isScored: command === undefined ? undefined : command === 'score',
  };
  let traces = 0;
  for await (const row of readRows(inputs)) {
    throwIfInterrupted(signal);
    log.progress(`checking: ${plural(++traces, 'trace')}`, { traces });
    const place = `${row.file}: row ${row.row}`;
    if (isBad(row)) {
      found(`${place}: cannot be read: ${row.rejection.reason}`);
      continue;
    }
    const { faults, id } = checkRow(oursOf(row.columns, columns as readonly string[] | undefined), rules);
    for (const text of faults) found(`${place}: ${id === '' ? '' : `(id ${JSON.stringify(id)}) `}${text}`);
  }
  const part = findings === 0 ? (await partOf(inputs))?.part : undefined;
  if (part !== undefined) log.warn('part', `${path}: ${partText(part)}: groups may lack traces`);
  log.record('verified', { findings });
  const outcome = findings === 0 ? 'nothing found' : plural(findings, 'finding');
  log.info(`${path}: ${plural(traces, 'trace')}; ${outcome}`);
  return findings === 0 ? EXIT.done : EXIT.data;
}
