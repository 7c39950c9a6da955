// A single file as a run's output: what stands at its place, and the run's parts joined there, with its rejects and its summary.
import { readdir } from 'node:fs/promises';
import { interruptedError, OvertakenError, throwIfInterrupted, usageError } from '../errors.js';
import { putInPlace } from '../io/files/atomic-file.js';
import { FACTS_KEY, type Facts, parseFacts } from '../io/files/facts.js';
import { fileBytes, sha256OfFile, statIfThere } from '../io/files/files.js';
import { runPaths } from '../io/files/run-folder.js';
import { inputMetadata, resolveInputs } from '../io/read/inputs.js';
import { dealFiles } from '../io/write/deal-files.js';
import { factsOfPart, fileFault, readSummary, sumCounts, writeSummary } from '../io/write/facts.js';
import { joinFiles } from '../io/write/join-files.js';
import { CONFIG_KEY, namedFormat, openRejects, POLICY_KEY, VERSION_KEY } from '../io/write/output.js';
import type { Target } from '../io/write/target.js';
import type { Log } from '../report/log.js';
import type { RunStats } from '../report/run-stats.js';
import { assertOurs, dropHidden, type ExistingParts, existingParts } from './folder.js';
import { firstDifference, type Run } from './identity.js';

/** A file at the output's place. */
interface Existing {
  /** identity of its run; undefined where nothing of ours says one */
  readonly run: string | undefined;
  readonly counts?: Pick<Facts, 'traces' | 'rejects'> | undefined;
  /** how it was made, as far as it says so */
  readonly origin?: Partial<Pick<Run, 'rredcot' | 'config' | 'policy'>> | undefined;
  readonly mtimeMs: number;
}

/** What is at a path; undefined where nothing is. */
export async function existingOutput(path: string): Promise<Existing | undefined> {
  const found = await statIfThere(path);
  const names = found?.isDirectory() ? await readdir(path, { recursive: true }) : undefined;
  if (found === null || names?.length === 0) return undefined;
  const isBeside = names !== undefined || namedFormat(path) === 'jsonl';
  // a file that nobody can read is none of ours, nor is a folder with anything else in it
  const said = await (isBeside ? ofLines(path) : ofColumns(path)).catch(() => undefined);
  const isOurs = names?.every((name) => /^[^/]*=[^/]*(?:\/part-00000\.\w+)?$/.test(name)) ?? true;
  return { run: undefined, ...(isOurs && said), mtimeMs: found.mtimeMs };
}

async function ofColumns(path: string): Promise<Omit<Existing, 'mtimeMs'>> {
  const [input] = await resolveInputs([path]);
  const metadata = input === undefined ? new Map<string, string>() : await inputMetadata(input);
  const facts = parseFacts(metadata.get(FACTS_KEY));
  const keys = { rredcot: VERSION_KEY, config: CONFIG_KEY, policy: POLICY_KEY };
  const said = Object.entries(keys).flatMap(([name, key]) => {
    const text = metadata.get(key);
    return text === undefined ? [] : [[name, name === 'rredcot' ? text : JSON.parse(text)]];
  });
  return { run: facts?.run, counts: facts, origin: Object.fromEntries(said) };
}

/** JSON lines, and rows that were dealt out, say nothing of their run; the summary beside them does. */
async function ofLines(path: string): Promise<Omit<Existing, 'mtimeMs'>> {
  const summary = await readSummary(path);
  return { run: summary?.run, counts: summary, origin: summary && { config: summary.config } };
}

/** The output where it stands already, whole, and of the run that is asked for. */
export async function madeAlready(path: string, { run }: Pick<Run, 'run'>): Promise<Existing | undefined> {
  const found = await existingOutput(path);
  return found?.run === run && (await fileFault(path)) === null ? found : undefined;
}

/** The output that is asked for, where it stands already. @throws RredcotError (exit 2) for what else stands there, naming what differs */
export async function lookAtOutput({ path, partition }: Target, wanted: Run, overwrite: boolean) {
  const found = overwrite && partition === undefined ? undefined : await existingOutput(path);
  // a folder that is nobody's is never replaced
  if (overwrite && found?.run !== undefined) return undefined;
  const fault = found && (await whyOther(path, found, wanted));
  if (fault === undefined) return found;
  const isOthers = partition !== undefined && found?.run === undefined;
  const again = overwrite || isOthers ? '' : '--overwrite puts the new one in its place; or ';
  throw usageError(`${path}: ${fault}`, `${again}name another output with -o`);
}

