// Writes a run's parts: each under a hidden name until it is whole, its rejects before it.
import { makeInside } from '../io/files/atomic-file.js';
import { isStored, sha256OfFile, statIfThere } from '../io/files/files.js';
import { partOfRow, runPaths } from '../io/files/run-folder.js';
import { addTo, factsOfPart, sumCounts, writeFactsOfLines } from '../io/write/facts.js';
import { type OutputTarget, openOutput, openRejects } from '../io/write/output.js';
import type { Log } from '../report/log.js';
import { RejectsError } from '../report/reject-limits.js';
import { type BadRow, isBad } from '../rows.js';
import type { OutputRow } from '../scored.js';
import { assertOurs, type ExistingParts, isLost } from './folder.js';
import type { Run } from './identity.js';

/** Rows and rejects on their way out, in the order of the inputs. */
export interface Sink {
  add(item: OutputRow | BadRow): Promise<void>;
  /** all is there: makes it durable and visible */
  close(): Promise<void>;
  /** drops what is not whole; harmless after `close`. @param error why: the rejects of too many of them are left */
  abort(error: unknown): Promise<void>;
}

export interface PartsOptions extends Omit<OutputTarget, 'path' | 'format'> {
  readonly folder: string;
  readonly run: Run;
  /** numbers of the parts that this process has still to make */
  readonly todo: Set<number>;
  readonly existing: ExistingParts;
  readonly log: Log;
}

/** Opens the writer of a run's parts: those that are to be made, also where no trace of their rows is left. */
export function openParts(opts: PartsOptions): Sink {
  const { run, todo, existing } = opts;
  let open: OpenPart | undefined;

  async function closePart(part: OpenPart): Promise<void> {
    await publish(part, opts);
    open = undefined;
    existing.set(part.number, part.counts);
    todo.delete(part.number);
    opts.log.record('part', { part: part.number, parts: run.parts });
  }
  return {
    async add(item) {
      const ordinal = isBad(item) ? item.ordinal : item.trace.source.ordinal;
      const number = partOfRow(ordinal, run.rows_per_part, run.parts);
      if (open !== undefined && open.number !== number) await closePart(open);
      open ??= await openPart(number, opts);
      addTo(open.counts, item);
      await (isBad(item) ? open.rejects.add(item) : open.output.write(item));
    },
    async close() {
      if (open !== undefined) await closePart(open);
      for (const number of [...todo]) {
        open = await openPart(number, opts);
        await closePart(open);
      }
    },
    abort: async (error) => open && abort(open, error),
  };
}

type OpenPart = Awaited<ReturnType<typeof openPart>>;

async function openPart(number: number, { folder, run, ...target }: PartsOptions) {
  const paths = runPaths(folder);
  const halfWrittenIn = isStored(folder) ? undefined : folder;
  const path = paths.part(number, run.output);
  const rejects = await openRejects(paths.rejectsOf(number), halfWrittenIn);
  const output = await openOutput({ ...target, path, format: run.output, halfWrittenIn });
  return { number, path, rejects, output, counts: sumCounts([]) };
}

async function abort({ output, rejects }: OpenPart, error: unknown): Promise<void> {
  await output.abort();
  if (error instanceof RejectsError && (await rejects.finish()) !== null) await rejects.publish();
  await rejects.abort();
}

/** Gives a part its name, its rejects before it: a part that stands is complete. */
async function publish(part: OpenPart, { folder, run }: PartsOptions): Promise<void> {
  const { number, path, output, rejects } = part;
  try {
    const facts = { run: run.run, number, ...part.counts, rejects_sha256: await rejects.finish() };
    await output.finish(facts);
    await assertOurs(folder, run);
    await rejects.publish();
    if (run.output === 'jsonl') {
      const sha256 = await sha256OfFile(output.temporaryPath as string);
      if (!isStored(folder)) await makeInside(runPaths(folder).facts);
      await assertOurs(folder, run); // hashing takes a while
      // where the same command, started twice, has taken the lines away, what it says of its own stays
      if (sha256 !== null) await writeFactsOfLines(folder, number, { ...facts, sha256 });
    }
    await output.publish();
  } catch (error) {
    await abort(part, error);
    // the same command, started twice, was faster, and has taken away what others have half written
    const isMade = isLost(error, folder) && (await statIfThere(path)) !== null;
    if (!isMade || (await factsOfPart(folder, number, run.output))?.run !== run.run) throw error;
  }
}
