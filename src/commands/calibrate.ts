// `rredcot calibrate`: fits the calibrated value's weights to the rewards of scored files, and says how good they are.
import { dirname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { dataError, EXIT, type ExitCode, throwIfInterrupted, usageError } from '../errors.js';
import { scoredWith } from '../estimate/calibrated.js';
import type { FitAbout, ScoredWith } from '../estimate/calibration.js';
import { baseOfFile, fitStored, fitTraceOf, furtherColumns } from '../estimate/calibration-rows.js';
import type { KnownTrace } from '../estimate/fit/fit.js';
import { betweenPasses, tellProbe } from '../estimate/probe.js';
import type { FitKind } from '../estimate/states.js';
import type { OutputColumn } from '../io/arrow/output-columns.js';
import { writeText } from '../io/files/atomic-file.js';
import { readRows, resolveInputs } from '../io/read/inputs.js';
import { partText } from '../io/write/facts.js';
import { assertPlace } from '../io/write/target.js';
import { plural } from '../plural.js';
import { tellCalibration } from '../report/calibration-view.js';
import type { Log } from '../report/log.js';
import { isBad } from '../rows.js';
import { storedRow } from '../scored/columns.js';
import { openSpill } from '../scored/spill.js';
import { assertWritten, columnsOf, configIn, firstAccount, partOf, policyIn } from '../scored/stored-run.js';

export interface CalibrateOptions {
  readonly output: string;
  /** the probe is fitted, to hidden states that rows have kept, in place of the calibrated value */
  readonly isProbe: boolean;
  readonly signal: AbortSignal;
}

/**
 * Fits the calibrated value to the rewards of scored traces, and writes it. Rows are read once; their features lie in a
 * spill file beside the output until the fit has ended.
 * @throws RredcotError: exit 2 for files that are not to be fitted to, 65 where no trace can be used
 */
export async function calibrate(
  paths: readonly string[],
  { output, isProbe, signal }: CalibrateOptions,
  log: Log,
): Promise<ExitCode> {
  await assertPlace(output, paths);
  const features = await openFeatures(dirname(output));
  try {
    const about = await gather(paths, features, isProbe, signal, log);
    const file = await fitStored(() => features.traces(signal), about, betweenPasses(log, signal));
    await writeText(output, `${JSON.stringify(file, null, 1)}\n`);
    if (isProbe) tellProbe(file, log);
    else tellCalibration(file, output, log);
    log.info(`written to ${output}`);
    return EXIT.done;
  } finally {
    await features.close();
  }
}

/** Reads all files, and leaves the features of their traces in the spill file. */
async function gather(
  paths: readonly string[],
  features: Features,
  isProbe: boolean,
  signal: AbortSignal,
  log: Log,
): Promise<FitAbout> {
  // each trace of a file that is given twice would count twice
  await resolveInputs(paths);
  const skipped: Record<string, number> = {};
  let traces = 0;
  let example: string | undefined;
  let common: ScoredWith | undefined;
  let kind: FitKind | undefined;
  const columns = furtherColumns(isProbe);
  let layers: unknown;
  for (const path of paths) {
    const { own, said, part, rows, config } = await opened(path, columns);
    [kind, layers] = [kind ?? own, layers ?? config?.stateLayers];
    if (own !== kind)
      throw usageError(
        `${path}: its values are those of ${own}, and of ${kind} in ${paths[0]}`,
        'files of one estimator',
      );
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
      if (isBad(row)) throw dataError(`${place}: ${row.rejection.reason}`, 'rredcot verify names the damage');
      const found = fitTraceOf(storedRow(row.columns, row, columns), isProbe ? 'probe' : own);
      if (typeof found !== 'string') {
        await features.add(found);
        log.progress(`reading: ${plural(++traces, 'trace')}`, { traces });
        continue;
      }
      const reason = found.replaceAll(/-?\d[\d.e+-]*(, )?/g, '').trim();
      skipped[reason] = (skipped[reason] ?? 0) + 1;
      example ??= `${place}: ${found}`;
    }
  }
  const left = Object.values(skipped).reduce((sum, n) => sum + n, 0);
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
    skipped,
    layers: (layers ?? []) as number[],
    kind: isProbe ? 'probe' : (kind as FitKind),
  };
}

/** What files may say otherwise of how they were scored, or not at all. */
const DIFFER = [
  ['policy', 'which policy scored it', 'by another policy'],
  ['scored_with', 'with which flags it was scored', 'with other flags'],
] as const;

/** @throws RredcotError (exit 65) for bytes that nobody of ours has written */
async function opened(path: string, further: readonly OutputColumn[]) {
  const inputs = await resolveInputs([path]);
  const account = await firstAccount(inputs);
  await assertWritten(inputs);
  const part = (await partOf(inputs))?.part;
  const config = configIn(account);
  const said = { policy: policyIn(account) ?? null, scored_with: config ? scoredWith(config) : null };
  const own = baseOfFile(path, (await columnsOf(inputs)).columns, config, further);
  return { own, said, part, rows: readRows(inputs), config };
}

/** Traces that are read and written at a time. */
const BLOCK = 256;

type Features = Awaited<ReturnType<typeof openFeatures>>;

/** The features of traces, which the fit reads many times, in a spill file. */
async function openFeatures(folder: string) {
  const spill = await openSpill(folder);
  const blocks: number[] = [];
  let last: KnownTrace[] = [];
  return {
    async add(trace: KnownTrace): Promise<void> {
      if (last.push(trace) < BLOCK) return;
      blocks.push(await spill.add(last));
      last = [];
    },
    async *traces(signal: AbortSignal): AsyncGenerator<KnownTrace> {
      for (const block of blocks) {
        throwIfInterrupted(signal);
        yield* (await spill.get(block)) as KnownTrace[];
      }
      yield* last;
    },
    close: () => spill.close(),
  };
}
