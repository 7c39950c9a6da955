// Rows of lines read by the places that an earlier reader has found: the same rows, and no other bytes.
import { appendFile, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import { chunkOf } from '../../../dist/io/files/chunks.js';
import { readRows, resolveInputs } from '../../../dist/io/read/inputs.js';
import { RowPlaces } from '../../../dist/io/read/row-index.js';
import { collect, temporaryFolder } from '../../support/io-helpers.js';

const MAX_LINE_BYTES = 200;

let work: string;
let paths: string[];

beforeAll(async () => {
  work = await temporaryFolder();
  const row = (n: number) => JSON.stringify({ n, text: 'ä'.repeat(n % 40) });
  const rows = (from: number, to: number) => Array.from({ length: to - from }, (_, n) => row(from + n));
  const reject = {
    file: 'old.jsonl',
    row: 7,
    byte_offset: 3,
    id: 'old:7',
    code: 'map',
    reason: 'x',
    raw: row(7),
  };
  const files: [string, string | Buffer][] = [
    ['plain.jsonl', `${rows(0, 30).join('\n')}\n`],
    ['marked.jsonl', `\uFEFF${rows(30, 50).join('\r\n')}\r\n`],
    ['blank.jsonl', `\n \n\n${rows(50, 60).join('\n\n\t\n')}\n\n`],
    ['empty.jsonl', '\n\n'],
    ['list.json', `[${rows(60, 70).join(',\n')}]`],
    ['packed.jsonl.gz', gzipSync(rows(70, 80).join('\n'))],
    // a line that is too long, one that is no JSON, one of a rejects file, no line end at the end
    ['odd.jsonl', [row(80), `"${'x'.repeat(400)}"`, '{"broken', JSON.stringify(reject), row(84)].join('\n')],
  ];
  paths = files.map(([name]) => join(work, name));
  for (const [n, [, content]] of files.entries()) await writeFile(paths[n] as string, content);
});

/** @param most places that are kept */
async function indexed(most?: number) {
  const inputs = await resolveInputs(paths);
  const places = new RowPlaces(most);
  const all = await collect(readRows(inputs, { maxLineBytes: MAX_LINE_BYTES, places }));
  return { inputs, all, index: places.finish(all.length) };
}

describe('an index of rows', () => {
  it.each([undefined, 70, 20, 4, 1])(
    'gives every shard its rows as reading all does (%s places)',
    async (most) => {
      const { inputs, all, index } = await indexed(most);
      expect(all).toHaveLength(85);
      expect(index?.places.length).toBeLessThanOrEqual(most ?? 85);
      // no fewer than that, since what lies between two of them is read with them
      expect(index?.places.length).toBeGreaterThan(Math.min(84, (most ?? 85) / 2));
      for (const rowsPerChunk of [1, 3, 8, 64])
        for (const shards of [1, 2, 5])
          for (let shard = 0; shard < shards; shard++) {
            const wanted = (ordinal: number) => chunkOf(ordinal, rowsPerChunk) % shards === shard;
            const found = await collect(readRows(inputs, { maxLineBytes: MAX_LINE_BYTES, wanted, index }));
            expect(found).toEqual(all.filter(({ ordinal }) => wanted(ordinal)));
          }
    },
  );

  it('asks for every row once, in order, and tells of all bytes', async () => {
    const { inputs, all, index } = await indexed(20);
    const asked: number[] = [];
    let bytes = 0;
    const wanted = (ordinal: number) => {
      asked.push(ordinal);
      return ordinal % 9 === 4;
    };
    const onBytes = (count: number) => {
      expect(count).toBeGreaterThanOrEqual(0);
      bytes += count;
    };
    await collect(readRows(inputs, { wanted, onBytes, index }));
    expect(asked).toEqual(all.map(({ ordinal }) => ordinal));
    const size = inputs.reduce((sum, input) => sum + (input.size ?? 0), 0);
    expect(bytes).toBeGreaterThan(0.95 * size);
  });

  it('holds nothing of inputs without lines', async () => {
    const inputs = await resolveInputs(paths.filter((path) => /list|gz|empty/.test(path)));
    const places = new RowPlaces();
    const all = await collect(readRows(inputs, { places }));
    expect([all.length, places.finish(all.length)]).toEqual([20, undefined]);
  });

  it.each([
    ['a row more in front', (text: string) => `{"n":-1}\n${text}`],
    ['a row cut in two', (text: string) => text.replace('{"n":10', '{"n":1,\n"m":10')],
    ['a row lost', (text: string) => text.replace(/\{"n":10.*\n/, '')],
    ['a row longer', (text: string) => text.replace('{"n":10', '{"n":1000000')],
  ])('ends where the file holds other rows: %s', async (_, change) => {
    const { inputs, index } = await indexed();
    const [path = ''] = paths;
    const before = await readFile(path, 'utf8');
    await writeFile(path, change(before));
    const wanted = (ordinal: number) => ordinal < 30 && chunkOf(ordinal, 8) % 2 === 1;
    const found = collect(readRows(inputs, { wanted, index }));
    await expect(found).rejects.toMatchObject({
      exitCode: 65,
      message: expect.stringContaining(`${path}: rows 8 to 15 of the inputs are no longer where`),
    });
    await writeFile(path, before);
  });

  it('reads nothing that was added to the file since', async () => {
    const { inputs, all, index } = await indexed();
    const path = paths.at(-1) as string;
    const before = await readFile(path);
    await appendFile(path, '\n{"n":85}\n');
    const found = await collect(readRows(inputs, { maxLineBytes: MAX_LINE_BYTES, index }));
    expect(found).toEqual(all);
    await writeFile(path, before);
  });
});
