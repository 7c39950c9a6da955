// Worker threads: the main thread calls functions of a thread; however that ends, whatever waits for it fails with one error. And how many cores
// of the machine are this process's own.
import { availableParallelism } from 'node:os';
import { parentPort, SHARE_ENV, Worker, type WorkerOptions } from 'node:worker_threads';
import { type ExitCode, RredcotError } from './errors.js';

/** The functions that a thread serves, by name; their arguments and results are copied, or moved. */
export type Functions<F> = { readonly [Name in keyof F]: (...args: never[]) => unknown };
type Call = { readonly id: number; readonly name: string; readonly args: readonly never[] };
type SentError = Pick<NodeJS.ErrnoException, 'name' | 'message' | 'stack' | 'code' | 'path'> & {
  exitCode?: ExitCode;
  hint?: string | undefined;
};
type Reply = { id: number; result: unknown } | { id?: number; error: SentError };

/** A thread as the main thread sees it. It takes one call after the other, in their order. */
export interface Thread<F extends Functions<F>> {
  /**
   * @param moved buffers of the arguments that are handed over instead of copied
   * @throws Error that the function has thrown, with its name, code and path, a RredcotError as such, or one that says how
   * the thread ended
   */
  call<Name extends keyof F>(
    name: Name,
    args: Parameters<F[Name]>,
    moved?: readonly ArrayBuffer[],
  ): Promise<Awaited<ReturnType<F[Name]>>>;
  /** Whether it keeps the process alive, as it does from the start. */
  ref(): void;
  unref(): void;
  /** Ends it after the call under way; that one fails too, and all others. */
  finish(): Promise<void>;
  /** Ends it wherever it is. @param reason what waits for it fails with */
  terminate(reason?: Error): Promise<void>;
}

/** What seems to be a worker. */
export interface WorkerLike {
  on(event: string, listener: (value: never) => void): unknown;
  postMessage(message: unknown, moved: readonly ArrayBuffer[]): void;
  terminate(): Promise<unknown>;
  ref(): void;
  unref(): void;
}

/**
 * Starts a thread.
 * @param title of the thread, for its errors, e.g. `the decoder`
 * @param source a file which calls {@link serve}, or what runs one
 */
export function startThread<F extends Functions<F>>(
  title: string,
  source: URL | WorkerLike,
  options: WorkerOptions = {},
): Thread<F> {
  // what is kept for the next one that asks sees the environment of then
  const worker = source instanceof URL ? new Worker(source, { ...options, env: SHARE_ENV }) : source;
  const waiting = new Map<number, { resolve(result: unknown): void; reject(error: Error): void }>();
  let lastId = 0;
  let failure: Error | undefined;
  const fail = (error: Error): void => {
    failure ??= error;
    for (const { reject } of waiting.values()) reject(failure);
    waiting.clear();
  };
  const terminate = async (reason?: Error): Promise<void> => {
    if (reason !== undefined) fail(reason);
    await worker.terminate();
  };
  worker.on('message', (answer: Reply) => {
    const { id = 0 } = answer;
    if (!('error' in answer)) waiting.get(id)?.resolve(answer.result);
    else if (id > 0) waiting.get(id)?.reject(received(answer.error));
    else void terminate(received(answer.error));
    waiting.delete(id);
  });
  worker.on('messageerror', (error) => void terminate(new Error(`${title} cannot be read: ${error}`)));
  // what a thread has said comes before its exit, not before its crash
  let end = new Error(`${title} ended early`);
  worker.on('error', (thrown: unknown) => {
    const error = sent(thrown);
    end = received({ ...error, message: `${title} crashed: ${error.message}` });
  });
  const exited = new Promise<void>((resolve) => worker.on('exit', () => resolve(fail(end))));
  return {
    call(name, args, moved = []) {
      const answer = new Promise<never>((resolve, reject) => {
        if (failure !== undefined) throw failure;
        worker.postMessage({ id: ++lastId, name, args }, moved);
        waiting.set(lastId, { resolve: resolve as (result: unknown) => void, reject });
      });
      answer.catch(() => {}); // of several calls under way, the caller may take the first failure for all
      return answer;
    },
    ref: () => worker.ref(),
    unref: () => worker.unref(),
    async finish() {
      worker.postMessage(null, []);
      fail(new Error(`${title} is closed`));
      await exited;
    },
    terminate,
  };
}

/**
 * In a thread: answers calls until the thread is ended. A function that waits for what can never come ends it too:
 * while one is at work, the port alone does not keep the thread alive.
 */
export function serve<F extends Functions<F>>(functions: F): void {
  const port = parentPort;
  if (port === null) throw new Error('only a worker thread can serve');
  let isClosing = false;
  const answer = async ({ id, name, args }: Call): Promise<void> => {
    port.unref();
    try {
      const result = await functions[name as keyof F](...args);
      port.postMessage({ id, result } satisfies Reply, movedWith.get(Object(result)) ?? []);
    } catch (error) {
      port.postMessage({ id, error: sent(error) } satisfies Reply);
    }
    port.ref();
  };
  let last = Promise.resolve();
  port.on('message', (call: Call | null) => {
    isClosing ||= call === null;
    last = last.then(() => (call === null ? port.close() : isClosing ? undefined : answer(call)));
  });
}

const movedWith = new WeakMap<object, readonly ArrayBuffer[]>();

/** In a thread: a function's result, the buffers of whose views are handed over instead of copied. */
export function moved<R extends object>(result: R, ...views: readonly ArrayBufferView[]): R {
  const buffers = views.map(({ buffer }) => buffer as ArrayBuffer);
  movedWith.set(result, buffers);
  return result;
}

/** In a thread: ends it, and every call with it, for a failure that no function can throw. */
export function failThread(error: unknown): void {
  parentPort?.postMessage(crashOf(error));
}

/** What tells the other side that all is over. */
export function crashOf(error: unknown): object {
  return { error: sent(error) } satisfies Reply;
}

// an Error that is copied loses its code and path, and its cause may be what cannot be copied
function sent(thrown: unknown): SentError {
  if (!(thrown instanceof Error)) return { name: 'Error', message: String(thrown) };
  const { name, message, stack = '', code, path, exitCode, hint }: SentError = thrown;
  if (exitCode !== undefined) return { name, message, stack, exitCode, hint };
  return { name, message, stack, ...(code && { code }), ...(path && { path }) };
}

function received(error: SentError): Error {
  const { message, exitCode, hint } = error;
  if (exitCode !== undefined) return new RredcotError(message, { exitCode, hint });
  return Object.assign(new Error(error.message), error);
}

/** Set by `--threads`. */
export const CORES_VARIABLE = 'RREDCOT_THREADS';

/** All cores, or the share that `RREDCOT_THREADS` allows. */
export function ownCores(env: Readonly<Record<string, string | undefined>> = process.env): number {
  const share = Number(env[CORES_VARIABLE]);
  const cores = availableParallelism();
  return Number.isInteger(share) && share >= 1 ? Math.min(share, cores) : cores;
}
