// Work on text that a downloaded file steers, in a thread of its own: it is stopped after a while, and when the program is to end.
import { EXIT, RredcotError, throwIfInterrupted } from '../../errors.js';
import { type Functions, startThread, type Thread } from '../../thread.js';
import { inProcess } from './own-process.js';

/** Why a call has no answer: the thread was stopped, or has crashed. The next call starts another. */
export class StoppedError extends Error {}

export interface Bounds {
  /** what a call may take, while this process runs: one that is stopped for a while, as schedulers do, goes on with what was left */
  readonly timeoutMs: number;
  /** one text may be strange; what is stopped so often would hold up the whole run */
  readonly mostStopped: number;
  /** ends the call under way, and the thread with it */
  readonly signal: AbortSignal | undefined;
}

/** What a thread is, for its errors and to start it. */
export interface ThreadSource {
  /** what it does with which file, e.g. `policy/chat_template.jinja: the chat template` */
  readonly title: string;
  /** what to do about one that does not end */
  readonly hint: string;
  readonly file: URL;
  readonly workerData: unknown;
  /** most memory, of a process of its own; absent: a thread of this one, without a bound */
  readonly processMb?: number;
}

/** A thread that is started when the first call comes, and keeps no process alive between calls. Its calls come one by one. */
export class BoundedThread<F extends Functions<F>> {
  private thread: Thread<F> | undefined;
  private stopped = 0;

  constructor(
    private readonly source: ThreadSource,
    private readonly bounds: Bounds,
  ) {}

  /**
   * @throws StoppedError where there is no answer
   * @throws RredcotError (exit 75) where the program is asked to end, (exit 2) where the thread was stopped too often
   */
  async call<Name extends keyof F>(
    name: Name,
    args: Parameters<F[Name]>,
  ): Promise<Awaited<ReturnType<F[Name]>>> {
    const { timeoutMs, signal } = this.bounds;
    if (signal !== undefined) throwIfInterrupted(signal);
    this.thread ??= this.start();
    const { thread } = this;
    thread.ref();
    const stop = (why: string) => void thread.terminate(new Error(why));
    const timer = afterRunning(timeoutMs, () => stop(`not done after ${timeoutMs / 1000} s`));
    const interrupt = () => stop('interrupted');
    signal?.addEventListener('abort', interrupt, { once: true });
    try {
      return await thread.call(name, args);
    } catch (error) {
      await this.close();
      if (signal !== undefined) throwIfInterrupted(signal);
      if (error instanceof RredcotError) throw error;
      throw this.stop((error as Error).message, error);
    } finally {
      clearInterval(timer);
      signal?.removeEventListener('abort', interrupt);
      thread.unref();
    }
  }

  async close(): Promise<void> {
    const { thread } = this;
    this.thread = undefined;
    await thread?.terminate();
  }

  private stop(why: string, cause: unknown): Error {
    const { mostStopped } = this.bounds;
    const { title, hint } = this.source;
    if (++this.stopped < mostStopped) return new StoppedError(why);
    return new RredcotError(`${title} was stopped ${mostStopped} times (${why})`, {
      exitCode: EXIT.usage,
      hint,
      cause,
    });
  }

  private start(): Thread<F> {
    const { file, workerData, processMb } = this.source;
    const source = processMb === undefined ? file : inProcess(file, workerData, processMb);
    return startThread('its thread', source, { workerData });
  }
}

/** Calls once so much time has passed in which this process ran: a gap between two looks counts as two of them at most. */
function afterRunning(ms: number, call: () => void): NodeJS.Timeout {
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
