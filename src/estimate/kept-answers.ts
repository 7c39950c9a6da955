// What a policy has said of a run's traces, kept in the run's folder until that is whole: where every value follows from all of them, the policy is asked once, however often the run is interrupted.
import { mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deserialize, serialize } from 'node:v8';
import { type Rejection, TraceRejected, throwIfInterrupted } from '../errors.js';
import { failed } from '../io/files/files.js';
import { plural } from '../plural.js';
import type { AnsweredJob, Answers, AskedJob, Windows } from '../question.js';
import type { Log } from '../report/log.js';
import { type BadRow, eachTrace, isBad } from '../rows.js';
import type { Trace } from '../trace.js';

/** A trace's place in the input, and what was said of it, or why nothing could be. */
interface Entry {
  readonly place: string;
  readonly said?: Answers;
  readonly rejection?: Rejection;
  /** what the values of all follow from; undefined of a trace that has no say in them */
  readonly part?: unknown;
}

export type KeptAnswers = Awaited<ReturnType<typeof openKept>>;

/** Named as what is half written of a run, and goes as that does: with the run's end, or with another run in its place. */
const BLOCK = /^\.run\.answers-(\d+)\.tmp$/;

const placeOf = ({ source, item = 0 }: Trace): string => `${source.ordinal}/${item}`;

/** @param folder of the run; undefined where that has none on this machine: nothing outlives the process then */
export async function openKept(folder: string | undefined, signal: AbortSignal) {
  const place = folder ?? (await mkdtemp(join(tmpdir(), 'rredcot-')));
  const told = failed(place, 'written');
  const names = (await readdir(place).catch(told)).map((name) => BLOCK.exec(name)?.[1]);
  /** the first rows of its blocks, rising */
  const blocks = names.filter((row) => row !== undefined).map(Number);
  const pathOf = (row: number) => join(place, `.run.answers-${row}.tmp`);
  blocks.sort((a, b) => a - b);
  const read = async (row: number) => deserialize(await readFile(pathOf(row)).catch(told)) as Entry[];
  let current: { readonly row: number; readonly entries: ReadonlyMap<string, Entry> } | undefined;
  /** by place; rows come in order, a block is read once */
  async function find(trace: Trace): Promise<Entry | undefined> {
    const row = blocks.findLast((first) => first <= trace.source.ordinal) as number;
    if (current?.row !== row)
      current = { row, entries: new Map((await read(row)).map((entry) => [entry.place, entry])) };
    return current.entries.get(placeOf(trace));
  }
  return {
    /** Asks what is not kept yet. @param partOf of a trace whose answers are known */
    async ask<T extends AskedJob>(
      windows: Windows<T>,
      answer: (windows: Windows<T>) => AsyncIterable<AnsweredJob<T> | BadRow>,
      partOf: (job: T, said: Answers) => unknown,
      log: Log,
    ): Promise<void> {
      const known = new Set(blocks);
      const asked: (readonly string[])[] = [];
      let traces = 0;
      async function* missing() {
        for await (const window of windows) {
          const [first] = window;
          if (first === undefined) continue;
          traces += window.length;
          const { ordinal } = isBad(first) ? first : first.trace.source;
          if (known.has(ordinal)) continue;
          blocks.push(ordinal);
          asked.push(window.map((item) => (isBad(item) ? '' : placeOf(item.trace))));
          yield window;
        }
      }
      let [entries, n]: [Entry[], number] = [[], blocks.length];
      for await (const item of answer(missing())) {
        throwIfInterrupted(signal);
        const at = asked[0]?.[entries.length] as string;
        if (isBad(item)) entries.push({ place: at, rejection: item.rejection });
        else {
          const { job, result: said } = item;
          entries.push({ place: at, said, part: partOf(job, said) });
        }
        if (entries.length < (asked[0]?.length ?? 0)) continue;
        const path = pathOf(blocks[n++] as number);
        const half = path.replace('answers', 'half');
        await writeFile(half, serialize(entries), { flush: true }).catch(told);
        await rename(half, path);
        log.progress(`asked: ${plural(traces, 'trace')}`, { traces });
        entries = [];
        asked.shift();
      }
      blocks.sort((a, b) => a - b);
    },
    /** What all values follow from, in input order. */
    async *parts(): AsyncGenerator<readonly [part: unknown, said: Answers]> {
      for (const row of blocks) {
        throwIfInterrupted(signal);
        for (const { said, part } of await read(row)) if (said && part !== undefined) yield [part, said];
      }
    },
    async *answer<T extends AskedJob>(windows: Windows<T>): AsyncGenerator<AnsweredJob<T> | BadRow> {
      for await (const window of windows)
        yield* eachTrace(window, async (job) => {
          const { said, rejection } = (await find(job.trace)) ?? {};
          if (said !== undefined) return { job, trace: job.trace, result: said };
          const { code, reason } = rejection ?? { code: 'unanswered', reason: 'nothing is kept of it' };
          throw new TraceRejected(code, reason);
        });
    },
    close: async () => (folder === undefined ? rm(place, { recursive: true, force: true }) : undefined),
  };
}
