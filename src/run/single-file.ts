// A single file of a run's parts: joined, and published with its rejects and its summary; its folder goes last.
import { EXIT, OvertakenError, RredcotError, throwIfInterrupted } from '../errors.js';
import { putInPlace } from '../io/files/atomic-file.js';
import type { Facts } from '../io/files/facts.js';
import { fileBytes, sha256OfFile } from '../io/files/files.js';
import { runPaths } from '../io/files/run-folder.js';
import { factsOfPart, fileFault, sumCounts, writeSummary } from '../io/write/facts.js';
import { joinFiles } from '../io/write/join-files.js';
import { openRejects } from '../io/write/output.js';
import type { Target } from '../io/write/target.js';
import { existingOutput } from './existing.js';
import { assertOurs, dropHidden, type ExistingParts } from './folder.js';
import type { Run } from './identity.js';

/** A file that is whole, and has not got its name. */
interface WholeFile {
  /** where its bytes are */
  readonly temporaryPath: string | undefined;
  publish(replaces: boolean): Promise<void>;
  abort(): Promise<void>;
}

export interface SingleFileOptions {
  readonly folder: string;
  readonly run: Run;
  readonly existing: ExistingParts;
  readonly target: Target;
  readonly overwrite: boolean;
  readonly signal: AbortSignal;
  /** what the summary says besides */
  readonly stats: { readonly wholeRecord: Readonly<Record<string, unknown>> };
}

/**
 * Makes a file of all parts of a run visible, what is beside it first.
 * @throws RredcotError (exit 75) for a part that is not what was written
 */
export async function joinParts(opts: SingleFileOptions): Promise<void> {
  const { folder, run, target, existing, signal, overwrite } = opts;
  const { path, format } = target;
  const paths = runPaths(folder);
  const rejects = await openRejects(target.rejects, folder);
  let file: WholeFile | undefined;
  try {
    for (let part = 0; part < run.parts; part++)
      if (existing.get(part)?.rejects !== 0) await rejects.append(fileBytes(paths.rejectsOf(part)));
    const rejects_sha256 = await rejects.finish();
    const facts = { run: run.run, ...sumCounts(existing.values()), rejects_sha256 };
    file = await joined(folder, run, path, facts, () => throwIfInterrupted(signal));
    const sha256 = format === 'jsonl' ? await sha256OfFile(file.temporaryPath as string) : null;
    await assertOurs(folder, run);
    const found = overwrite ? undefined : await existingOutput(path);
    if (found !== undefined && found.run !== run.run) throw new OvertakenError(path);
    await rejects.publish();
    const summary = { ...opts.stats.wholeRecord, ...facts, ...(sha256 && { sha256 }), config: run.config };
    await writeSummary(path, summary, folder);
    await file.publish(overwrite);
    await dropHidden(folder);
  } catch (error) {
    await file?.abort();
    await rejects.abort();
    throw error;
  }
}

/** A run of one part is that part; others are read and written in their order. @param onProgress may throw to stop */
async function joined(
  folder: string,
  run: Run,
  path: string,
  facts: Facts,
  onProgress: () => void,
): Promise<WholeFile> {
  const paths = runPaths(folder);
  const parts = Array.from({ length: run.parts }, (_, part) => paths.part(part, run.output));
  const [only] = parts;
  if (parts.length === 1 && only !== undefined && !/\.arrows$/i.test(path))
    return {
      temporaryPath: only,
      publish: (replaces) => putInPlace(only, path, replaces),
      abort: async () => {},
    };
  for (const [number, part] of parts.entries()) {
    onProgress();
    const said = await factsOfPart(folder, number, run.output);
    if (said?.run === run.run && (await fileFault(part)) === null) continue;
    // the same command, started twice, may have ended the run, and taken its folder away
    await assertOurs(folder, run);
    throw new RredcotError(`${part}: is not the part that was written`, {
      exitCode: EXIT.interrupted,
      hint: `rm ${part}, then the same command again, which makes it anew`,
    });
  }
  return await joinFiles(path, parts, { folder, format: run.output, facts, onProgress });
}
