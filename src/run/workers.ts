// `--workers` and `--devices`: the chunks of a run made by several processes, each a shard of it, watched through its notes in the run folder.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { CORES_VARIABLE, coreShare } from '../cores.js';
import { EXIT, type ExitCode, RredcotError } from '../errors.js';
import { type Shard, shardName } from '../io/files/chunks.js';
import { WORKERS_NAME } from '../io/files/run-paths.js';
import type { OutputFormat } from '../io/write/output.js';
import { packageFile } from '../package-files.js';
import type { Log } from '../report/log.js';
import { readNotes, WORKER_VARIABLE, type WorkerNotes } from '../report/worker-log.js';
import type { RunCommand } from './description.js';

/** The processes that share a command's chunks. */
export interface Workers {
  /** one entry a worker: its device, undefined where the command's flags say it */
  readonly devices: readonly (string | undefined)[];
  /** of the command, as the user gave them: whatever is not the parent's own matter */
  readonly flags: readonly string[];
  readonly inputs: readonly string[];
}

/** What they are started with. */
export interface SharedRun extends Workers {
  readonly command: RunCommand;
  readonly folder: string;
  readonly format: OutputFormat;
  /** one a worker */
  readonly shards: readonly Shard[];
  /** rejects are counted over all of them, here: none ends by its own */
  readonly countsRejects: boolean;
}

/** A worker that is to be started. */
export interface Worker {
  /** for people: `worker 2 of 4 (cuda:1)` */
  readonly name: string;
  readonly args: readonly string[];
  /** where its notes are */
  readonly notes: string;
}

export interface Supervision {
  /** the script that every worker runs */
  readonly program: string;
  readonly signal: AbortSignal;
  readonly log: Log;
  /** told a few times a second; what it throws ends them all */
  readonly onNotes: (notes: Notes) => void;
}

/** What each worker has noted so far; undefined where that is nothing. */
export type Notes = readonly (WorkerNotes | undefined)[];

/**
 * Makes the chunks of a run in as many processes as it has shards here. The parent has opened the run and closes it: between them is
 * nothing but these processes, their records and their notes.
 * @throws RredcotError with the exit code and message of the first one that failed; exit 1 for one that died twice
 */
export async function makeShards(
  { command, folder, format, shards, devices, flags, inputs, countsRejects }: SharedRun,
  opts: Omit<Supervision, 'program'>,
): Promise<Notes> {
  const own = join(folder, WORKERS_NAME);
  await rm(own, { recursive: true, force: true });
  await mkdir(own);
  const workers = shards.map((shard, j) => ({
    name: `worker ${j + 1} of ${shards.length}${devices[j] === undefined ? '' : ` (${devices[j]})`}`,
    args: [
      ...[command, ...flags, `--output=${folder}/`, `--format=${format}`],
      `--shard=${shard.index}/${shard.count}`,
      ...(countsRejects ? ['--max-rejects=100%'] : []),
      ...(devices[j] === undefined ? [] : [`--device=${devices[j]}`]),
      ...['--', ...inputs],
    ],
    notes: join(own, `${shardName(shard)}.json`),
  }));
  try {
    return await superviseWorkers(workers, { ...opts, program: packageFile('bin/rredcot.js') });
  } finally {
    await rm(own, { recursive: true, force: true });
  }
}

const LOOK_EVERY_MS = 200;

/** Characters that are kept of what a worker says last on stderr: nothing is read out of them, a death is told with them. */
const LAST_WORDS = 2000;

/** How a worker ended. */
interface End {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly said: string;
}

/**
 * Watches workers to their end: one that died is started again once, a failure ends the others.
 * @returns what each has noted last
 * @throws as {@link makeShards}
 */
