// A process that seems to be the one thread that runs in it, so that what this takes of the memory has a bound.
//
// The limits of a thread alone do not hold: where V8 cannot have one large array, it ends the whole process.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { WorkerLike } from '../../thread.js';

/** What the process of a thread is told first. */
export interface ProcessInit {
  /** URL of the thread's module */
  readonly file: string;
  readonly workerData: unknown;
  /** what the process may take, MB */
  readonly memoryMb: number;
}

export function inProcess(file: URL, workerData: unknown, memoryMb: number): WorkerLike {
  const child = fork(new URL('./process-thread.js', import.meta.url), {
    execArgv: [],
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'], // V8 prints its last words
    detached: true, // an interrupt from the keyboard is not for it
  });
  const ended = once(child, 'close').catch(() => {}); // it may have failed to start
  const post = (message: unknown) => void child.send(message as object, () => {}); // one that is dead has told so
  post({ file: file.href, workerData, memoryMb } satisfies ProcessInit);
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
