// The process that one thread has to itself: it passes messages on, and ends before the thread has taken the machine's memory.
import { Worker, type WorkerOptions } from 'node:worker_threads';
import { crashOf } from '../../thread.js';
import type { ProcessInit } from './bounded-process.js';

/** A thread at work takes a gigabyte in a second. */
const WATCH_MS = 10;

function run({ file, workerData, memoryMb }: ProcessInit): void {
  const options: WorkerOptions = { workerData, resourceLimits: { maxOldGenerationSizeMb: memoryMb } };
  const worker = new Worker(new URL(file), options);
  // `exit` would wait for a thread that is in the middle of a regular expression
  const end = () => process.kill(process.pid, 'SIGKILL');
  const endWith = (error: unknown) => process.send?.(crashOf(error), end);
  worker.on('message', (answer) => process.send?.(answer));
  worker.on('error', endWith);
  worker.on('exit', end);
  process.on('message', (call) => worker.postMessage(call));
  process.on('disconnect', end);
  setInterval(() => {
    if (process.memoryUsage.rss() > memoryMb * 2 ** 20)
      endWith(new Error(`takes more than ${memoryMb} MB of memory`));
  }, WATCH_MS);
}

// whom they are meant for ends this process too
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => {});
process.once('message', (init) => run(init as ProcessInit));
