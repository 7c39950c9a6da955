// What is said of the end of a job: records of a JSON log, an error on a line of its own.
import { afterEach, describe, expect, it, vi } from 'vitest';
import { dataError } from '../../dist/errors.js';
import { openLog } from '../../dist/report/log.js';
import { tellError } from '../../dist/report/terminal.js';
import { terminalNotice } from '../../dist/run/source.js';

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
