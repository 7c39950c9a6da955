// `rredcot verify`: compares every part of a run, or a file, with what the run and the part itself say of it.
import { EXIT, type ExitCode, throwIfInterrupted, usageError } from '../errors.js';
import { isList } from '../io/arrow/output-columns.js';
import { FACTS_KEY, type Facts, type WrittenFacts } from '../io/files/facts.js';
import { fileBytes, isStored, sha256OfFile, statIfThere } from '../io/files/files.js';
import { rejectsPath, runPaths } from '../io/files/run-folder.js';
import { readRows, resolveInputs } from '../io/read/inputs.js';
import { factsOfFile, factsOfPart, fileFault, sumCounts } from '../io/write/facts.js';
import type { Config } from '../io/write/output.js';
import { type Part, partText } from '../io/write/part.js';
import { count, plural, ranges } from '../plural.js';
import type { Log } from '../report/log.js';
import { isBad } from '../rows.js';
import { presentParts } from '../run/folder.js';
import { readRun } from '../run/identity.js';
import { checkRow } from '../scored/check-row.js';
import { storedRunOf } from '../scored/open-scored.js';
import { partOf } from '../scored/provenance.js';
import { oursOf } from '../scored/stored-rows.js';

export interface VerifyOptions {
  readonly signal: AbortSignal;
  /** takes one line for stdout */
  readonly print: (line: string) => void;
}

/**
 * Checks a run folder or a file; every finding is a line on stdout.
 * @returns 65 where there are findings, 75 where there are none but parts are missing
 */
export async function verify(out: string, opts: VerifyOptions, log: Log): Promise<ExitCode> {
  const found = await statIfThere(out);
  const folder = found?.isDirectory() || (isStored(out) && out.endsWith('/')) ? out.replace(/\/+$/, '') : '';
  if (folder !== '') return await verifyRun(folder, opts, log);
  if (found === null)
    throw usageError(`${out}: no such file or folder`, 'name an output of score or segment');
  return await verifyFile(out, opts, log);
}

async function verifyRun(folder: string, { signal, print }: VerifyOptions, log: Log): Promise<ExitCode> {
  const run = await readRun(folder);
  if (run === undefined)
    throw usageError(`${folder}: holds no _run.json, expected a run`, 'name a folder that was given with -o');
  const paths = runPaths(folder);
  const present = await presentParts(folder, run);
  const [missing, whole]: [number[], Facts[]] = [[], []];
  let findings = 0;
  const add = (file: string, text: string): void => {
    findings++;
    print(`${file}: ${text}`);
  };
  for (const part of present)
    if (part >= run.parts) add(paths.part(part, run.output), 'is no part of the run');
  for (let part = 0; part < run.parts; part++) {
    throwIfInterrupted(signal);
    log.progress(`checking: ${count(part)} of ${plural(run.parts, 'part')}`, { parts: part });
    const path = paths.part(part, run.output);
    const facts = present.has(part) ? await factsOfPart(folder, part, run.output) : undefined;
    if (!present.has(part)) missing.push(part);
    else if (facts === undefined)
      add(path, `does not say that it is part ${part} of a run: it is damaged, or another file`);
    else if (facts.run !== run.run) add(path, 'is of another run than _run.json');
    else {
      whole.push(facts);
      const rejects = paths.rejectsOf(part);
      for await (const [file, text] of faultsOf(path, facts, rejects, run.config)) add(file, text);
    }
  }
  if (missing.length > 0) print(`${folder}: missing: ${ranges(missing)} of ${plural(run.parts, 'part')}`);
  if (run.part !== null) tellOfPart(folder, run.part, log);
  const { traces, rejects } = sumCounts(whole);
  const summary = `${plural(whole.length, 'part')}, ${plural(traces, 'trace')}, ${plural(rejects, 'reject')}`;
  const code = conclude(`${folder}: ${summary}`, findings, log);
  return code === EXIT.done && missing.length > 0 ? EXIT.interrupted : code;
}

