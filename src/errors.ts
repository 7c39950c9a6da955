// The two kinds of failure a user meets: a run that cannot go on, and a trace that is rejected.

/** Exit codes of the command line (DESIGN §5). */
export const EXIT = {
  done: 0,
  bug: 1,
  usage: 2,
  data: 65,
  device: 69,
  interrupted: 75,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** An error whose message is meant for the user: one line, the flag that fixes it, the exit code. */
export class RredcotError extends Error {
  readonly exitCode: ExitCode;
  /** what to do about it, e.g. `use --map completion=<path>` */
  readonly hint: string | undefined;

  constructor(message: string, options: { exitCode: ExitCode; hint?: string | undefined; cause?: unknown }) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'RredcotError';
    this.exitCode = options.exitCode;
    this.hint = options.hint;
  }
}

/** @throws RredcotError (exit 75) once the user or the machine has asked the program to stop */
export function throwIfInterrupted(signal: AbortSignal): void {
  if (signal.aborted) throw interruptedError('interrupted, no output was written');
}

/** Why a row or a trace went to the rejects file: a stable code for programs, a reason for people. */
export interface Rejection {
  /** e.g. `json`, `utf8`, `map`, `empty_completion`, `no_reference`, `too_long` */
  readonly code: string;
  /** what was found, what was expected, and the flag that fixes it */
  readonly reason: string;
}

/** Thrown by a stage for a trace that it cannot take; caught where the rejects file is at hand. */
export class TraceRejected extends Error implements Rejection {
  constructor(
    readonly code: string,
    readonly reason: string,
  ) {
    super(reason);
    this.name = 'TraceRejected';
  }
}

/** The machine has not enough memory for a run of the policy: fewer or shorter traces may fit. */
export class OutOfMemoryError extends Error {
  override readonly name = 'OutOfMemoryError'; // by which it is known again when it comes from a thread
}

const errorOf = (exitCode: ExitCode) => (message: string, hint?: string, cause?: unknown) =>
  new RredcotError(message, { exitCode, hint, cause });
/** An error in how the command was called (exit 2). */
export const usageError = errorOf(EXIT.usage);
/** Input, or what a run has made of it, that is not as it should be (exit 65). */
export const dataError = errorOf(EXIT.data);
/** Who answers cannot, or is not to be believed (exit 69). */
export const deviceError = errorOf(EXIT.device);
/** The same command can go on later (exit 75). */
export const interruptedError = errorOf(EXIT.interrupted);

/** Another command's file stands at an output that was free when the command began. */
export class OvertakenError extends RredcotError {
  constructor(path: string) {
    super(`${path}: another command has made it while this one was at work`, {
      exitCode: EXIT.usage,
      hint: '--overwrite puts the new one in its place; or name another output with -o',
    });
  }
}