async function whyOther(path: string, found: Existing, wanted: Run): Promise<string | undefined> {
  if (found.run === undefined) return 'is there already, and is no output of a run';
  if (found.run !== wanted.run) {
    const { rredcot, config, policy } = wanted;
    const said = Object.fromEntries(
      Object.entries({ rredcot, config, policy }).filter(([key]) => Object.hasOwn(found.origin ?? {}, key)),
    );
    const others =
      'of other inputs, of these before they were edited, by another policy, or with another --rows-per-part';
    // what auto takes is settled by the run: pr beside a fit is its own, a probe may be
    const { calibration: fit, ...then } = Object(found.origin?.config) as Run['config'];
    const isFitted = fit !== undefined && config.calibration === undefined;
    const isOfAuto = isFitted && (then.estimator === 'pr' || config.estimator === 'auto');
    const origin = isOfAuto ? { ...found.origin, config: { ...then, estimator: 'auto' } } : found.origin;
    return `is the output of another run: ${firstDifference(origin, said) ?? others}`;
  }
  const younger = wanted.inputs.find(({ mtime_ms: mtime }) => mtime !== null && mtime > found.mtimeMs);
  if (younger !== undefined) return `is older than its input: ${younger.path} was written since`;
  const fault = await fileFault(path);
  return fault === undefined ? 'has lost the hash of its bytes' : (fault ?? undefined);
}

export interface SingleFileOptions {
  readonly folder: string;
  readonly run: Run;
  readonly existing: ExistingParts;
  readonly target: Target;
  readonly overwrite: boolean;
  readonly signal: AbortSignal;
  /** what the summary says besides */
  readonly stats: Pick<RunStats, 'wholeRecord'>;
  readonly log: Log;
}

/** Makes a file of all parts of a run visible, what is beside it first. @throws RredcotError (exit 75) for a part that is not what was written */
export async function joinParts(opts: SingleFileOptions): Promise<void> {
  const { folder, run, target, signal, overwrite, log } = opts;
  const { path, format, partition } = target;
  const isAll = opts.existing.size === run.parts;
  const existing = isAll ? opts.existing : await existingParts(folder, run, undefined, log);
  if (existing.size < run.parts) return log.info(`${existing.size} of ${run.parts} parts are there`);
  const paths = runPaths(folder);
  const rejects = await openRejects(target.rejects, folder);
  /** of several parts: that of one is its part */
  let file: Awaited<ReturnType<typeof joined>> | undefined;
  try {
    for (let part = 0; part < run.parts; part++)
      if (existing.get(part)?.rejects !== 0) await rejects.append(fileBytes(paths.rejectsOf(part)));
    const rejects_sha256 = await rejects.finish();
    const facts = { run: run.run, ...sumCounts(existing.values()), rejects_sha256 };
    if (run.parts > 1 || partition !== undefined || /\.arrows$/i.test(path))
      file = await joined(folder, run, target, facts, () => throwIfInterrupted(signal));
    const whole = file === undefined ? paths.part(0, format) : file.temporaryPath;
    const sha256 = format === 'jsonl' ? await sha256OfFile(whole) : null;
    await assertOurs(folder, run);
    const found = overwrite && partition === undefined ? undefined : await existingOutput(path);
    if (found && found.run !== run.run && (!overwrite || found.run === undefined))
      throw new OvertakenError(path);
    await rejects.publish();
    const told = isAll ? opts.stats.wholeRecord() : { output: path };
    const summary = { ...told, ...facts, ...(sha256 && { sha256 }), config: run.config };
    await writeSummary(path, summary, folder);
    await (file?.publish(overwrite) ?? putInPlace(whole, path, overwrite));
    await dropHidden(folder);
  } catch (error) {
    await file?.abort();
    await rejects.abort();
    throw error;
  }
}

/** Reads parts that are whole, and writes them in their order. @param onProgress may throw to stop */
async function joined(folder: string, run: Run, target: Target, facts: Facts, onProgress: () => void) {
  const { path, partition } = target;
  const paths = runPaths(folder);
  const parts = Array.from({ length: run.parts }, (_, part) => paths.part(part, run.output));
  for (const [number, part] of parts.entries()) {
    onProgress();
    const said = await factsOfPart(folder, number, run.output);
    if (said?.run === run.run && (await fileFault(part)) === null) continue;
    // the same command, started twice, may have ended the run, and taken its folder away
    await assertOurs(folder, run);
    const again = `rm ${part}, then the same command again, which makes it anew`;
    throw interruptedError(`${part}: is not the part that was written`, again);
  }
  const opts = { folder, format: run.output, facts, onProgress };
  return await (partition ? dealFiles(path, parts, partition, opts) : joinFiles(path, parts, opts));
}
