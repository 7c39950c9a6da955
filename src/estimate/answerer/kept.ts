// What a policy has said of a run's traces, kept in the run's folder until that is whole: where values follow from all of them, it is asked once, however often the run is interrupted.
import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deserialize, serialize } from 'node:v8';
import { interruptedError, type Rejection, TraceRejected, throwIfInterrupted } from '../../errors.js';
import { failed } from '../../io/files/files.js';
import { count, duration, plural } from '../../plural.js';
import type { AnsweredJob, Answers, AskedJob, Windows } from '../../question.js';
import type { Log } from '../../report/log.js';
import { type BadRow, eachTrace, isBad } from '../../rows.js';
import type { Trace } from '../../trace.js';

/** A trace's place in the input, and what was said of it, or why nothing could be. */
interface Entry {
  readonly place: string;
  readonly said?: Answers;
  readonly rejection?: Rejection;
  /** what it adds to what all values follow from; undefined: nothing */
  readonly part?: unknown;
}

export type KeptAnswers = Awaited<ReturnType<typeof openKept>>;

/** Named as what is half written of a run, and goes as that does: with the run's end, or with another run in its place. */
const BLOCK = /^\.run\.answers-(\d+)\.tmp$/;

/** What a block begins with: nobody is to be told of what was changed meanwhile. */
const hashOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest();
const HASH_BYTES = 32;

const placeOf = ({ source, item = 0 }: Trace): string => `${source.ordinal}/${item}`;

/** What is kept in a folder, by the first row of each window: that of which not a byte has changed. */
async function openBlocks(home: string) {
  const told = failed(home, 'written');
  const named = (await readdir(home).catch(told)).map((name) => Number(BLOCK.exec(name)?.[1]));
  const pathOf = (row: number) => join(home, `.run.answers-${row}.tmp`);
  const found = async (row: number): Promise<Entry[] | undefined> => {
    const bytes = await readFile(pathOf(row)).catch(told);
    const said = bytes.subarray(HASH_BYTES);
    return hashOf(said).equals(bytes.subarray(0, HASH_BYTES)) ? deserialize(said) : undefined;
  };
  /** rising */
  const rows: number[] = [];
  for (const row of named.filter((row) => row >= 0).sort((a, b) => a - b))
    if ((await found(row)) !== undefined) rows.push(row);
  return {
    rows,
    /** @throws RredcotError (exit 75) where it has changed since */
    async read(row: number): Promise<Entry[]> {
      const entries = await found(row);
      if (entries !== undefined) return entries;
      throw interruptedError(`${pathOf(row)}: is not what was kept`, 'the same command again asks it anew');
    },
    async write(row: number, entries: readonly Entry[]): Promise<void> {
      const half = join(home, `.run.half-${row}.tmp`);
      const said = serialize(entries);
      await writeFile(half, Buffer.concat([hashOf(said), said]), { flush: true }).catch(told);
      await rename(half, pathOf(row));
      rows.push(row);
    },
  };
}

/** @param folder of the run; undefined where that has none on this machine: nothing outlives the process then */
export async function openKept(folder: string | undefined, signal: AbortSignal) {
  const home = folder ?? (await mkdtemp(join(tmpdir(), 'rredcot-')));
  const { rows: blocks, read, write } = await openBlocks(home);
  return {
    /** Asks what is not kept yet. @param partOf of a trace whose answers are known @param all traces of the run, where they were counted @returns whether earlier attempts have asked some */
    async ask<T extends AskedJob>(
      windows: Windows<T>,
      answer: (windows: Windows<T>) => AsyncIterable<AnsweredJob<T> | BadRow>,
      partOf: (job: T, said: Answers) => unknown,
      all: number | null,
      log: Log,
    ): Promise<boolean> {
      const known = new Set(blocks);
      const asked: { readonly row: number; readonly places: readonly string[] }[] = [];
      let [traces, stood] = [0, 0];
      const began = performance.now();
      async function* missing() {
        for await (const window of windows) {
          const [first] = window;
          const row = first && (isBad(first) ? first : first.trace.source).ordinal;
          if (row === undefined || known.has(row)) {
            stood += window.length;
            continue;
          }
          asked.push({ row, places: window.map((item) => (isBad(item) ? '' : placeOf(item.trace))) });
          yield window;
        }
      }
      let entries: Entry[] = [];
      for await (const item of answer(missing())) {
        throwIfInterrupted(signal);
        const [{ row, places }] = asked as [(typeof asked)[number]];
        const place = places[entries.length] as string;
        if (isBad(item)) entries.push({ place, rejection: item.rejection });
        else entries.push({ place, said: item.result, part: partOf(item.job, item.result) });
        if (entries.length < places.length) continue;
        await write(row, entries);
        traces += entries.length;
        asked.shift();
        entries = [];
        const each = (performance.now() - began) / 1000 / traces;
        const eta_s = all === null ? undefined : Math.max(0, all - stood - traces) * each;
        const left = eta_s === undefined ? '' : ` · ${duration(eta_s)} left`;
        const line = `asking: ${plural(stood + traces, 'trace')} · ${count(Math.round(60 / each))} a minute${left}`;
        log.progress(line, { traces: stood + traces, eta_s });
      }
      if (stood > 0)
        log.info(`${plural(stood, 'trace')} had been asked before: times are of this attempt alone`);
      blocks.sort((a, b) => a - b);
      return stood > 0;
    },
    /** What all values follow from, in input order. */
    async *parts(): AsyncGenerator<readonly [part: unknown, said: Answers]> {
      for (const row of blocks) {
        throwIfInterrupted(signal);
        for (const { said, part } of await read(row)) if (said && part !== undefined) yield [part, said];
      }
    },
    /** Answers as they were given; traces come in order, and a block is read once. */
    async *answer<T extends AskedJob>(windows: Windows<T>): AsyncGenerator<AnsweredJob<T> | BadRow> {
      let [held, at, entries] = [-1, 0, new Map<string, Entry>()];
      for await (const window of windows)
        yield* eachTrace(window, async (job) => {
          while ((blocks[at + 1] as number) <= job.trace.source.ordinal) at++;
          if (at !== held)
            entries = new Map((await read(blocks[at] as number)).map((entry) => [entry.place, entry]));
          held = at;
          const { said, rejection } = entries.get(placeOf(job.trace)) ?? {};
          if (said !== undefined) return { job, trace: job.trace, result: said };
          const { code, reason } = rejection ?? { code: 'unanswered', reason: 'nothing is kept of it' };
          throw new TraceRejected(code, reason);
        });
    },
    close: async () => (folder === undefined ? rm(home, { recursive: true, force: true }) : undefined),
  };
}