export async function superviseWorkers(
  workers: readonly Worker[],
  { program, signal, log, onNotes }: Supervision,
): Promise<Notes> {
  const running = new Set<ChildProcess>();
  const notes: (WorkerNotes | undefined)[] = workers.map(() => undefined);
  const over = new AbortController();
  let failure: unknown;
  let isStopping = false;
  const stop = (reason?: unknown): void => {
    failure ??= reason;
    isStopping = true;
    for (const child of running) child.stdin?.destroy();
  };
  const onAbort = (): void => stop();
  signal.addEventListener('abort', onAbort, { once: true });

  async function look(number: number): Promise<void> {
    const found = await readNotes((workers[number] as Worker).notes);
    if (found === undefined) return;
    notes[number] = found;
    // the log says once what all of them say; what is no warning is told of the first
    for (const [code, message] of found.warnings) log.warn(code, message);
    for (const message of number === 0 ? found.infos : []) log.info(message);
    onNotes(notes);
  }
  async function run(number: number): Promise<void> {
    const worker = workers[number] as Worker;
    const cores = coreShare(workers.length);
    for (let deaths = 0; !isStopping; ) {
      const end = await start(program, worker, cores, running);
      await look(number);
      if (end.code === EXIT.done) return;
      const isDeath = !ENDS.includes(end.code);
      if (!isDeath || deaths > 0 || isStopping)
        return stop(isDeath ? deathError(worker, end) : endError(worker, end, notes[number]));
      deaths++;
      log.warn('worker_died', `${worker.name} died (${howItEnded(end)}) and is started again`);
    }
  }
  async function watch(): Promise<void> {
    for (;;) {
      await sleep(LOOK_EVERY_MS, undefined, { signal: over.signal }).catch(() => {});
      if (over.signal.aborted || isStopping) return;
      for (const number of workers.keys()) await look(number);
    }
  }
  const watching = watch().catch(stop);
  await Promise.all(workers.map((_, number) => run(number).catch(stop)));
  over.abort();
  await watching;
  signal.removeEventListener('abort', onAbort);
  if (failure !== undefined) throw failure;
  if (signal.aborted) throw new RredcotError('interrupted', { exitCode: EXIT.interrupted });
  return notes;
}

/** Exit codes of a process that has ended by itself. */
const ENDS: readonly (number | null)[] = [EXIT.usage, EXIT.data, EXIT.device, EXIT.interrupted];

async function start(
  program: string,
  { args, notes }: Worker,
  cores: number,
  running: Set<ChildProcess>,
): Promise<End> {
  await rm(notes, { force: true });
  const child = spawn(process.execPath, [...process.execArgv, program, ...args], {
    stdio: ['pipe', 'ignore', 'pipe'],
    env: { ...process.env, [WORKER_VARIABLE]: notes, [CORES_VARIABLE]: `${cores}` },
  });
  running.add(child);
  child.stdin?.on('error', () => {}); // one that is gone reads nothing
  let said = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-LAST_WORDS);
  });
  const [code, signal] = await once(child, 'close');
  running.delete(child);
  return { code, signal, said };
}

/** What a worker that ended by itself has noted; what it said where the disk took no note. */
function endError({ name }: Worker, end: End, notes: WorkerNotes | undefined): RredcotError {
  const { message = `${name} ended with exit code ${end.code}${lastWords(end)}`, hint } = notes?.error ?? {};
  return new RredcotError(message, {
    exitCode: end.code as ExitCode,
    ...(hint === undefined ? {} : { hint }),
  });
}

function deathError({ name }: Worker, end: End): RredcotError {
  return new RredcotError(`${name} died twice, ${howItEnded(end)}${lastWords(end)}`, {
    exitCode: EXIT.bug,
    hint: 'the same command again, which goes on from there; fewer --workers where memory is short',
  });
}

function lastWords({ said }: End): string {
  const lines = said.split('\n').map((line) => line.trim());
  const kept = lines.filter((line) => line !== '').slice(-8);
  return kept.length === 0 ? '' : `; it said last: ${kept.join(' | ')}`;
}

function howItEnded({ code, signal }: End): string {
  return signal === null ? `exit code ${code}` : `killed by ${signal}`;
}
