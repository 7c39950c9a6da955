// An attempt that ends early: its rejects are kept where the chunk is still its own, and another attempt's stay as they are.
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { openChunkWriter } from '../../../dist/io/run/chunk-writer.js';
import type { BadRow } from '../../../dist/rows.js';
import { bareRow, temporaryFolder } from '../../support/io-helpers.js';

const bad: BadRow = {
  kind: 'bad',
  file: 'x.jsonl',
  row: 2,
  ordinal: 1,
  byteOffset: 0,
  raw: '{',
  rejection: { code: 'invalid_json', reason: 'none' },
};

let folder: string;
const REJECTS = 'rejects/00000-of-00001';

const writer = (assertOurs: () => Promise<void>) =>
  openChunkWriter({
    folder,
    run: 'a'.repeat(64),
    shard: { index: 0, count: 1 },
    rowsPerChunk: 8,
    chunks: new Map(),
    assertOurs,
    format: 'jsonl',
    ourColumns: [],
    passThrough: [],
    metadata: {},
  });

beforeEach(async () => {
  folder = await temporaryFolder();
  for (const name of ['chunks', 'rejects', 'done']) await mkdir(join(folder, name));
});

describe('abort', () => {
  it('keeps the reasons of rejects', async () => {
    const attempt = await writer(async () => {});
    await attempt.add(bareRow({ completion: 'a' }));
    await attempt.add(bad);
    await attempt.abort();
    expect(await readFile(join(folder, REJECTS, '000000.jsonl'), 'utf8')).toContain('invalid_json');
    expect(await readdir(join(folder, 'chunks/00000-of-00001'))).toEqual([]);
  });

  it.each([
    ['of another run', true, true],
    ['of another run, with no reject of its own', true, false],
    ['of an attempt that has recorded the chunk', false, true],
    ['of an attempt that has recorded the chunk, with no reject of its own', false, false],
  ])('leaves the rejects %s', async (_, isOtherRun, hasReject) => {
    const attempt = await writer(async () => {
      if (isOtherRun) throw new Error('another run');
    });
    await attempt.add(bareRow({ completion: 'a' }));
    if (hasReject) await attempt.add(bad);
    await writeFile(join(folder, REJECTS, '000000.jsonl'), 'theirs\n');
    if (!isOtherRun) await writeFile(join(folder, 'done/00000-of-00001/000000.json'), '{}');
    await attempt.abort();
    expect(await readdir(join(folder, REJECTS))).toEqual(['000000.jsonl']);
    expect(await readFile(join(folder, REJECTS, '000000.jsonl'), 'utf8')).toBe('theirs\n');
  });
});
