// A single file of a run's parts: joined, and published with its rejects and its summary; its folder goes last.
import type { Schema } from 'apache-arrow';
import { EXIT, OvertakenError, RredcotError, throwIfInterrupted } from '../errors.js';
import type { BatchWriter } from '../io/arrow/writer.js';
import { AtomicFile, putInPlace } from '../io/files/atomic-file.js';
import { bytesFault, FACTS_KEY, type Facts, factsOf } from '../io/files/facts.js';
import { fileBytes, sha256OfFile } from '../io/files/files.js';
import { runPaths } from '../io/files/run-folder.js';
import { factsOfPart, sumCounts } from '../io/write/facts.js';
import { openColumnar } from '../io/write/output.js';
import { PART_KEY, parsePart } from '../io/write/part.js';
import { openRejects, type Rejects } from '../io/write/rejects.js';
import { writeSummary } from '../io/write/summary-file.js';
import type { Log } from '../report/log.js';
import { existingOutput } from './existing.js';
import { assertOurs, dropHidden, type ExistingParts, TakenError } from './folder.js';
import type { Run } from './identity.js';
import type { Target } from './target.js';

/** A file that is whole, and has not got its name. */
interface WholeFile {
  /** where its bytes are */
  readonly temporaryPath: string | undefined;
  publish(replaces: boolean): Promise<void>;
  abort(): Promise<void>;
}

export interface PublishOptions {
  readonly folder: string;
  readonly run: Pick<Run, 'run' | 'config'>;
  readonly target: Target;
  readonly overwrite: boolean;
  readonly log: Log;
  /** what the summary says besides */
  readonly figures: () => Readonly<Record<string, unknown>>;
}

/** Makes a file of all parts of a run visible. @throws RredcotError (exit 75) for a part that is not what was written */
export async function joinParts(
  opts: PublishOptions & {
    readonly run: Run;
    readonly existing: ExistingParts;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const { folder, run, target, existing, signal } = opts;
  const paths = runPaths(folder);
  const parts = Array.from({ length: run.parts }, (_, part) => part);
  const rejects = await openRejects(target.rejects, folder);
  let file: WholeFile | undefined;
  try {
    for (const part of parts)
      if (existing.get(part)?.rejects !== 0) await rejects.append(fileBytes(paths.rejectsOf(part)));
    const rejects_sha256 = await rejects.finish();
    const facts = { run: run.run, ...sumCounts(existing.values()), rejects_sha256 };
    file = await joined(folder, run, target.path, facts, () => throwIfInterrupted(signal));
    await publishWhole(file, rejects, facts, opts);
  } catch (error) {
    await file?.abort();
    await rejects.abort();
    throw error;
  }
}

/** Gives a file and what is beside it their names: what is beside it first. */
export async function publishWhole(
  file: WholeFile,
  rejects: Rejects,
  facts: Facts,
  { folder, run, target, overwrite, figures }: PublishOptions,
): Promise<void> {
  const { path, format } = target;
  const sha256 = format === 'jsonl' ? await sha256OfFile(file.temporaryPath as string) : null;
  await assertOurs(folder, run);
  const found = overwrite ? undefined : await existingOutput(path);
  if (found !== undefined && found.run !== run.run) throw new OvertakenError(path);
  await rejects.publish();
  const { config } = run;
  const summary = { ...figures(), ...facts, ...(sha256 && { sha256 }), config };
  await writeSummary(path, summary, folder);
  await file.publish(overwrite);
  await dropHidden(folder);
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
  const isOther = /\.arrows$/i.test(path);
  const all = Array.from({ length: run.parts }, (_, part) => paths.part(part, run.output));
  const [only] = all;
  if (all.length === 1 && only !== undefined && !isOther)
    return {
      temporaryPath: only,
      publish: (replaces) => putInPlace(only, path, replaces),
      abort: async () => {},
    };
  const file = await AtomicFile.open(path, folder);
  try {
    if (run.output === 'jsonl') {
      for (const [part, each] of all.entries()) {
        const said = await factsOfPart(folder, part, 'jsonl');
        const sha256 = await sha256OfFile(each);
        // the same command, started twice, has ended the run, and taken its folder away
        if (sha256 === null || said === undefined) throw new TakenError(folder);
        if (sha256 !== said.sha256) throw damaged(each);
        for await (const bytes of fileBytes(each)) {
          onProgress();
          await file.write(bytes);
        }
      }
      await file.finish();
    } else await joinBatches(file, run, all, facts, onProgress);
  } catch (error) {
    await file.abort();
    throw error;
  }
  return file;
}

async function joinBatches(
  file: AtomicFile,
  { run, output }: Run,
  parts: readonly string[],
  facts: Facts,
  onProgress: () => void,
): Promise<void> {
  const format = output === 'parquet' ? 'parquet' : 'arrow';
  // lines need none of these
  const { Schema } = await import('apache-arrow');
  const { gatherRows } = await import('../io/arrow/columns.js');
  const { openArrow } = await import('../io/arrow/reader.js');
  const { openParquet } = await import('../io/parquet/reader.js');
  let opened: { readonly schema: Schema; readonly batches: BatchWriter } | undefined;
  let rows = 0;
  try {
    for (const [number, part] of parts.entries()) {
      const said = await factsOf(part);
      const isThePart = said?.run === run && said.number === number;
      if (!isThePart || (await bytesFault(part)) !== null) throw damaged(part);
      const source = await (format === 'parquet' ? openParquet(part) : openArrow(part));
      const { fields, metadata } = source.schema;
      opened ??= await openColumnar(file, format, new Schema(fields), ofWhole(metadata));
      for await (const { batch } of source.batches()) {
        onProgress();
        await opened.batches.write(gatherRows(opened.schema, [{ unit: batch, from: 0, to: batch.numRows }]));
        rows += batch.numRows;
      }
      await source.close();
    }
    if (rows !== facts.traces)
      throw new Error(`${file.path}: the parts say ${facts.traces} traces and hold ${rows}`);
    await opened?.batches.close(facts);
  } catch (error) {
    await opened?.batches.abort();
    throw error;
  }
}

/** What a part says of itself, but for what is of the part alone. */
function ofWhole(metadata: ReadonlyMap<string, string>): Record<string, string> {
  const isOfPart = (key: string, value: string) =>
    key === FACTS_KEY || (key === PART_KEY && parsePart(value)?.by === 'pieces');
  return Object.fromEntries([...metadata].filter(([key, value]) => !isOfPart(key, value)));
}

function damaged(part: string): RredcotError {
  return new RredcotError(`${part}: is not the part that was written`, {
    exitCode: EXIT.interrupted,
    hint: `rm ${part}, then the same command again, which makes it anew`,
  });
}
