// Output to pipes, at the reader's pace.

import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { RecordBatchReader } from 'apache-arrow';
import { describe, expect, it } from 'vitest';
import { openStreamSink, ReaderClosedError } from '../../../dist/io/files/stdout.js';

const ROW_BYTES = 40_000;
/** Writes rows of ROW_BYTES one by one and tells on stderr, after each, how many are done and how much Node holds back. */
const PRODUCER = `
  import { openOutput } from ${JSON.stringify(join(import.meta.dirname, '../../../dist/io/write/output.js'))};
  import { declared } from ${JSON.stringify(join(import.meta.dirname, '../../../dist/scored/columns.js'))};
  const [format, rows, hold] = process.argv.slice(1);
  const output = await openOutput({ path: '-', format, ourColumns: declared(['id', 'sigma', 'segments', 'status']), passThrough: [], metadata: {} });
  const row = { trace: { id: 'a', source: { columns: {}, raw: '' } }, completionIds: { length: 2500 }, sigma: new Float32Array(10000).fill(0.1), segments: [], status: [] };
  let held = 0;
  for (let n = 0; n < Number(rows); n++) {
    await output.write(row);
    held = Math.max(held, process.stdout.writableLength);
    process.stderr.write((n + 1) + ' ' + held + '\\n');
    // as the program does: other work between rows
    await new Promise((resolve) => setImmediate(resolve));
    if (hold === 'hold' && n === 0) await new Promise((resolve) => process.stdin.once('data', resolve));
  }
  await output.finish();
  process.stdin.destroy();
`;

function produce(format: string, rows: number, hold = '') {
  const args = ['--input-type=module', '-e', PRODUCER, format, String(rows), hold];
  const child = spawn(process.execPath, args);
  let told = '';
  child.stderr.on('data', (text) => (told += text));
  const last = () => (told.trimEnd().split('\n').at(-1) ?? '').split(' ').map(Number);
  const closed = new Promise<number | null>((resolve) => child.on('close', resolve));
  return { child, closed, done: () => last()[0] ?? 0, held: () => last()[1] ?? 0, told: () => told };
}

describe('a pipe', () => {
  it.each(['arrow', 'jsonl'])('of %s holds the producer back while nobody reads', async (format) => {
    const rows = 400;
    const { child, closed, done, held, told } = produce(format, rows);
    // nobody reads: what is done settles, long before the end
    for (let same = 0, before = -1; same < 10; ) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      if (child.exitCode !== null) throw new Error(told());
      same = done() > 0 && done() === before ? same + 1 : 0;
      before = done();
    }
    const stuck = done();
    expect(stuck).toBeLessThan(rows / 2);

    const chunks: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
    expect(await closed, told()).toBe(0);
    // never more than one batch is held in memory
    expect(held()).toBeLessThan(4 * 2 ** 20);
    const bytes = Buffer.concat(chunks);
    if (format === 'jsonl') {
      expect(bytes.toString().trimEnd().split('\n')).toHaveLength(rows);
      return;
    }
    const sizes = [...RecordBatchReader.from(bytes)].map(({ numRows }) => numRows);
    // one row at once, then more, up to about a megabyte
    expect(sizes.slice(0, 5)).toEqual([1, 2, 4, 8, 16]);
    expect(new Set(sizes.slice(5, -1))).toEqual(new Set([Math.ceil(2 ** 20 / ROW_BYTES)]));
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(rows);
  });

  it.each(['arrow', 'jsonl'])('of %s has its first row before the second is made', async (format) => {
    const { child, closed, done, told } = produce(format, 2, 'hold');
    let bytes = Buffer.alloc(0);
    const isThere = () =>
      format === 'jsonl' ? bytes.at(-1) === 10 : bytes.length > ROW_BYTES && done() === 1;
    await new Promise<void>((resolve) => {
      child.stdout.on('data', (chunk: Buffer) => {
        bytes = Buffer.concat([bytes, chunk]);
        if (isThere()) resolve();
      });
      child.stderr.on('data', () => isThere() && resolve());
    });
    expect(done()).toBeLessThanOrEqual(1);
    child.stdin.write('go on');
    expect(await closed, told()).toBe(0);
    expect(done()).toBe(2);
  });

  it.each(['arrow', 'jsonl'])('of %s ends with its own error when its reader goes', async (format) => {
    const { child, closed, told } = produce(format, 1_000_000);
    child.stdout.once('data', () => child.stdout.destroy());
    expect(await closed).toBe(1);
    expect(told()).toContain('ReaderClosedError: the reader of the output closed its end');
  });

  it('remembers that the reader is gone', async () => {
    const stream = new Writable({ write: () => {} });
    const sink = openStreamSink(stream);
    stream.emit('error', Object.assign(new Error('broken pipe'), { code: 'EPIPE' }));
    await expect(sink.write(Buffer.from('x'))).rejects.toBeInstanceOf(ReaderClosedError);
  });
});
