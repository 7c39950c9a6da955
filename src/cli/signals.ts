// The end of a run that comes from outside: signals of a terminal or a scheduler, and a time limit.

import { usageError } from '../errors.js';
import { removeTemporaryFiles } from '../io/files/atomic-file.js';

/** What a terminal (Ctrl-C, its end), a scheduler (Slurm, Kubernetes) or `--signal=USR1@120` sends. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGUSR1', 'SIGHUP'] as const;

/** What ends a run from outside. */
export interface Interruption {
  readonly signal: AbortSignal;
  /** @param text of `--time-limit` @throws RredcotError (exit 2) */
  limitTime(text: string): void;
  /** From now on the first signal ends the process, as if nobody listened to it, but without its temporary files. */
  keepNothing(): void;
}

/**
 * Aborted by the first signal or when the time is over, so that the run under way can end; a second signal ends the
 * process as it stands, without its temporary files.
 */
export function interruptible(): Interruption {
  const controller = new AbortController();
  let keepsWork = true;
  for (const name of SIGNALS)
    process.on(name, () => {
      if (!keepsWork) {
        removeTemporaryFiles();
        process.removeAllListeners(name);
        process.kill(process.pid, name);
        return;
      }
      // a terminal that goes sends SIGHUP, and its shell may send another
      if (controller.signal.aborted && name !== 'SIGHUP') {
        removeTemporaryFiles();
        process.kill(process.pid, 'SIGKILL');
      }
      controller.abort();
    });
  return {
    signal: controller.signal,
    keepNothing() {
      keepsWork = false;
    },
    limitTime(text) {
      setTimeout(() => controller.abort(), parseTimeLimit(text)).unref();
    },
  };
}

const TIME_UNITS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000 };
/** setTimeout holds no longer time */
const LONGEST_MS = 2 ** 31 - 1;

/** Reads `--time-limit 55m` as milliseconds: a number of seconds, or one with s, m or h. @throws RredcotError (exit 2) */
export function parseTimeLimit(text: string): number {
  const [, number, unit = 's'] = /^(\d+(?:\.\d+)?)([smh]?)$/.exec(text) ?? [];
  const ms = Number(number) * (TIME_UNITS[unit || 's'] as number);
  if (number === undefined || ms <= 0 || ms > LONGEST_MS)
    throw usageError(
      `--time-limit ${text}: expected a time of at most 24 days, e.g. 90s, 55m or 11.5h`,
      '--time-limit 55m',
    );
  return ms;
}
