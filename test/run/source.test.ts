// A command's inputs as it is told of them: how much is still to come.

import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { tableFromArrays, tableToIPC } from 'apache-arrow';
import { describe, expect, it } from 'vitest';
import { parseFieldMap } from '../../dist/io/map/fields.js';
import { peekRows, type ReadRows, resolveInputs } from '../../dist/io/read/inputs.js';
import { openOutput } from '../../dist/io/write/output.js';
import type { Log } from '../../dist/report/log.js';
import { isBad } from '../../dist/rows.js';
import { openSource, type Source } from '../../dist/run/source.js';
import { declared } from '../../dist/scored/columns.js';
import { bareRow, inputRow, temporaryFolder, traceOf } from '../support/io-helpers.js';

async function* ordinals(source: Source): AsyncGenerator<{ readonly ordinal: number }> {
  for await (const item of source.traces()) yield isBad(item) ? item : item.trace.source;
}

/** A source of inputs of which so many traces are done. */
async function sourceOf(paths: readonly string[], traces = 0, own?: ReadRows) {
  const inputs = await resolveInputs(paths);
  return openSource(inputs, {
    run: { prescan: undefined, rowsPerPart: 64, shards: 1, folder: undefined, wanted: () => true },
    done: traces,
    read: own ?? (await peekRows(inputs, undefined)).read,
    map: parseFieldMap(undefined),
    needs: { prompt: false, references: false },
    limit: undefined,
    maxLineBytes: undefined,
    typed: false,
    columnar: null,
    assertUnchanged: async () => {},
    log: {} as Log,
  });
}

it('counts what a resumed run skips as neither done nor to come', async () => {
  const path = join(await temporaryFolder(), 'in.jsonl');
  await writeFile(path, '{}'.padEnd(1000));
  // two rows are an earlier attempt's; the third one comes with the bytes of all three
  const read: ReadRows = async function* ({ onBytes }) {
    onBytes?.(600);
    yield { ...inputRow({ completion: 'c' }), ordinal: 2 };
    onBytes?.(100);
    yield { ...inputRow({ completion: 'd' }), ordinal: 3 };
  };
  async function shares(traces: number): Promise<(number | undefined)[]> {
    const source = await sourceOf([path], traces, read);
    const found: (number | undefined)[] = [];
    for await (const { ordinal } of ordinals(source)) found.push(source.expected.share(ordinal));
    return found;
  }
  expect(await shares(0)).toEqual([0.6, 0.7]);
  expect(await shares(2)).toEqual([0, 0.25]);
});

describe('what is done of several files', () => {
  const rows = (count: number, length: number) =>
    Array.from({ length: count }, (_, n) => ({ id: `${n}`, completion: 'x'.repeat(length) }));
  const jsonl = (all: readonly object[]) => all.map((row) => `${JSON.stringify(row)}\n`).join('');

  async function columnar(
    all: readonly { readonly id: string; readonly completion: string }[],
    name: string,
  ) {
    if (name !== 'parquet') {
      const columns = { id: all.map(({ id }) => id), completion: all.map(({ completion }) => completion) };
      return Buffer.from(tableToIPC(tableFromArrays(columns), name === 'arrow' ? 'file' : 'stream'));
    }
    const path = join(await temporaryFolder(), 'a.parquet');
    const own = { ourColumns: declared(['id', 'completion']), passThrough: [], metadata: {} };
    const output = await openOutput({ path, format: 'parquet', ...own });
    for (const [n, columns] of all.entries())
      await output.write({ ...bareRow({}, n), trace: { ...traceOf({}, n), ...columns } });
    await output.finish();
    await output.publish();
    return readFile(path);
  }

  /** What is told of each row when all of them have been read, as a window of traces is. */
  async function sharesOf(files: Readonly<Record<string, string | Buffer>>): Promise<number[]> {
    const folder = await temporaryFolder();
    const paths = Object.keys(files).map((name) => join(folder, name));
    for (const [n, content] of Object.values(files).entries()) await writeFile(paths[n] as string, content);
    const source = await sourceOf(paths);
    const read: number[] = [];
    for await (const { ordinal } of ordinals(source)) read.push(ordinal);
    return read.map((ordinal) => source.expected.share(ordinal) ?? Number.NaN);
  }
  const near = (shares: readonly number[], exact: readonly number[], by: number) => {
    expect(shares).toHaveLength(exact.length);
    for (const [n, share] of shares.entries())
      expect(Math.abs(share - (exact[n] as number))).toBeLessThan(by);
  };
  const even = (rows: number) => Array.from({ length: rows }, (_, n) => (n + 1) / rows);

  it('of JSON lines is the part of their bytes up to the row, however far ahead they were read', async () => {
    // the first files have most rows, the last one most of the bytes
    const files = {
      'a.jsonl': jsonl(rows(50, 10)),
      'b.jsonl': jsonl(rows(50, 10)),
      'c.jsonl': jsonl(rows(10, 4000)),
    };
    const text = Object.values(files).join('');
    let bytes = 0;
    const exact = text
      .split('\n')
      .slice(0, -1)
      .map((line) => {
        bytes += line.length + 1;
        return bytes / text.length;
      });
    near(await sharesOf(files), exact, 0.002);
  });

  it('of packed ones is that of their packed bytes, some of them unpacked ahead', async () => {
    const noise = (n: number) => ({
      completion: Array.from({ length: 200 }, (_, i) => ((n * 7919 + i) ** 2).toString(36)).join(''),
    });
    const one = jsonl(Array.from({ length: 500 }, (_, n) => noise(n)));
    near(await sharesOf({ 'a.jsonl.gz': gzipSync(one), 'b.jsonl.gz': gzipSync(one) }), even(1000), 0.08);
  });

  it('of Parquet and Arrow is that of their rows', async () => {
    for (const name of ['parquet', 'arrow', 'arrows'] as const) {
      const bytes = await columnar(rows(300, 400), name);
      near(await sharesOf({ [`a.${name}`]: bytes, [`b.${name}`]: bytes }), even(600), 0.002);
    }
  });
});
