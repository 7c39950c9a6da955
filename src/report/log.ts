// Everything the program says to people and log collectors: on stderr, since stdout is for data.
import pino from 'pino';
import pretty from 'pino-pretty';
import { escapeControls, printableJson } from '../printable.js';
import { drawProgressLine, endProgressLine, hasColors } from './terminal.js';

export interface LogOptions {
  /** errors only */
  readonly quiet: boolean;
  /** pino's JSON lines instead of text */
  readonly json: boolean;
  /** stands in every record: which shard a process does */
  readonly shard?: string | undefined;
}

/** What a command reports to. A message or a warning is told once, however many processes and steps of a run come upon it. */
export interface Log {
  info(message: string): void;
  /** something the user should know of; `code` is stable, for programs */
  warn(code: string, message: string): void;
  /** A block for people's eyes, which is made where they see it: left out of JSON logs, where `record` carries the figures. */
  text(block: () => string): void;
  /** figures for programs: left out of text logs */
  record(message: string, fields: Record<string, unknown>): void;
  /** the state of a long job: one line that is drawn over on a terminal, a record every ten seconds elsewhere */
  progress(line: string, fields: Record<string, unknown>): void;
}

const TERMINAL_INTERVAL_MS = 100;
const RECORD_INTERVAL_MS = 10_000;

export function openLog({ quiet, json, shard }: LogOptions): Log {
  const onTerminal = process.stderr.isTTY === true && !json;
  const stderr = pino.destination({ fd: 2, sync: true });
  // with nobody to tell, the work goes on
  stderr.on('error', () => {});
  const stream = json
    ? { write: (line: string) => stderr.write(printableJson(line)) }
    : pretty({
        destination: stderr,
        colorize: onTerminal && hasColors(process.stderr),
        ignore: 'pid,hostname,time',
        hideObject: true,
      });
  const base = json && shard !== undefined ? { shard } : null;
  const level = (label: string) => ({ level: label });
  const logger = pino({ level: quiet ? 'error' : 'info', base, formatters: { level } }, stream);
  let last = performance.now() - TERMINAL_INTERVAL_MS;
  const told = new Set<string>();
  function tell(message: string, write: (text: string) => void): void {
    if (quiet || told.size === told.add(message).size) return;
    endProgressLine();
    write(escapeControls(message));
  }
  return {
    info: (message) => tell(message, (text) => logger.info(text)),
    record(message, fields) {
      if (json) logger.info(fields, message);
    },
    warn: (code, message) => tell(message, (text) => logger.warn({ code }, text)),
    text(block) {
      if (quiet || json) return;
      endProgressLine();
      process.stderr.write(`${block()}\n`);
    },
    progress(line, fields) {
      const now = performance.now();
      if (quiet || now - last < (onTerminal ? TERMINAL_INTERVAL_MS : RECORD_INTERVAL_MS)) return;
      last = now;
      if (onTerminal) drawProgressLine(line);
      else logger.info(fields, line);
    },
  };
}
