// `rredcot calibrate`: fits the calibrated value's weights to the rewards of scored files, and says how good they are.
import { randomBytes } from 'node:crypto';
import { basename, dirname, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { dataError, EXIT, type ExitCode, throwIfInterrupted, usageError } from '../errors.js';
import { scoredWith, storedStates } from '../estimate/calibrated.js';
import { type CalibrationFile, calibrationFile, type ScoredWith } from '../estimate/calibration.js';
import { type FitTrace, fitCalibration, groupPlace } from '../estimate/calibration-fit.js';
import { storedNature } from '../estimate/registry.js';
import { type Base, type ColumnFeature, FEATURES_OF, stateFeatures } from '../estimate/states.js';
import { writeText } from '../io/files/json-file.js';
import { readRows, resolveInputs } from '../io/read/inputs.js';
import { partText } from '../io/write/part.js';
import { VERSION } from '../package-files.js';
import { plural } from '../plural.js';
import { HashSet } from '../report/hash-set.js';
import type { Log } from '../report/log.js';
import { isBad } from '../rows.js';
import { assertPlace } from '../run/target.js';
import type { OurColumn } from '../scored/columns.js';
import { accountOf, assertWritten, type ScoredAccount } from '../scored/open-scored.js';
import { partOf } from '../scored/origins.js';
import { openScratch, type Scratch } from '../scored/scratch.js';
import { columnsOf, storedRow } from '../scored/stored-rows.js';
import type { OutputRow } from '../scored.js';
import { drawCalibration } from './calibration-view.js';

export interface CalibrateOptions {
  readonly output: string;
  /** beside those that are always there */
  readonly further: readonly ColumnFeature[];
  readonly signal: AbortSignal;
}

/** Columns without which nothing can be fitted. */
const NEEDED: readonly OurColumn[] = ['segments', 'logprobs', 'reward', 'id'];
const OF_REFERENCES = ['reference_logprobs', 'reference_tokens', 'reference_utilities'] as const;
/** Further ones, by whose values are calibrated. */
const NEEDED_OF: Readonly<Record<Base, readonly OurColumn[]>> = {
  pr: OF_REFERENCES,
  ask: [...OF_REFERENCES, 'entropies'],
  none: ['entropies'],
};

/**
 * Fits the calibrated value to the rewards of scored traces, and writes it. Rows are read once; their features lie in a
 * scratch file beside the output until the fit has ended.
 * @throws RredcotError: exit 2 for files that are not to be fitted to, 65 where no trace can be used
 */
export async function calibrate(
  paths: readonly string[],
  { output, further, signal }: CalibrateOptions,
  log: Log,
): Promise<ExitCode> {
  await assertPlace(output, paths);
  const name = `.${basename(output)}.${randomBytes(4).toString('hex')}.scratch`;
  const scratch = await openScratch(join(dirname(output), name));
  try {
    const { base, ...common } = await gather(paths, further, scratch, signal, log);
    const F = FEATURES_OF[base].length + further.length;
    const fit = await fitCalibration(() => fitTraces(scratch, signal), F, base !== 'none');
    const file = calibrationFile(fit, { rredcot: VERSION, ...common }, further, base);
    await writeText(output, `${JSON.stringify(file, null, 1)}\n`);
    report(file, output, log);
    return EXIT.done;
  } finally {
    await scratch.close();
  }
}

/** Reads all files, and leaves the features of their traces in the scratch file. */
async function gather(
  paths: readonly string[],
  further: readonly ColumnFeature[],
  scratch: Scratch,
  signal: AbortSignal,
  log: Log,
): Promise<ScoredWith & { readonly skipped: Record<string, number>; readonly base: Base }> {
  // each trace of a file that is given twice would count twice
  await resolveInputs(paths);
  const skipped = new Map<string, number>();
  const seen = new HashSet();
  const again = { traces: 0, first: '' };
  let traces = 0;
  let example: string | undefined;
  const policies = agreement<NonNullable<ScoredWith['policy']>>(
    'which policy scored it',
    'by another policy',
  );
  let base: Base | undefined;
  const ways = agreement<NonNullable<ScoredWith['scored_with']>>(
    'with which flags it was scored',
    'with other flags',
  );
  for (const path of paths) {
    const { account, columns, part, rows } = await opened(path);
    const own = checkFile(path, columns, account, further);
    base ??= own;
    if (own !== base)
      throw usageError(
        `${path}: its values are ${WHOSE[own]}, those of ${paths[0]} ${WHOSE[base]}`,
        'files of one estimator',
      );
    const { policy = null, config } = account;
    const way = config === undefined ? null : scoredWith(config);
    for (const told of [policies.add(policy && { ...policy }, path), ways.add(way, path)])
      if (told !== undefined) log.warn('files_differ', told);
    if (part !== undefined)
      log.warn(
        'part',
        `${path}: ${partText(part)}: the weights are fitted to the traces that are left, and traces of their groups that are not have no say in them`,
      );
    for await (const row of rows) {
      throwIfInterrupted(signal);
      const place = `${row.file}: row ${row.row}`;
      if (isBad(row)) throw dataError(`${place}: ${row.rejection.reason}`, HINT);
      const stored = storedRow(row.columns, row);
      const found = traceOf(stored, further, own);
      if (typeof found !== 'string') {
        const { features, reward, place: at } = found;
        if (!seen.add(likeness(stored, found)) && again.traces++ === 0) again.first = place;
        await scratch.add(Float64Array.of(reward, at.fold, at.mark, ...features));
        log.progress(`reading: ${plural(++traces, 'trace')}`, { traces });
        continue;
      }
      const reason = found.replaceAll(/-?\d[\d.e+-]*(, )?/g, '').trim();
      skipped.set(reason, (skipped.get(reason) ?? 0) + 1);
      example ??= `${place}: ${found}`;
    }
  }
  const left = [...skipped.values()].reduce((sum, n) => sum + n, 0);
  if (traces === 0)
    throw dataError(
      example === undefined
        ? `${paths.join(', ')}: no trace`
        : `no trace of ${left} can be fitted to, the first: ${example}`,
      'rredcot score with rewards in the rows, and references, or --estimator ask or surprise, which need none',
    );
  if (again.traces > 0)
    log.warn(
      'same_traces',
      `${plural(again.traces, 'trace')} ${again.traces === 1 ? 'was' : 'were'} read before, with the same id, group and values (the first again: ${again.first}), and ${again.traces === 1 ? 'counts' : 'count'} again: is a run given in several files?`,
    );
  if (left > 0) log.warn('traces_skipped', `${plural(left, 'trace')} left out, the first: ${example}`);
  return {
    policy: policies.common(),
    scored_with: ways.common(),
    base: base as Base,
    skipped: Object.fromEntries([...skipped].sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}

/**
 * One thing that files say of how they were made, or leave unsaid.
 * @param what it is, as in "does not say which policy scored it"
 * @param other as in "was scored by another policy"
 */
export function agreement<T>(what: string, other: string) {
  let first: T | undefined;
  let silent: string | undefined;
  let isMixed = false;
  const unsaid = (path: string) =>
    `${path}: does not say ${what}, as other files do: nobody can tell whether it is the same`;
  return {
    /** @returns what is to be told: of a file that differs from the first, or of the first one that is silent where others are not */
    add(own: T | null, path: string): string | undefined {
      const [before, quiet] = [first, silent];
      if (own === null) silent ??= path;
      else first ??= own;
      if (own === null) return before !== undefined && quiet === undefined ? unsaid(path) : undefined;
      if (before === undefined) return quiet === undefined ? undefined : unsaid(quiet);
      if (isDeepStrictEqual(before, own)) return undefined;
      isMixed = true;
      return `${path}: was scored ${other} than the files before it`;
    },
    /** null where files differ, or one says nothing */
    common: (): T | null => (isMixed || silent !== undefined ? null : (first ?? null)),
  };
}

const HINT = 'rredcot verify names what is damaged; score makes it again';

/** @throws RredcotError (exit 65) for bytes that nobody of ours has written */
async function opened(path: string) {
  const inputs = await resolveInputs([path]);
  const account = await accountOf(path, inputs);
  await assertWritten(inputs);
  const { columns } = await columnsOf(inputs);
  return { account, columns, part: (await partOf(inputs))?.part, rows: readRows(inputs) };
}

/** A trace as the fit takes it, or why it does not. */
function traceOf(row: OutputRow, further: readonly ColumnFeature[], base: Base): FitTrace | string {
  const { reward, trace } = row;
  if (reward === null) return 'its reward is unknown';
  if (!(reward >= 0 && reward <= 1)) return `its reward is ${reward}, expected 0 to 1`;
  const states = storedStates(row, further, base);
  if (typeof states === 'string') return states;
  const features = stateFeatures(states, further, base);
  // what a trace is left out with: its group, or itself
  return { features, reward: Math.fround(reward), place: groupPlace(trace.group ?? trace.id) };
}

/** What tells a trace from any other, whatever format it was read from. */
function likeness({ trace: { id, group } }: OutputRow, { features, reward }: FitTrace): string {
  const numbers = Array.from(features, (x) => x.toPrecision(5));
  return JSON.stringify([id, group, reward, ...numbers]);
}

async function* fitTraces(scratch: Scratch, signal: AbortSignal): AsyncGenerator<FitTrace> {
  for await (const row of scratch.rows()) {
    throwIfInterrupted(signal);
    const [reward = 0, fold = 0, mark = 0] = row;
    yield { features: row.subarray(3), reward, place: { fold, mark } };
  }
}

/** Whose values a file has, where it is one of those that are calibrated. */
const WHOSE: Readonly<Record<Base, string>> = { pr: 'of references', ask: 'of ask', none: 'of neither' };

/** Whose values are to be calibrated: of a file that says nothing of its estimator `pr`, where nothing was scored none. */
function baseOf({ config }: ScoredAccount): Base | undefined {
  const nature = config && storedNature(config);
  if (nature === undefined) return 'pr';
  if (nature.scores === 'questions') return 'ask';
  if (nature.scores === 'nothing') return nature.isOfRow ? undefined : 'none';
  return nature.scores === 'answers' && !nature.isOfProver ? 'pr' : undefined;
}

/**
 * @returns whose values it has
 * @throws RredcotError (exit 2) for a file that has not what is needed, or v̂ of another kind
 */
function checkFile(
  path: string,
  columns: readonly string[] | undefined,
  account: ScoredAccount,
  further: readonly ColumnFeature[],
): Base {
  const base = baseOf(account);
  const needed = [...NEEDED, ...NEEDED_OF[base ?? 'pr']];
  const missing = columns === undefined ? [] : needed.filter((name) => !columns.includes(name));
  if (missing.length > 0)
    throw usageError(
      `${path}: has no column ${missing.join(', ')}, expected a file of score`,
      `score without --columns, or with --columns ${needed.join(',')},group`,
    );
  const absent = columns && further.find(({ column }) => !columns.includes(column));
  if (absent !== undefined)
    throw usageError(
      `${path}: has no column ${absent.column} (--features ${absent.name})`,
      'score rows that have it, or --join <file> --join-on id --join-columns <its name there>',
    );
  if (base === undefined)
    throw usageError(
      `${path}: was scored with --estimator ${account.config?.estimator}, expected one that scores answers at exit points, or asks there, or scores nothing`,
      'score with --estimator pr',
    );
  return base;
}

function report(file: CalibrationFile, output: string, log: Log): void {
  log.text(`\n${drawCalibration(file).join('\n')}\n`);
  const { stands_back, traces, groups, log_loss, estimator } = file;
  if (stands_back !== null)
    log.warn(
      'calibration_stands_back',
      `${STANDS_BACK[stands_back]}: with it, --estimator calibrated ${estimator === 'none' ? 'has no values' : `leaves the values of ${estimator} as they are (status value:uncalibrated)`}`,
    );
  log.record('calibrated', { traces, groups, stands_back, log_loss, output });
  log.info(`written to ${output}`);
}

const STANDS_BACK = {
  'too-few-groups': 'too few groups to leave some of them out',
  'one-reward': 'all traces have the same reward',
  'no-gain': 'on groups that it has not seen, the calibration is no better than v̂ or than a constant',
} as const;
