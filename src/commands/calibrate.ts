// `rredcot calibrate`: fits the calibrated value's weights to the rewards of scored files, and says how good they are.
import { randomBytes } from 'node:crypto';
import { basename, dirname, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { dataError, EXIT, type ExitCode, throwIfInterrupted, usageError } from '../errors.js';
import { scoredWith } from '../estimate/calibrated.js';
import { calibrationFile, type ScoredWith } from '../estimate/calibration.js';
import { type FitTrace, fitCalibration } from '../estimate/calibration-fit.js';
import { baseOfFile, fitTraceOf } from '../estimate/calibration-rows.js';
import { type Base, FEATURES_OF } from '../estimate/states.js';
import { writeText } from '../io/files/json-file.js';
import { readRows, resolveInputs } from '../io/read/inputs.js';
import { partText } from '../io/write/part.js';
import { VERSION } from '../package-files.js';
import { plural } from '../plural.js';
import type { Log } from '../report/log.js';
import { isBad } from '../rows.js';
import { assertPlace } from '../run/target.js';
import { assertWritten, storedRunOf } from '../scored/open-scored.js';
import { partOf } from '../scored/provenance.js';
import { openScratch, type Scratch } from '../scored/scratch.js';
import { columnsOf, storedRow } from '../scored/stored-rows.js';
import { tellCalibration } from './calibration-view.js';

export interface CalibrateOptions {
  readonly output: string;
  readonly signal: AbortSignal;
}

/**
 * Fits the calibrated value to the rewards of scored traces, and writes it. Rows are read once; their features lie in a
 * scratch file beside the output until the fit has ended.
 * @throws RredcotError: exit 2 for files that are not to be fitted to, 65 where no trace can be used
 */
export async function calibrate(
  paths: readonly string[],
  { output, signal }: CalibrateOptions,
  log: Log,
): Promise<ExitCode> {
  await assertPlace(output, paths);
  const name = `.${basename(output)}.${randomBytes(4).toString('hex')}.scratch`;
  const scratch = await openScratch(join(dirname(output), name));
  try {
    const { base, ...common } = await gather(paths, scratch, signal, log);
    const F = FEATURES_OF[base].length;
    const fit = await fitCalibration(() => fitTraces(scratch, signal), F, base !== 'none');
    const file = calibrationFile(fit, { rredcot: VERSION, ...common }, base);
    await writeText(output, `${JSON.stringify(file, null, 1)}\n`);
    tellCalibration(file, output, log);
    return EXIT.done;
  } finally {
    await scratch.close();
  }
}

/** Reads all files, and leaves the features of their traces in the scratch file. */
async function gather(
  paths: readonly string[],
  scratch: Scratch,
  signal: AbortSignal,
  log: Log,
): Promise<ScoredWith & { readonly skipped: Record<string, number>; readonly base: Base }> {
  // each trace of a file that is given twice would count twice
  await resolveInputs(paths);
  const skipped = new Map<string, number>();
  let traces = 0;
  let example: string | undefined;
  let common: ScoredWith | undefined;
  let base: Base | undefined;
  for (const path of paths) {
    const { account, columns, part, rows } = await opened(path);
    const own = baseOfFile(path, columns, account.config);
    base ??= own;
    if (own !== base)
      throw usageError(
        `${path}: its values are those of ${own}, and of ${base} in ${paths[0]}`,
        'files of one estimator',
      );
    const { policy, config } = account;
    const said = { policy: policy ? { ...policy } : null, scored_with: config ? scoredWith(config) : null };
    common ??= said;
    for (const [key, unsaid, other] of DIFFER)
      if (!isDeepStrictEqual(common[key], said[key])) {
        common = { ...common, [key]: null };
        const what =
          said[key] === null
            ? `${path}: does not say ${unsaid}, as other files do`
            : `${path}: was scored ${other} than the files before it, or one of them does not say how`;
        log.warn('files_differ', what);
      }
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
      const found = fitTraceOf(stored, own);
      if (typeof found !== 'string') {
        const { features, reward, place: at } = found;
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
  if (left > 0) log.warn('traces_skipped', `${plural(left, 'trace')} left out, the first: ${example}`);
  return {
    ...(common as ScoredWith),
    base: base as Base,
    skipped: Object.fromEntries([...skipped].sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}

/** What files may say otherwise of how they were scored, or not at all. */
const DIFFER = [
  ['policy', 'which policy scored it', 'by another policy'],
  ['scored_with', 'with which flags it was scored', 'with other flags'],
] as const;

const HINT = 'rredcot verify names what is damaged; score makes it again';

/** @throws RredcotError (exit 65) for bytes that nobody of ours has written */
async function opened(path: string) {
  const inputs = await resolveInputs([path]);
  const account = await storedRunOf(path, inputs);
  await assertWritten(inputs);
  const { columns } = await columnsOf(inputs);
  return { account, columns, part: (await partOf(inputs))?.part, rows: readRows(inputs) };
}

async function* fitTraces(scratch: Scratch, signal: AbortSignal): AsyncGenerator<FitTrace> {
  for await (const row of scratch.rows()) {
    throwIfInterrupted(signal);
    const [reward = 0, fold = 0, mark = 0] = row;
    yield { features: row.subarray(3), reward, place: { fold, mark } };
  }
}
