// Writes scored rows to one file or to stdout, whole or not at all, with the rejects and the summary beside it.
import { createHash } from 'node:crypto';
import { throwIfInterrupted } from '../errors.js';
import { makeFolder, removeFile } from '../io/files/atomic-file.js';
import { sha256OfFile } from '../io/files/file-bytes.js';
import { statIfThere } from '../io/files/file-error.js';
import { removeSum } from '../io/files/json-file.js';
import { hiddenFolder, summaryPath } from '../io/files/run-paths.js';
import { ReaderClosedError } from '../io/files/stdout.js';
import { openRejects, type Rejects } from '../io/write/destination.js';
import {
  CONFIG_KEY,
  INPUTS_KEY,
  type Output,
  type OutputTarget,
  openOutput,
  POLICY_KEY,
  RUN_KEY,
  TEXT_KEY,
  VERSION_KEY,
  VOCAB_KEY,
} from '../io/write/output.js';
import { VERSION } from '../package-files.js';
import { escapeControls } from '../printable.js';
import type { Log } from '../report/log.js';
import { Progress } from '../report/progress.js';
import { figureRecord, figureWarnings } from '../report/run-figures.js';
import { Summary } from '../report/summary.js';
import { type BadRow, isBad } from '../rows.js';
import { madeBy } from '../run/account.js';
import { removeHidden, removeOthers } from '../run/remove.js';
import { assertFree, assertSame, refuseOther, standing } from '../run/standing.js';
import { writeSummary, writeSums } from '../run/summary-file.js';
import { inFolder, type Target } from '../run/target.js';
import type { OutputRow } from '../scored.js';

/** What is written, and how. */
export interface ScoredOutput extends Omit<OutputTarget, 'path' | 'format' | 'metadata'> {
  readonly target: Target;
  /** of the source */
  readonly metadata: ReadonlyMap<string, string>;
  readonly config: Readonly<Record<string, unknown>>;
  /** what it says of how it was made of another one, by key of its metadata */
  readonly made: Readonly<Record<string, string>>;
  /** columns of the output, of which texts may be among the dropped */
  readonly names: ReadonlySet<string>;
  /** what is told besides, of all that was done */
  readonly figures?: () => Readonly<Record<string, unknown>>;
  readonly valueName: string | undefined;
  /** what stands at its place is replaced */
  readonly overwrite: boolean;
  readonly signal: AbortSignal;
  readonly log: Log;
}

/**
 * Writes rows and rejects in their order, and tells what was done.
 * @returns false where the file that stands there is the one that was asked for: nothing is read or touched then
 * @throws RredcotError (exit 75) where it was interrupted: nothing is left then
 */
