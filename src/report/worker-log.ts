// The log of a worker of `--workers`: notes in a small file of the run folder, written anew a few times a second, which its parent reads.
import { writeFileSync } from 'node:fs';
import type { RredcotError } from '../errors.js';
import { readJson } from '../io/files/json-file.js';
import type { Log } from './log.js';
import type { SummaryPart } from './summary.js';

/** Where a worker puts its notes; set for workers alone. */
export const WORKER_VARIABLE = 'RREDCOT_WORKER';

/** What a worker has come to. Nothing in it is an event: who misses a state sees the next one. */
export interface WorkerNotes {
  /** `traces`, `tokens`, `rejects` and `share` of this attempt */
  readonly progress?: Readonly<Record<string, unknown>>;
  readonly infos: readonly string[];
  readonly warnings: readonly (readonly [code: string, message: string])[];
  readonly met?: SummaryPart;
  /** what has ended it */
  readonly error?: { readonly message: string; readonly hint?: string | undefined };
}

/** The record of what a worker's summary holds. */
export const MET = 'met';

const INTERVAL_MS = 200;

/** Whether this process is a worker. */
export function isWorker(): boolean {
  return process.env[WORKER_VARIABLE] !== undefined;
}

const noted = { infos: [] as string[], warnings: [] as (readonly [string, string])[] };
let writtenMs = Number.NEGATIVE_INFINITY;

function note(more: Partial<WorkerNotes>, isDue = performance.now() - writtenMs >= INTERVAL_MS): void {
  Object.assign(noted, more);
  if (!isDue) return;
  writtenMs = performance.now();
  try {
    writeFileSync(process.env[WORKER_VARIABLE] as string, JSON.stringify(noted));
  } catch {
    // the work goes on; what ends it stands on stderr too
  }
}

export function openWorkerLog(): Log {
  return {
    info: (message) => note({ infos: [...noted.infos, message] }, true),
    warn: (code, message) => note({ warnings: [...noted.warnings, [code, message]] }, true),
    text: () => {},
    progress: (_, progress) => note({ progress }),
    record(message, fields) {
      if (message === MET) note({ met: fields as unknown as SummaryPart });
      if (message === 'done') note({}, true);
    },
  };
}

/** What ends this process, if it is a worker. */
export function noteError({ message, hint }: RredcotError): void {
  if (isWorker()) note({ error: { message, hint } }, true);
}

/** A worker's notes; undefined where it has written none, or is writing them. */
export function readNotes(path: string): Promise<WorkerNotes | undefined> {
  return readJson<WorkerNotes>(path).catch(() => undefined);
}
