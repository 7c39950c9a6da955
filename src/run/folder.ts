// A run's folder: claimed by the first command that writes into it, looked at for the parts that stand, ended when all do, and dropped for another run.
import { randomBytes } from 'node:crypto';
import { link, readdir, rename, rm, rmdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { setTimeout as after } from 'node:timers/promises';
import { EXIT, interruptedError, OvertakenError, RredcotError, usageError } from '../errors.js';
import { wordsOf } from '../estimate/registry.js';
import { makeFolder, putInPlace, removeFile, syncFolder } from '../io/files/atomic-file.js';
import type { Facts } from '../io/files/facts.js';
import { fileError, isAbsent, isStored, listObjects, sha256OfFile, textOf } from '../io/files/files.js';
import { partNumber, runPaths, type Shard } from '../io/files/run-folder.js';
import { type Counts, factsOfPart, fileFault, sumCounts } from '../io/write/facts.js';
import { CARD_HEAD, type CardFacts, writeCard } from '../report/dataset-card.js';
import type { Log } from '../report/log.js';
import { differenceOf, type Run, readRun } from './identity.js';

/** How a file system says that it has no hard links. */
const NO_HARD_LINKS = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK']);
/** How often a claim is tried while other commands drop the folder again. */
const TRIES = 20;
const PATIENCE = 5;
const WAIT_MS = 50;

/** Names of the files in a folder, those of its own folders with their path; none where there is no folder. */
async function namesIn(folder: string): Promise<string[]> {
  if (isStored(folder)) return (await listObjects(`${folder}/`)).map((each) => each.slice(folder.length + 1));
  try {
    const entries = await readdir(folder, { recursive: true });
    return entries.map((name) => name.replaceAll('\\', '/'));
  } catch (error) {
    if (isAbsent(error)) return [];
    throw fileError(error, folder, 'written');
  }
}

export interface ClaimOptions {
  /** the folder is that of a single file, and all in it is ours */
  readonly isHidden: boolean;
  /** drop another run that is there */
  readonly overwrite: boolean;
  /** its input cannot be read again: a run that is there is another one */
  readonly isStream: boolean;
}

/** Begins the run in a folder, or finds it begun. Any number of processes may do so. @throws RredcotError (exit 2) naming what differs from a run there */
export async function claimRun(
  folder: string,
  run: Run,
  { isHidden, overwrite, isStream }: ClaimOptions,
): Promise<void> {
  const paths = runPaths(folder);
  const content = `${JSON.stringify(run, null, 2)}\n`;
  for (let tries = 0; tries < TRIES; tries++) {
    // half written where a file system has no hard links and its process is at it, or was killed
    if (tries > 0) await after(WAIT_MS);
    const found = await readRun(folder).catch((error: Error) => error);
    if (found instanceof Error) {
      const isDamaged = found instanceof RredcotError && found.exitCode === EXIT.usage;
      if (isDamaged && tries < PATIENCE) continue;
      if (!isDamaged || !overwrite) throw found;
    }
    if (found === undefined) {
      if (!isHidden) await refuseOtherFiles(folder, overwrite);
      if (await createdAnew(paths.run, content, folder)) return;
      continue;
    }
    const ofStream = isStream ? 'it is of a stream, or here is one, which cannot be read again' : undefined;
    const difference = found instanceof Error ? found.message : (differenceOf(found, run) ?? ofStream);
    if (difference === undefined) return;
    if (!overwrite)
      throw usageError(
        `${folder}: holds another run: in _run.json, ${difference}`,
        'give the same flags and inputs, name another output with -o, or start again with --overwrite',
      );
    await (isHidden ? dropHidden(folder) : dropParts(folder));
  }
  const busy = `${folder}: other commands begin and drop runs there all the time`;
  throw interruptedError(busy, 'one command at an output');
}

/** @throws RredcotError (exit 2) for a folder that holds something else; rows that were dealt out would stand beside the parts */
async function refuseOtherFiles(folder: string, overwrite: boolean): Promise<void> {
  const all = (await namesIn(folder)).filter((name) => !name.startsWith('.'));
  const dealt = all.filter((name) => /^[^/]+=[^/]*\//.test(name));
  const names = overwrite ? dealt : all;
  const [other] = names;
  // another command has just begun a run there
  if (other !== undefined && !names.includes(basename(runPaths(folder).run)))
    throw usageError(
      `${folder}: holds ${other} and no _run.json, expected a run or an empty folder`,
      `name another folder with -o${dealt.length > 0 ? '' : ', or --overwrite, which replaces parts alone'}`,
    );
}

/** Makes a file with its whole content, unless it is there: of two processes one succeeds. */
async function createdAnew(path: string, content: string, folder: string): Promise<boolean> {
  const place = isStored(folder) ? tmpdir() : folder;
  const own = join(place, `.run.${randomBytes(4).toString('hex')}.tmp`);
  try {
    if (!isStored(folder)) await makeFolder(folder);
    await writeFile(own, content, { flush: true });
    if (isStored(folder)) await putInPlace(own, path, false);
    else
      await link(own, path).catch(async (error: NodeJS.ErrnoException) => {
        if (!NO_HARD_LINKS.has(error.code ?? '')) throw error;
        // the content is not there at once, but the name is ours alone
        await writeFile(path, content, { flag: 'wx', flush: true });
      });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST' || error instanceof OvertakenError) return false;
    // a folder that was made for it, and in which nothing is, helps nobody
    await rm(own, { force: true });
    if (!isStored(folder)) await rmdir(folder).catch(() => {});
    throw fileError(error, path, 'written');
  } finally {
    await rm(own, { force: true });
    // parts that outlive a power failure without their _run.json could not be gone on with
    if (!isStored(folder)) await syncFolder(dirname(folder)).catch(() => {});
  }
}

/** Asked of what is whole, before it is published under its name. @throws RredcotError (exit 75) where the folder has become another run's, or is gone */
export async function assertOurs(folder: string, { run }: Pick<Run, 'run'>): Promise<void> {
  const text = await textOf(runPaths(folder).run);
  if (text?.includes(`"run": "${run}"`)) return;
  throw new TakenError(folder);
}

/** Another command has dropped the run, or has ended it. */
export class TakenError extends RredcotError {
  constructor(folder: string, cause?: unknown) {
    const hint = 'look at the output; where it is not there, the same command again';
    super(
      `${folder}: was taken away while this process was at work in it: another command has ended the run, or replaced it`,
      { exitCode: EXIT.interrupted, hint, cause },
    );
  }
}

/** Whether an error says that a folder, or something in it, was no longer there. */
export function isLost(error: unknown, folder: string): boolean {
  if (error instanceof TakenError) return true;
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const { code, path = '' } = cause as NodeJS.ErrnoException;
    if (code === 'ENOENT' && `${resolve(path)}/`.startsWith(`${resolve(folder)}/`)) return true;
  }
  return false;
}

/** What the parts of a run that stand hold, by their numbers. */
export type ExistingParts = Map<number, Counts>;

/** @param shard whose parts are meant, byte by byte; undefined: all, as they say @throws RredcotError (exit 2) for a part of another run, which is never replaced */
export async function existingParts(
  folder: string,
  { run, output, parts }: Run,
  shard: Shard | undefined,
  log: Log,
): Promise<ExistingParts> {
  const found: ExistingParts = new Map();
  const paths = runPaths(folder);
  for (const name of (await namesIn(folder)).sort()) {
    const part = partNumber(name);
    if (part === undefined || (shard && part % shard.count !== shard.index)) continue;
    const facts = await factsOfPart(folder, part, output);
    const isOfRun = name.endsWith(`.${output}`) && part < parts;
    if (!isOfRun || (facts !== undefined && facts.run !== run))
      throw usageError(
        `${folder}/${name}: is of another run than _run.json`,
        'move it away, or start again with --overwrite',
      );
    const path = paths.part(part, output);
    const isLooked = shard !== undefined && !isStored(folder);
    const isWhole = async ({ rejects_sha256: hash }: Facts) =>
      (await fileFault(path)) === null && (await sha256OfFile(paths.rejectsOf(part))) === hash;
    if (facts === undefined || (isLooked && !(await isWhole(facts)))) {
      log.warn('part_damaged', `${path}: is not the part that was written: it is made again`);
      continue;
    }
    found.set(part, sumCounts([facts]));
  }
  return found;
}

/** Which of a run's parts have a file. */
export async function presentParts(folder: string, { output }: Pick<Run, 'output'>): Promise<Set<number>> {
  const names = (await namesIn(folder)).filter((name) => name.endsWith(`.${output}`));
  return new Set(names.map(partNumber).filter((part) => part !== undefined));
}

/** The rejects of a run's parts, in their order. */
export async function rejectFiles(folder: string): Promise<string[]> {
  const names = (await namesIn(folder)).filter((name) => name.startsWith('rejects/') && OURS.test(name));
  return names.sort().map((name) => `${folder}/${name}`);
}

const HALF_WRITTEN = /(^|\/)\.(part-\d{5}|README|run)\..*tmp$/;
const OURS = /^(rejects\/part-\d{5}\.jsonl|_facts\/part-\d{5}\.json)$/;

/** Removes what killed processes have left half written of a run that is whole: who still writes there has nothing to add. */
export async function removeLeftovers(folder: string): Promise<void> {
  if (isStored(folder)) return;
  for (const name of await namesIn(folder))
    if (HALF_WRITTEN.test(name)) await rm(join(folder, name), { force: true });
}

/** Drops the run in a user's folder; other files stay. Last goes what says that there is one. */
export async function dropParts(folder: string): Promise<void> {
  const { card, run, rejects, facts } = runPaths(folder);
  const names = await namesIn(folder);
  const own = names.filter(
    (name) => HALF_WRITTEN.test(name) || OURS.test(name) || partNumber(name) !== undefined,
  );
  // first what is being written, so that it cannot get its name
  for (const name of own.sort()) await removeFile(`${folder}/${name}`);
  if ((await textOf(card))?.startsWith(CARD_HEAD)) await removeFile(card);
  await removeFile(run);
  if (isStored(folder)) return;
  for (const own of [rejects, facts]) await rmdir(own).catch(() => {});
}

/** Drops the folder of a single file: away at once, so that whoever still writes there finds it gone. */
export async function dropHidden(folder: string): Promise<void> {
  const gone = `${folder}.${randomBytes(4).toString('hex')}.tmp`;
  await rename(folder, gone).catch((error: unknown) => {
    if (!isAbsent(error)) throw fileError(error, folder, 'written');
  });
  // and what a process has left that was killed right here
  const [place, stem] = [dirname(folder), `${basename(folder)}.`];
  for (const name of await readdir(place).catch((): string[] => []))
    if (name.startsWith(stem) && name.endsWith('.tmp'))
      await rm(join(place, name), { recursive: true, force: true, maxRetries: 3 });
}

/** Drops what a run has left beside its file, which stands. */
export async function sweepHidden(folder: string, { run }: Pick<Run, 'run'>): Promise<void> {
  const found = await readRun(folder).catch(() => null);
  if (found === undefined || found?.run === run) await dropHidden(folder);
}

/** Whether somebody is writing in a folder, or was when it was killed. */
export async function isBusy(folder: string): Promise<boolean> {
  return (await namesIn(folder)).some((name) => name.endsWith('.tmp'));
}

/** Says how many parts are there; where all are, ends the run. Whichever shard is the last does so. */
export async function finishFolder(
  folder: string,
  run: Run,
  layout: Pick<CardFacts, 'ourColumns' | 'passThrough' | 'metadata'>,
  log: Log,
): Promise<void> {
  const { size } = await presentParts(folder, run);
  if (size < run.parts) return log.info(`${size} of ${run.parts} parts are there`);
  const parts = await existingParts(folder, run, undefined, log);
  if (parts.size < run.parts)
    throw interruptedError(
      `${folder}: ${run.parts - parts.size} of ${run.parts} parts are damaged`,
      'the same command again, which makes them anew',
    );
  const { traces: rows, rejects } = sumCounts(parts.values());
  const facts = { ...layout, rows, rejects, format: run.output, words: wordsOf(run.config) };
  await writeCard(runPaths(folder).card, facts);
  await removeLeftovers(folder);
}
