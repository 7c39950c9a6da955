// Work on text that a downloaded file steers, in a process of its own: it is stopped after a while, when it takes too much memory, and when the
// program is to end. The process seems to be the one thread that runs in it: the limits of a thread alone do not hold, since V8 ends the
// whole process where it cannot have one large array.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { RredcotError, throwIfInterrupted, usageError } from '../../errors.js';
import { type Functions, startThread, type Thread, type WorkerLike } from '../../thread.js';

/** One text may be strange; what is stopped so often would hold up the whole run. */
const MOST_STOPPED = 3;

/** What a process does, for its errors and to start it, and what it may take. */
interface Bounded {
  /** what it does with which file, e.g. `policy/chat_template.jinja: the chat template` */
  readonly title: string;
  /** what to do about one that does not end */
  readonly hint: string;
  /** the thread's module */
  readonly file: URL;
  readonly workerData: unknown;
  /** MB */
  readonly memoryMb: number;
  /** of a call, while this process runs: one that is stopped for a while, as schedulers do, goes on with what was left */
  readonly timeoutMs: number;
  /** ends the call under way, and the process with it */
  readonly signal?: AbortSignal | undefined;
}

/** A process that is started when the first call comes, and keeps the program alive during calls alone. Its calls come one by one. */
export function boundedProcess<F extends Functions<F>>(bounded: Bounded) {
  const { title, hint, file, workerData, memoryMb, timeoutMs, signal } = bounded;
  let thread: Thread<F> | undefined;
  let stopped = 0;
  const close = async (): Promise<void> => {
    const ended = thread;
    thread = undefined;
    await ended?.terminate();
  };
  return {
    /**
     * @returns error: why there is no answer; the process was stopped, or has crashed, and the next call starts another
     * @throws RredcotError (exit 75) where the program is asked to end, (exit 2) where the process was stopped too often
     */
    async call<Name extends keyof F>(
      name: Name,
      args: Parameters<F[Name]>,
    ): Promise<Awaited<ReturnType<F[Name]>> | { readonly error: string }> {
      if (signal !== undefined) throwIfInterrupted(signal);
      const own =
        thread ?? startThread<F>('its thread', inProcess({ file: file.href, workerData, memoryMb }));
      thread = own;
      own.unref(); // what keeps the program alive is a call's timer
      const late = new Error(`not done after ${timeoutMs / 1000} s`);
      const timer = afterRunning(timeoutMs, () => void own.terminate(late));
      const interrupt = () => void own.terminate(new Error('interrupted'));
      signal?.addEventListener('abort', interrupt, { once: true });
      try {
        return await own.call(name, args);
      } catch (error) {
        await close();
        if (signal !== undefined) throwIfInterrupted(signal);
        if (error instanceof RredcotError) throw error;
        const { message: why } = error as Error;
        if (++stopped < MOST_STOPPED) return { error: why };
        throw usageError(`${title} was stopped ${MOST_STOPPED} times (${why})`, hint, error);
      } finally {
        clearInterval(timer);
        signal?.removeEventListener('abort', interrupt);
      }
    },
    close,
  };
}

/** Calls once so much time has passed in which this process ran: a gap between two looks counts as two of them at most. */
export function afterRunning(ms: number, call: () => void): NodeJS.Timeout {
  const step = Math.min(1000, ms / 20);
  let [left, last] = [ms, performance.now()];
  const timer = setInterval(() => {
    const now = performance.now();
    left -= Math.min(now - last, 2 * step);
    last = now;
    if (left > 0) return;
    clearInterval(timer);
    call();
  }, step);
  return timer;
}

/** What the process is told first. */
export type ProcessInit = Pick<Bounded, 'workerData' | 'memoryMb'> & { readonly file: string };

export function inProcess(init: ProcessInit): WorkerLike {
  const child = fork(new URL('./process-thread.js', import.meta.url), {
    execArgv: [],
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'], // V8 prints its last words
    detached: true, // an interrupt from the keyboard is not for it
  });
  const ended = once(child, 'close').catch(() => {}); // it may have failed to start
  const post = (message: unknown) => void child.send(message as object, () => {}); // one that is dead has told so
  post(init);
  return {
    // a message may come behind `exit`
    on: (event: string, listener: (value: never) => void) =>
      void child.on(event === 'exit' ? 'close' : event, listener as (value: unknown) => void),
    postMessage: post,
    async terminate() {
      child.ref();
      child.kill('SIGKILL');
      await ended;
    },
    ref() {
      child.ref();
      child.channel?.ref();
    },
    unref() {
      child.unref();
      child.channel?.unref();
    },
  };
}