async function verifyFile(path: string, { print }: VerifyOptions, log: Log): Promise<ExitCode> {
  const facts = await factsOfFile(path);
  if (facts === undefined)
    throw usageError(
      `${path}: nothing says what was written: its metadata have no ${FACTS_KEY}, or of JSON lines the summary is not beside it`,
      'name a file that score or segment has written with -o',
    );
  const inputs = await resolveInputs([path]);
  const { config } = await storedRunOf(path, inputs);
  let findings = 0;
  for await (const [file, text] of faultsOf(path, facts, rejectsPath(path), config)) {
    findings++;
    print(`${file}: ${text}`);
  }
  const part = findings === 0 ? (await partOf(inputs))?.part : undefined;
  if (part !== undefined) tellOfPart(path, part, log);
  return conclude(
    `${path}: ${plural(facts.traces, 'trace')}, ${plural(facts.rejects, 'reject')}`,
    findings,
    log,
  );
}

/** No fault of a file, and stands against what follows of its groups. */
function tellOfPart(path: string, part: Part, log: Log): void {
  log.warn('part', `${path}: ${partText(part)}: groups may lack traces`);
}

/** Sums of float32, added up in another order. */
const NEAR = 1e-6;

/** A file with more faults in its rows than this is told to be so: one cause has many effects. */
const MOST_FAULTS = 20;

/** What is wrong with a file of rows and its rejects, by what it says itself. */
async function* faultsOf(
  path: string,
  facts: WrittenFacts,
  rejects: string,
  config: Config | undefined,
): AsyncGenerator<readonly [file: string, text: string]> {
  const fault = await fileFault(path);
  // its rows are looked at all the same: they may show where
  if (typeof fault === 'string') yield [path, fault];
  const { command, columns } = config ?? {};
  const chosen = Array.isArray(columns) ? (columns as string[]) : undefined;
  const rules = { isScored: command === undefined ? undefined : command === 'score' };
  let [traces, sigma, faults] = [0, 0, 0];
  try {
    for await (const row of readRows(await resolveInputs([path]))) {
      if (isBad(row)) throw new Error(`row ${row.row}: ${row.rejection.reason}`);
      traces++;
      const ours = oursOf(row.columns, chosen);
      if (isList(ours.sigma)) sigma += sum(ours.sigma);
      const found = checkRow(ours, rules);
      for (const text of found.faults)
        if (++faults <= MOST_FAULTS)
          yield [path, `row ${row.row}: ${found.id && `(id ${JSON.stringify(found.id)}) `}${text}`];
    }
    if (faults > MOST_FAULTS) yield [path, `and ${plural(faults - MOST_FAULTS, 'more fault')}`];
    if (traces !== facts.traces) yield [path, `holds ${plural(traces, 'trace')}, expected ${facts.traces}`];
    const hasSigma = command === 'score' && (chosen === undefined || chosen.includes('sigma'));
    if (hasSigma && !(Math.abs(sigma - facts.sigma) <= NEAR * Math.max(1, traces)))
      yield [path, `its σ sum to ${sigma}, expected ${facts.sigma}`];
  } catch (error) {
    yield [path, `cannot be read: ${(error as Error).message.replace(`${path}: `, '')}`];
  }
  if ((await sha256OfFile(rejects)) !== facts.rejects_sha256)
    yield [
      rejects,
      facts.rejects_sha256 === null
        ? 'is there, though no trace was rejected'
        : `is not the file that was written, with ${plural(facts.rejects, 'reject')}`,
    ];
  else if (facts.rejects !== (facts.rejects_sha256 === null ? 0 : await countLines(rejects)))
    yield [rejects, `does not hold the ${plural(facts.rejects, 'reject')} that ${path} counts`];
}

function sum(list: ArrayLike<unknown>): number {
  return Array.from(list, (x) => Math.fround(Number(x))).reduce((total, x) => total + x, 0);
}

async function countLines(path: string): Promise<number> {
  let lines = 0;
  for await (const bytes of fileBytes(path)) for (const byte of bytes) if (byte === 10) lines++;
  return lines;
}

function conclude(summary: string, findings: number, log: Log): ExitCode {
  log.record('verified', { findings });
  log.info(`${summary}; ${findings === 0 ? 'nothing found' : plural(findings, 'finding')}`);
  return findings === 0 ? EXIT.done : EXIT.data;
}
