// Watches worker processes to their end: one that died is started again once, a failure ends the others.
import { type ChildProcess, spawn } from 'node:child_process';
import { EXIT, type ExitCode, RredcotError } from '../../errors.js';
import { STOP, WORKER_VARIABLE, type WorkerMessage } from '../../report/worker-log.js';

export interface Worker {
  /** for people: `worker 2 of 4 (cuda:1)` */
  readonly name: string;
  readonly args: readonly string[];
}

export interface Supervision {
  /** the script that every worker runs */
  readonly program: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  /** resolves when the workers behind the first may start */
  readonly firstIsReady: () => Promise<void>;
  onMessage(worker: number, message: WorkerMessage): void;
  /** a worker has died and is started again */
  onRestart(worker: number, how: string): void;
}

/** Lines of a worker's stderr that are kept. */
const KEPT_LINES = 8;

/** How a worker ended. */
interface End {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** its last lines on stderr */
  readonly lines: readonly string[];
}

/**
 * Runs the workers until all have ended well.
 * @throws RredcotError with the exit code and message of the first one that did not; exit 1 for one that died twice
 */
export async function superviseWorkers(workers: readonly Worker[], opts: Supervision): Promise<void> {
  const running = new Set<ChildProcess>();
  let failure: Error | undefined;
  let isStopping = false;
  const stop = (): void => {
    isStopping = true;
    for (const child of running) if (child.connected) child.send(STOP, () => {});
  };
  opts.signal.addEventListener('abort', stop, { once: true });

  async function run(number: number): Promise<void> {
    const { name, args } = workers[number] as Worker;
    for (let deaths = 0; !isStopping; ) {
      const end = await start(args, opts, running, (message) => opts.onMessage(number, message));
      if (end.code === EXIT.done) return;
      const error = endError(name, end);
      if (error === undefined && ++deaths === 1 && !isStopping) {
        opts.onRestart(number, howItEnded(end));
        continue;
      }
      // those that are told to stop say so too; the first one has the reason
      failure ??= error ?? deathError(name, end);
      stop();
      return;
    }
  }
  try {
    const first = run(0);
    await Promise.race([first, opts.firstIsReady()]);
    await Promise.all([first, ...workers.slice(1).map((_, n) => run(n + 1))]);
  } finally {
    opts.signal.removeEventListener('abort', stop);
  }
  if (opts.signal.aborted && !isOwnFailure(failure))
    throw new RredcotError('interrupted', { exitCode: EXIT.interrupted });
  if (failure !== undefined) throw failure;
}

function isOwnFailure(failure: Error | undefined): boolean {
  return (
    failure instanceof RredcotError && failure.exitCode !== EXIT.interrupted && failure.exitCode !== EXIT.bug
  );
}

function start(
  args: readonly string[],
  { program, env }: Supervision,
  running: Set<ChildProcess>,
  onMessage: (message: WorkerMessage) => void,
): Promise<End> {
  const child = spawn(process.execPath, [...process.execArgv, program, ...args], {
    // a message stops a worker: a signal would be its second one where a terminal or scheduler signals the whole group
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    env: { ...env, [WORKER_VARIABLE]: '1' },
  });
  running.add(child);
  let lines: string[] = [];
  let open = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    const parts = (open + text).split('\n');
    open = (parts.pop() as string).slice(-10_000);
    lines = [...lines, ...parts].slice(-KEPT_LINES);
  });
  child.on('message', (message) => onMessage(message as WorkerMessage));
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => {
      running.delete(child);
      resolve({ code, signal, lines: open === '' ? lines : [...lines, open] });
    });
  });
}

/** What a worker that ended by itself says; undefined where it died. */
function endError(name: string, { code, lines }: End): RredcotError | undefined {
  const known: readonly (number | null)[] = [EXIT.usage, EXIT.data, EXIT.device, EXIT.interrupted];
  if (!known.includes(code)) return undefined;
  const at = lines.findLastIndex((line) => line.startsWith('rredcot: '));
  const message = lines[at]?.slice('rredcot: '.length) ?? `${name} ended with exit code ${code}`;
  const hint = /^ {2}try: (.*)$/.exec(lines[at + 1] ?? '')?.[1];
  return new RredcotError(message, { exitCode: code as ExitCode, ...(hint === undefined ? {} : { hint }) });
}

function deathError(name: string, end: End): RredcotError {
  const last =
    end.lines.length === 0 ? '' : `; it said last: ${end.lines.map((line) => line.trim()).join(' | ')}`;
  return new RredcotError(`${name} died twice, ${howItEnded(end)}${last}`, {
    exitCode: EXIT.bug,
    hint: 'the same command again, which goes on from there; fewer --workers where memory is short',
  });
}

function howItEnded({ code, signal }: End): string {
  return signal === null ? `exit code ${code}` : `killed by ${signal}`;
}
