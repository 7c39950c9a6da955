// The log of a process that another one has started: figures go to that one, which speaks to people.
import type { Log } from './log.js';
import type { SummaryPart } from './summary.js';

/** Set for the processes of `--workers`. */
export const WORKER_VARIABLE = 'RREDCOT_WORKER';

/** What a worker reports. */
export type WorkerMessage =
  | { readonly kind: 'progress' | 'done'; readonly fields: Readonly<Record<string, unknown>> }
  | { readonly kind: 'met'; readonly fields: SummaryPart }
  | { readonly kind: 'info'; readonly message: string }
  | { readonly kind: 'warning'; readonly code: string; readonly message: string };

/** The record of what a worker's summary holds. */
export const MET = 'met';

/** What a worker is told: end as at a signal. */
export const STOP = 'stop';

const MESSAGE_INTERVAL_MS = 200;

/** Whether this process is a worker. */
export function isWorker(): boolean {
  return process.send !== undefined && process.env[WORKER_VARIABLE] !== undefined;
}

export function openWorkerLog(): Log {
  let last = 0;
  const send = (message: WorkerMessage): void => {
    // a parent that is gone reads nothing; the run is told of that elsewhere
    if (process.connected) process.send?.(message, undefined, undefined, () => {});
  };
  return {
    info: (message) => send({ kind: 'info', message }),
    text: () => {},
    warn: (code, message) => send({ kind: 'warning', code, message }),
    record(message, fields) {
      if (message === 'done') send({ kind: 'done', fields });
      if (message === MET) send({ kind: 'met', fields: fields as unknown as SummaryPart });
    },
    progress(_, fields) {
      const now = performance.now();
      if (now - last < MESSAGE_INTERVAL_MS) return;
      last = now;
      send({ kind: 'progress', fields });
    },
  };
}
