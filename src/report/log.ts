// Everything the program says to people and log collectors: on stderr, since stdout is for data.
import pino from 'pino';
import pretty from 'pino-pretty';
import { escapeControls, printableJson } from '../printable.js';

export interface LogOptions {
  /** errors only */
  readonly quiet: boolean;
  /** pino's JSON lines instead of text */
  readonly json: boolean;
  /** stands in every record: which shard a process does */
  readonly shard?: string | undefined;
}

/** What a command reports to. */
export interface Log {
  info(message: string): void;
  /** something the user should know of; `code` is stable, for programs */
  warn(code: string, message: string): void;
  /** a block for people's eyes: left out of JSON logs, where `record` carries the figures */
  text(block: string): void;
  /** figures for programs: left out of text logs */
  record(message: string, fields: Record<string, unknown>): void;
  /** the state of a long job: one line that is drawn over on a terminal, a record every ten seconds elsewhere */
  progress(line: string, fields: Record<string, unknown>): void;
}

const TERMINAL_INTERVAL_MS = 100;
const RECORD_INTERVAL_MS = 10_000;
const CLEAR_LINE = '\r\u001b[K';

/** Whether the last line of the terminal is one that is drawn over. */
let drawn = false;

/** Leaves the terminal with an empty line, for what is not part of the progress. */
export function endProgressLine(): void {
  if (drawn) process.stderr.write(CLEAR_LINE);
  drawn = false;
}

export function openLog({ quiet, json, shard }: LogOptions): Log {
  const onTerminal = process.stderr.isTTY === true && !json;
  const stderr = pino.destination({ fd: 2, sync: true });
  // with nobody to tell, the work goes on
  stderr.on('error', () => {});
  const stream = json
    ? { write: (line: string) => stderr.write(printableJson(line)) }
    : pretty({
        destination: stderr,
        colorize: onTerminal && colours(),
        ignore: 'pid,hostname,time',
        hideObject: true,
      });
  const base = json && shard !== undefined ? { shard } : null;
  const level = (label: string) => ({ level: label });
  const logger = pino({ level: quiet ? 'error' : 'info', base, formatters: { level } }, stream);
  let last = performance.now() - TERMINAL_INTERVAL_MS;
  const clear = endProgressLine;
  return {
    info(message) {
      clear();
      logger.info(escapeControls(message));
    },
    record(message, fields) {
      if (json) logger.info(fields, message);
    },
    warn(code, message) {
      clear();
      logger.warn({ code }, escapeControls(message));
    },
    text(block) {
      clear();
      if (!quiet && !json) process.stderr.write(`${block}\n`);
    },
    progress(line, fields) {
      const now = performance.now();
      if (quiet || now - last < (onTerminal ? TERMINAL_INTERVAL_MS : RECORD_INTERVAL_MS)) return;
      last = now;
      if (onTerminal) {
        process.stderr.write(`${CLEAR_LINE}${line.slice(0, (process.stderr.columns || 80) - 1)}`);
        drawn = true;
      } else logger.info(fields, line);
    },
  };
}

/** Whether stderr takes colours: a terminal, and nobody said no (https://no-color.org). */
export function colours(): boolean {
  return coloursOf(process.stderr);
}

/** The same of any stream. */
export function coloursOf(stream: { readonly isTTY?: boolean }): boolean {
  return stream.isTTY === true && !process.env.NO_COLOR && process.env.TERM !== 'dumb';
}