export async function writeScored(
  items: AsyncIterable<OutputRow | BadRow>,
  out: ScoredOutput,
): Promise<boolean> {
  const { target, config, log, signal, overwrite } = out;
  const { path, format } = target;
  const identity = identityOf(out);
  // what is half written lies in a folder that goes: what a killed process leaves, the same command takes away
  const folder = path === '-' ? undefined : hiddenFolder(path, identity);
  if (await isDone(out, identity)) {
    if (folder !== undefined) await removeHidden(folder);
    return false;
  }
  const isFree = async () => (overwrite ? undefined : assertFree(path, identity));
  const progress = new Progress(log, { traces: undefined, share: () => undefined });
  const summary = new Summary();
  await inFolder(target, out.overwrite, async () => {
    try {
      if (folder !== undefined) await makeFolder(folder);
      await write();
    } finally {
      if (folder !== undefined) await removeHidden(folder);
      progress.end();
    }
  });
  const { rejects: rejected } = progress.totals();
  log.text(summary.describe(progress.totals(), undefined, out.valueName).join('\n'));
  if (rejected > 0) log.text(`rejects in ${escapeControls(target.rejects)}`);
  if (path !== '-') log.text(`written to ${escapeControls(path)}`);
  for (const { code, message } of figureWarnings(summary.figures, undefined, madeBy(config)))
    log.warn(code, message);
  const many = summary.rejectWarning(progress.totals().traces);
  if (many !== undefined) log.warn(many.code, many.message);
  log.record('done', doneRecord());
  return true;

  function doneRecord(): Record<string, unknown> {
    const { traces, tokens, rejects, seconds } = progress.totals();
    const figures = figureRecord(summary.figures);
    return { traces, tokens, rejects, seconds, ...figures, ...out.figures?.(), output: path };
  }
  async function write(): Promise<void> {
    const rejects = await openRejects(target.rejects, folder);
    const metadata = metadataOf(out);
    const output = await openOutput({ ...out, path, format, metadata, halfWrittenIn: folder });
    try {
      for await (const item of items) {
        throwIfInterrupted(signal);
        if (isBad(item)) {
          await rejects.add(item);
          progress.reject(item.ordinal);
          summary.reject(item);
        } else {
          await output.write([item]);
          progress.trace(item.completionIds?.length ?? 0, item.trace.source.ordinal);
          summary.add(item);
        }
      }
      throwIfInterrupted(signal);
      if (folder !== undefined) return await publish(rejects, output, folder);
      await rejects.close();
      await output.close();
    } catch (error) {
      await output.abort().catch(() => {});
      await rejects.abort().catch(() => {});
      // a reader that has seen enough (`| head`) is no failure
      if (!(error instanceof ReaderClosedError)) throw error;
    }
  }
  async function publish(rejects: Rejects, output: Output, folder: string): Promise<void> {
    await isFree();
    let sha256: string | null;
    try {
      await rejects.close();
      // as a run does it: what is beside the file is there before the file is seen
      await summarise(folder);
      // that of a file that has come meanwhile is its own
      if (format === 'jsonl' && (overwrite || !(await isThere(path)))) await removeSum(path);
      sha256 = await output.close();
    } catch (error) {
      await dropBeside(target, folder, overwrite);
      throw error;
    }
    if (format === 'jsonl' && sha256 !== null) await writeSums(path, sha256, identity, folder);
    await removeOthers(path, identity, overwrite);
  }
  async function summarise(folder: string): Promise<void> {
    const rejectsSha256 = await sha256OfFile(target.rejects);
    const run = { run: identity, config, folder, rejectsSha256 };
    const origins = Object.entries(out.made).map(([key, origin]) => [
      key.replace(OURS, ''),
      JSON.parse(origin),
    ]);
    const figures = { ...doneRecord(), ...Object.fromEntries(origins) };
    const problem = await writeSummary(path, run, figures, isFree);
    if (problem !== undefined) log.warn('summary', problem);
  }
}

const isThere = async (path: string) => (await statIfThere(path)) !== null;

/** Removes what is beside a file that is not there; where another command was faster it is that one's. */
async function dropBeside({ path, rejects }: Target, folder: string, overwrite: boolean): Promise<void> {
  if (!(await isThere(folder)) || (!overwrite && (await isThere(path)))) return;
  for (const each of [summaryPath(path), rejects]) await removeFile(each).catch(() => {});
}

/** Whether the file stands there already. @throws RredcotError (exit 2) for another one */
async function isDone({ target, config, overwrite, log }: ScoredOutput, identity: string): Promise<boolean> {
  const { path } = target;
  const stands = path === '-' || overwrite ? undefined : await standing(path);
  if (stands === undefined) return false;
  refuseOther(stands, { config });
  if (!(await assertSame(stands, identity))) return false;
  log.info(`${path} is already done`);
  return true;
}

/** Keys of metadata begin so; the summary's do not. */
const OURS = 'rredcot.';

/** What takes a run's place: a hash of what the file was made of, and how. */
function identityOf({ config, made, metadata, target }: ScoredOutput): string {
  const all = { config, made, source: [...metadata], format: target.format };
  return createHash('sha256').update(JSON.stringify(all)).digest('hex');
}

/** The output's account of itself: as a fresh run has it, and what it was made of. */
function metadataOf(out: ScoredOutput): Record<string, string> {
  const { metadata, config, made, names, target } = out;
  const kept = (key: string) => (metadata.has(key) ? { [key]: metadata.get(key) as string } : {});
  return {
    [VERSION_KEY]: VERSION,
    [CONFIG_KEY]: JSON.stringify(config),
    ...(target.path === '-' ? {} : { [RUN_KEY]: identityOf(out) }),
    ...kept(POLICY_KEY),
    ...kept(VOCAB_KEY),
    ...kept(INPUTS_KEY),
    ...made,
    ...textsOf(metadata.get(TEXT_KEY), names),
  };
}

/** Where the texts are, of those that are still there. */
function textsOf(text: string | undefined, names: ReadonlySet<string>): Record<string, string> {
  if (text === undefined) return {};
  const places = Object.entries(JSON.parse(text) as Record<string, string>);
  const left = places.filter(([, column]) => names.has(column));
  return left.length === 0 ? {} : { [TEXT_KEY]: JSON.stringify(Object.fromEntries(left)) };
}
