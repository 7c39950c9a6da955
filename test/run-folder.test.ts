// The run folder: rows find their chunks, a run that was cut off goes on where it stood, and ends with the same bytes.
import { createHash } from 'node:crypto';
import { appendFile, copyFile, mkdir, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { writeText } from '../dist/io/json-file.js';
import { chunkOf, firstOrdinal, isOwn, parseShard, shardOfEnvironment, windowOf } from '../dist/io/shard.js';
import { FIXTURES, readScored, rredcot, temporaryFolder } from './program.js';

describe('shards, chunks, windows', () => {
  const layouts = fc
    .record({ count: fc.integer({ min: 1, max: 9 }), rowsPerChunk: fc.integer({ min: 1, max: 200 }) })
    .chain(({ count, rowsPerChunk }) =>
      fc.integer({ min: 0, max: count - 1 }).map((index) => ({ shard: { index, count }, rowsPerChunk })),
    );

  it('every row is one shard’s; chunks are whole and in order; no window spans two', () => {
    fc.assert(
      fc.property(layouts, fc.integer({ min: 1, max: 3000 }), (layout, rows) => {
        const { shard, rowsPerChunk } = layout;
        const own = Array.from({ length: rows }, (_, r) => r).filter((r) => isOwn(r, shard));
        expect(own).toEqual(own.map((_, i) => shard.index + i * shard.count));
        expect(own.map((r) => chunkOf(r, layout))).toEqual(own.map((_, i) => Math.floor(i / rowsPerChunk)));
        const windows = new Map<number, number[]>();
        for (const r of own)
          windows.set(windowOf(r, layout), [...(windows.get(windowOf(r, layout)) ?? []), r]);
        expect([...windows.keys()]).toEqual([...windows.keys()].sort((a, b) => a - b));
        for (const members of windows.values()) {
          expect(members.length).toBeLessThanOrEqual(64);
          expect(new Set(members.map((r) => chunkOf(r, layout))).size).toBe(1);
        }
        for (const r of own.filter((_, i) => i % rowsPerChunk === 0))
          expect(firstOrdinal(chunkOf(r, layout), layout)).toBe(r);
      }),
    );
  });

  it.each(['', '1', '1/1', '3/2', '-1/2', '0/0', 'a/b', '1/2/3', '0.5/2'])(
    '--shard %j is refused',
    (text) => {
      expect(() => parseShard(text)).toThrow(/expected i\/n/);
    },
  );

  it('finds its place in a Slurm array and in an Indexed Job', () => {
    const slurm = (task: number, count: number, more = {}) =>
      shardOfEnvironment({ SLURM_ARRAY_TASK_ID: `${task}`, SLURM_ARRAY_TASK_COUNT: `${count}`, ...more })
        ?.shard;
    expect(shardOfEnvironment({})).toBeUndefined();
    expect(slurm(3, 8)).toEqual({ index: 3, count: 8 });
    expect(slurm(1, 8, { SLURM_ARRAY_TASK_MIN: '1' })).toEqual({ index: 0, count: 8 });
    expect(slurm(9, 3, { SLURM_ARRAY_TASK_MIN: '5', SLURM_ARRAY_TASK_STEP: '2' })).toEqual({
      index: 2,
      count: 3,
    });
    // --array=3,5: two tasks, whose numbers say nothing of which shards they are
    expect(() => slurm(5, 2, { SLURM_ARRAY_TASK_MIN: '3' })).toThrow(/gaps/);
    expect(shardOfEnvironment({ JOB_COMPLETION_INDEX: '2', RREDCOT_SHARDS: '4' })?.shard).toEqual({
      index: 2,
      count: 4,
    });
    expect(() => shardOfEnvironment({ JOB_COMPLETION_INDEX: '2' })).toThrow(/RREDCOT_SHARDS/);
  });
});

/** Every file of a folder with the hash of its bytes; what holds times or paths is left out. */
async function hashes(folder: string): Promise<Record<string, string>> {
  const names = (await readdir(folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .filter((name) => name !== 'run.json' && !/^done\/[^/]*\.json$/.test(name))
    .sort();
  const entries = names.map(async (name) => {
    const bytes = await readFile(join(folder, name));
    return [name, createHash('sha256').update(bytes).digest('hex')] as const;
  });
  return Object.fromEntries(await Promise.all(entries));
}

let work: string;
let input: string;
/** 40 fixture traces and two bad lines; flags that make many small chunks */
const FLAGS = ['--rows-per-chunk', '8', '--max-segments', '4'];

beforeAll(async () => {
  work = await temporaryFolder();
  const lines = (await readFile(FIXTURES, 'utf8')).split('\n').slice(0, 40);
  lines.splice(20, 0, '{"prompt": broken');
  lines.splice(3, 0, '{"prompt": "no completion"}');
  input = join(work, 'traces.jsonl');
  await writeFile(input, `${lines.join('\n')}\n`);
});

const score = (output: string, ...more: string[]) =>
  rredcot(['score', input, '-o', output, ...FLAGS, ...more]);

describe('a run folder', () => {
  let whole: Record<string, string>;
  beforeAll(async () => {
    const run = await score(join(work, 'whole/'));
    expect(run.code, run.stderr).toBe(0);
    whole = await hashes(join(work, 'whole'));
  }, 60_000);

  it('holds chunks, rejects, records and _SUCCESS, and the rows of a single file', async () => {
    expect(Object.keys(whole)).toEqual([
      'README.md',
      '_SUCCESS',
      ...Array.from({ length: 6 }, (_, c) => `chunks/00000-of-00001/00000${c}.parquet`),
      ...Array.from({ length: 6 }, (_, c) => `done/00000-of-00001/00000${c}.json`),
      'rejects/00000-of-00001/000000.jsonl',
      'rejects/00000-of-00001/000002.jsonl',
      'survey.json',
    ]);
    const card = await readFile(join(work, 'whole/README.md'), 'utf8');
    expect(card).toMatch(/^---\n(.*\n)*--- *\n/);
    expect(card).toContain('      num_examples: 40\n');
    expect(card).toContain('    - name: "sigma"\n      list: float32\n');
    const file = join(work, 'one.parquet');
    expect((await score(file)).code).toBe(0);
    const rows = await readScored(join(work, 'whole/chunks/*/*.parquet'));
    const single = await readScored(file);
    expect(single).toHaveLength(40);
    expect(rows.sort((a, b) => Number(a.source_row - b.source_row))).toEqual(single);
    expect(await readdir(work)).not.toContain('.one.parquet.rredcot-run');
    const done = JSON.parse(await readFile(join(work, 'whole/done/00000-of-00001.json'), 'utf8'));
    expect(done).toMatchObject({ shard: 0, shards: 1, rows: 42, traces: 40, rejects: 2 });
  }, 60_000);

  it('that is done is left alone', async () => {
    const run = await score(join(work, 'whole/'));
    expect(run.code).toBe(0);
    expect(run.stderr).toMatch(/already done: 40 traces, 2 rejects/);
    expect(await hashes(join(work, 'whole'))).toEqual(whole);
  });

  it('makes anew what is missing or damaged, and nothing else', async () => {
    const folder = join(work, 'damaged');
    expect((await score(`${folder}/`)).code).toBe(0);
    const chunk = (c: number) => join(folder, `chunks/00000-of-00001/00000${c}.parquet`);
    await rm(join(folder, '_SUCCESS'));
    await appendFile(chunk(1), 'x');
    await rm(chunk(4));
    await rm(join(folder, 'rejects/00000-of-00001/000002.jsonl'));
    const before = await readFile(chunk(3));
    await utimes(chunk(3), 1, 1);
    const run = await score(`${folder}/`);
    expect(run.code, run.stderr).toBe(0);
    expect(run.stderr).toMatch(/000001\.parquet has changed since it was written: chunk 1/);
    expect(run.stderr).toMatch(/000004\.parquet is missing: chunk 4/);
    expect(run.stderr).toMatch(/000002\.jsonl is missing: chunk 2/);
    expect(run.stderr).toMatch(/^23 traces/m);
    expect(await hashes(folder)).toEqual(whole);
    expect(await readFile(chunk(3))).toEqual(before);
  }, 60_000);

  it('of another run is refused by the field that differs, and dropped by --restart', async () => {
    const folder = join(work, 'other');
    expect((await score(`${folder}/`, '--limit', '9')).code).toBe(0);
    await mkdir(join(folder, 'mine'));
    const run = await score(`${folder}/`);
    expect(run.code).toBe(2);
    expect(run.stderr).toMatch(/in run\.json, config\.limit is 9, here it is not set/);
    expect((await score(`${folder}/`, '--restart')).code).toBe(0);
    expect(await readdir(folder)).toContain('mine');
    expect(await hashes(folder)).toEqual(whole);
  }, 60_000);

  it('notices an input that is another one', async () => {
    const folder = join(work, 'changed');
    const copy = join(work, 'copy.jsonl');
    await copyFile(input, copy);
    const flags = ['score', copy, '-o', `${folder}/`, ...FLAGS];
    expect((await rredcot([...flags])).code).toBe(0);
    await appendFile(copy, '\n');
    const run = await rredcot(flags);
    expect(run.code).toBe(2);
    expect(run.stderr).toMatch(/inputs\.0\.bytes is \d+, here it is \d+/);
  }, 60_000);

  it('of an input that was only written again says how to go on', async () => {
    const folder = join(work, 'touched');
    const copy = join(work, 'touched.jsonl');
    await copyFile(input, copy);
    const before = new Date('2026-01-02T03:04:05.000Z');
    await utimes(copy, before, before);
    const flags = ['score', copy, '-o', `${folder}/`, ...FLAGS];
    expect((await rredcot(flags)).code).toBe(0);
    await utimes(copy, before, new Date('2026-02-02T03:04:05.000Z'));
    const { code, stderr } = await rredcot(flags);
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining('it was written, on 2026-02-02T03:04:05.000Z'),
    ]);
    expect(stderr).toContain(`touch -d ${before.toISOString()} ${copy}`);
    await utimes(copy, before, before);
    expect((await rredcot(flags)).code).toBe(0);
  }, 60_000);

  it('shared by shards: every row once, the same numbers; the last one to end marks success', async () => {
    const folder = join(work, 'shards');
    for (const shard of ['2/3', '0/3']) expect((await score(`${folder}/`, '--shard', shard)).code).toBe(0);
    expect(await readdir(folder)).not.toContain('_SUCCESS');
    expect((await score(`${folder}/`, '--shard', '1/3')).code).toBe(0);
    expect(await readdir(folder)).toContain('_SUCCESS');
    const rows = await readScored(join(folder, 'chunks/*/*.parquet'));
    const single = await readScored(join(work, 'whole/chunks/*/*.parquet'));
    const byRow = (a: { source_row: bigint }, b: { source_row: bigint }) =>
      Number(a.source_row - b.source_row);
    rows.sort(byRow);
    single.sort(byRow);
    expect(rows.map(({ id }) => id)).toEqual(single.map(({ id }) => id));
    for (const [i, row] of rows.entries()) {
      expect(row.segments.map(({ end }) => end)).toEqual(single[i]?.segments.map(({ end }) => end));
      for (const [t, sigma] of row.sigma.entries())
        expect(sigma).toBeCloseTo(single[i]?.sigma[t] as number, 4);
    }
  }, 60_000);

  it('two attempts at one shard at once end well, with the same bytes', async () => {
    const folder = join(work, 'race');
    const runs = await Promise.all([score(`${folder}/`), score(`${folder}/`)]);
    expect(runs.map(({ code }) => code)).toEqual([0, 0]);
    expect(await hashes(folder)).toEqual(whole);
  }, 60_000);
});

it('a small file that another process removes while it is half written is written again', async () => {
  const folder = await temporaryFolder();
  const path = join(folder, 'README.md');
  const text = 'x'.repeat(40 * 2 ** 20); // long enough to be met
  let isWritten = false;
  let removed = 0;
  const remover = (async () => {
    while (!isWritten && removed === 0) {
      const half = (await readdir(folder)).find((name) => name.endsWith('.tmp'));
      if (half !== undefined)
        removed += await rm(join(folder, half)).then(
          () => 1,
          () => 0,
        );
    }
  })();
  await writeText(path, text);
  isWritten = true;
  await remover;
  expect(removed).toBe(1);
  expect((await readFile(path)).length).toBe(text.length);
  expect(await readdir(folder)).toEqual(['README.md']);
});
