// Items in, what several threads make of them out, in the same order; errors keep their kind on the way.
import { type MessagePort, Worker } from 'node:worker_threads';
import { EXIT, RredcotError } from '../errors.js';
import { TypesChangedError } from '../io/guess.js';

/** What a thread answers to an item. */
type Answer<B> =
  | { readonly kind: 'done'; readonly value: B }
  | { readonly kind: 'failed'; readonly error: Failure };

type Failure =
  | { readonly kind: 'user'; readonly message: string; readonly exitCode: number; readonly hint?: string }
  | { readonly kind: 'types' | 'bug'; readonly message: string; readonly stack?: string };

/** Items that are with each thread at a time: one at work, one waiting. */
const ITEMS_PER_THREAD = 2;

/** How to hand over an item, and to whom. */
export interface ThreadOptions<A> {
  /** the thread's module, which calls {@link answerEach} */
  readonly module: URL;
  /** its `workerData` */
  readonly data: unknown;
  readonly threads: number;
  /** memory of an item that is given away with it */
  transfer(item: A): ArrayBuffer[];
}

/**
 * Has each item worked on by one of several threads.
 * @throws what a thread throws, in the place of the item's result; the threads end then, or when nobody takes results any more
 */
export async function* inThreads<A, B>(items: AsyncIterable<A>, opts: ThreadOptions<A>): AsyncGenerator<B> {
  const threads = Array.from({ length: opts.threads }, () => openThread<A, B>(opts));
  const ahead: Promise<B>[] = [];
  try {
    for await (const item of items) {
      const idlest = threads.reduce((a, b) => (b.waiting() < a.waiting() ? b : a));
      const result = idlest.ask(item);
      // a failure is told in its turn
      result.catch(() => {});
      ahead.push(result);
      if (ahead.length >= ITEMS_PER_THREAD * threads.length) yield await (ahead.shift() as Promise<B>);
    }
    for (const result of ahead) yield await result;
  } finally {
    await Promise.all(threads.map((thread) => thread.close()));
  }
}

interface Thread<A, B> {
  ask(item: A): Promise<B>;
  waiting(): number;
  close(): Promise<void>;
}

function openThread<A, B>({ module, data, transfer }: ThreadOptions<A>): Thread<A, B> {
  const worker = new Worker(module, { workerData: data });
  const waiting: { resolve(value: B): void; reject(error: unknown): void }[] = [];
  let end: Error | undefined;
  worker.on('message', (answer: Answer<B>) => {
    const { resolve, reject } = waiting.shift() as (typeof waiting)[number];
    if (answer.kind === 'done') resolve(answer.value);
    else reject(revived(answer.error));
  });
  worker.on('error', (error: NodeJS.ErrnoException) => {
    end = error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? outOfMemory(error) : error;
  });
  worker.on('messageerror', (error) => {
    end = error;
    void worker.terminate();
  });
  worker.on('exit', () => {
    end ??= new Error('a thread ended early');
    for (const { reject } of waiting.splice(0)) reject(end);
  });
  return {
    ask: (item) =>
      new Promise((resolve, reject) => {
        if (end !== undefined) return reject(end);
        waiting.push({ resolve, reject });
        worker.postMessage(item, transfer(item));
      }),
    waiting: () => waiting.length,
    async close() {
      await worker.terminate();
    },
  };
}

function outOfMemory(cause: Error): RredcotError {
  return new RredcotError('a thread ran out of memory', {
    exitCode: EXIT.interrupted,
    hint: 'NODE_OPTIONS=--max-old-space-size=8192, or RREDCOT_THREADS=1, and the same command again',
    cause,
  });
}

/** The other side: answers each item that comes, in order. @param transfer memory of a result that is given away with it */
export function answerEach<A, B>(
  port: MessagePort,
  work: (item: A) => B,
  transfer: (value: B) => ArrayBuffer[],
): void {
  port.on('message', (item: A) => {
    let answer: Answer<B>;
    try {
      answer = { kind: 'done', value: work(item) };
    } catch (error) {
      answer = { kind: 'failed', error: described(error) };
    }
    port.postMessage(answer, answer.kind === 'done' ? transfer(answer.value) : []);
  });
}

function described(error: unknown): Failure {
  const { message, stack } = error instanceof Error ? error : new Error(String(error));
  if (error instanceof RredcotError) {
    const { exitCode, hint } = error;
    return { kind: 'user', message, exitCode, ...(hint === undefined ? {} : { hint }) };
  }
  const kind = error instanceof TypesChangedError ? 'types' : 'bug';
  return { kind, message, ...(stack === undefined ? {} : { stack }) };
}

function revived(failure: Failure): Error {
  if (failure.kind === 'user') {
    const { message, exitCode, hint } = failure;
    return new RredcotError(message, {
      exitCode: exitCode as RredcotError['exitCode'],
      ...(hint === undefined ? {} : { hint }),
    });
  }
  const error =
    failure.kind === 'types' ? new TypesChangedError(failure.message) : new Error(failure.message);
  if (failure.stack !== undefined) error.stack = failure.stack;
  return error;
}
