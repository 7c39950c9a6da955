// What is said of a long job and of its end: progress that counts rejects, records of a JSON log, an error on a line of its own.
import { afterEach, describe, expect, it, vi } from 'vitest';
import { dataError } from '../../dist/errors.js';
import { openLog } from '../../dist/report/log.js';
import { Pace, reportTotals } from '../../dist/report/progress.js';
import { tellError, terminalNotice } from '../../dist/report/terminal.js';

/** What is written to stderr, a terminal or not. */
function listen(isTTY: boolean): string[] {
  const written: string[] = [];
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    written.push(String(text));
    return true;
  });
  Object.defineProperty(process.stderr, 'isTTY', { value: isTTY, configurable: true });
  return written;
}

afterEach(() => {
  vi.restoreAllMocks();
  Reflect.deleteProperty(process.stderr, 'isTTY');
});

function progressLine(totals: { traces: number; tokens: number; rejects: number }, traces?: number): string {
  let line = '';
  const log = {
    info() {},
    text() {},
    warn() {},
    record() {},
    progress(text: string) {
      line = text;
    },
  };
  reportTotals(
    log,
    { ...totals, seconds: 10 },
    { traces, share: traces === undefined ? 0.25 : undefined },
    new Pace(),
  );
  return line;
}

describe('progress', () => {
  it('counts a reject as done', () => {
    const line = progressLine({ traces: 200, tokens: 5000, rejects: 300 }, 1000);
    expect(line).toBe('500 of 1,000 traces (50 %) · 500 tokens/s · 300 rejected · 10 s left');
  });

  it('has a speed where all were rejected, and never passes the end', () => {
    expect(progressLine({ traces: 0, tokens: 0, rejects: 500 })).toBe(
      '500 traces (25 %) · 50 traces/s · 500 rejected · 30 s left',
    );
    expect(progressLine({ traces: 10, tokens: 10, rejects: 5 }, 12)).toContain('(100 %)');
  });
});

describe('an error', () => {
  it('stands on a line of its own, where a progress line was drawn', () => {
    const written = listen(true);
    openLog({ quiet: false, json: false }).progress('half way', {});
    expect(tellError(dataError('broken', 'mend it'), false)).toBe(65);
    const clearLine = '\r\u001b[K';
    expect(written.at(-2)).toBe(clearLine);
    expect(written.at(-1)).toBe('rredcot: broken\n  try: mend it\n');
  });

  it('is a record of a JSON log', () => {
    const written = listen(false);
    tellError(dataError('broken', 'mend it'), true);
    const record = { level: 'fatal', code: 'data', exit_code: 65, hint: 'mend it', msg: 'broken' };
    expect(JSON.parse(written.join(''))).toMatchObject(record);
  });
});

it('a command that reads a terminal says so', () => {
  expect(terminalNotice(['-'], { isTTY: true })).toContain('Ctrl-D');
  expect(terminalNotice(['a.jsonl'], { isTTY: true })).toBeUndefined();
  expect(terminalNotice(['-'], {})).toBeUndefined();
});
