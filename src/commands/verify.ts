// `rredcot verify`: compares every part of a run, or a file, with what the run and the part itself say of it.
import { sum } from '../credit/rules.js';
import { EXIT, type ExitCode, throwIfInterrupted, usageError } from '../errors.js';
import { isList } from '../io/arrow/output-columns.js';
import { FACTS_KEY, type WrittenFacts } from '../io/files/facts.js';
import { isStored, sha256OfFile, statIfThere } from '../io/files/files.js';
import { filePaths, ranges, runPaths } from '../io/files/run-folder.js';
import { readRows, resolveInputs } from '../io/read/inputs.js';
import { factsOfFile, factsOfPart, fileFault, type Part, partText, sumCounts } from '../io/write/facts.js';
import type { Config } from '../io/write/output.js';
import { plural } from '../plural.js';
import type { Log } from '../report/log.js';
import { isBad } from '../rows.js';
import { presentParts } from '../run/folder.js';
import { readRun } from '../run/identity.js';
import { checkRow } from '../scored/check-row.js';
import { oursOf } from '../scored/columns.js';
import { configIn, firstAccount, partOf } from '../scored/stored-run.js';

export interface VerifyOptions {
  readonly signal: AbortSignal;
  /** takes one line for stdout */
  readonly print: (line: string) => void;
}

/** What is checked: files with what each says of itself, and what is known of the whole. */
interface Checked {
  readonly files: readonly {
    readonly path: string;
    readonly facts: WrittenFacts;
    readonly rejects: string;
  }[];
  readonly findings: readonly string[];
  readonly config: Config | undefined;
  /** what has cut the rows out of a data set */
  readonly part: Part | null | undefined;
  /** parts that are not there, in words */
  readonly missing?: string;
}

/** Checks a run or a file: findings are lines on stdout. @returns 65 where there are findings, 75 where there are none but parts are missing */
export async function verify(out: string, { signal, print }: VerifyOptions, log: Log): Promise<ExitCode> {
  const found = await statIfThere(out);
  const isFolder = found?.isDirectory() || (isStored(out) && out.endsWith('/'));
  if (found === null && !isFolder)
    throw usageError(`${out}: no such file or folder`, 'name an output of score or segment');
  const path = isFolder ? out.replace(/\/+$/, '') : out;
  // of rows that were dealt out
  const fault = found?.isDirectory() ? await fileFault(path) : undefined;
  const checked = await (isFolder && fault === undefined ? ofRun(path) : ofFiles(path, fault));
  const { files, findings, config, part, missing } = checked;
  let count = findings.length;
  for (const finding of findings) print(finding);
  for (const [n, { path: file, facts, rejects }] of files.entries()) {
    throwIfInterrupted(signal);
    if (isFolder) log.progress(`checking: ${n} of ${plural(files.length, 'part')}`, { parts: n });
    for await (const [where, text] of faultsOf(file, facts, rejects, config)) {
      count++;
      print(`${where}: ${text}`);
    }
  }
  if (missing !== undefined) print(missing);
  // no fault of a file, and stands against what follows of its groups
  if (part && count === 0) log.warn('part', `${path}: ${partText(part)}: groups may lack traces`);
  const { traces, rejects } = sumCounts(files.map(({ facts }) => facts));
  const parts = isFolder ? `${plural(files.length, 'part')}, ` : '';
  const outcome = count === 0 ? 'nothing found' : plural(count, 'finding');
  log.record('verified', { findings: count });
  log.info(`${path}: ${parts}${plural(traces, 'trace')}, ${plural(rejects, 'reject')}; ${outcome}`);
  if (count > 0) return EXIT.data;
  return missing === undefined ? EXIT.done : EXIT.interrupted;
}

async function ofRun(folder: string): Promise<Checked> {
  const run = await readRun(folder);
  if (run === undefined)
    throw usageError(`${folder}: holds no _run.json, expected a run`, 'name a folder that was given with -o');
  const paths = runPaths(folder);
  const present = await presentParts(folder, run);
  const numbers = Array.from({ length: run.parts }, (_, part) => part);
  const missing = numbers.filter((part) => !present.has(part));
  const findings = [...present]
    .filter((part) => part >= run.parts)
    .map((part) => `${paths.part(part, run.output)}: is no part of the run`);
  const files: Checked['files'][number][] = [];
  for (const part of numbers.filter((each) => present.has(each))) {
    const path = paths.part(part, run.output);
    const facts = await factsOfPart(folder, part, run.output);
    if (facts === undefined)
      findings.push(`${path}: does not say that it is part ${part} of a run: it is damaged, or another file`);
    else if (facts.run !== run.run) findings.push(`${path}: is of another run than _run.json`);
    else files.push({ path, facts, rejects: paths.rejectsOf(part) });
  }
  const lack = missing.length > 0 && `${folder}: missing: ${ranges(missing)} of ${plural(run.parts, 'part')}`;
  return { files, findings, config: run.config, part: run.part, ...(lack && { missing: lack }) };
}

/** A file, or those that a run was dealt out to, the first of which counts the rejects. */
async function ofFiles(path: string, fault: string | null | undefined): Promise<Checked> {
  const inputs = await resolveInputs([path]);
  const files: Checked['files'][number][] = [];
  for (const [n, { path: file }] of inputs.entries()) {
    const facts = await factsOfFile(file);
    if (facts === undefined)
      throw usageError(
        `${file}: nothing says what was written: its metadata have no ${FACTS_KEY}, or of JSON lines the summary is not beside it`,
        'name a file that score or segment has written with -o',
      );
    files.push({ path: file, facts, rejects: filePaths(n === 0 ? path : file).rejects });
  }
  const config = configIn(await firstAccount(inputs));
  return { files, findings: fault ? [`${path}: ${fault}`] : [], config, part: (await partOf(inputs))?.part };
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
  const isScored = command === undefined ? undefined : command === 'score';
  let [traces, sigma, faults] = [0, 0, 0];
  try {
    for await (const row of readRows(await resolveInputs([path]))) {
      if (isBad(row)) throw new Error(`row ${row.row}: ${row.rejection.reason}`);
      traces++;
      const ours = oursOf(row.columns, chosen);
      if (isList(ours.sigma)) sigma += sum(Float32Array.from(ours.sigma, Number));
      const id = typeof ours.id === 'string' ? `(id ${JSON.stringify(ours.id)}) ` : '';
      for (const text of checkRow(ours, isScored))
        if (++faults <= MOST_FAULTS) yield [path, `row ${row.row}: ${id}${text}`];
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
    yield [rejects, `is not what was written, with ${plural(facts.rejects, 'reject')}`];
}
