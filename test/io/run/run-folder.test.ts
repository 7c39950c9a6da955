import { spawnSync } from 'node:child_process';
import {
  appendFile,
  copyFile,
  cp,
  mkdir,
  open,
  readdir,
  readFile,
  rm,
  truncate,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { writeText } from '../../../dist/io/files/json-file.js';
import { findFiles } from '../../../dist/io/read/find-files.js';
import { dropRun } from '../../../dist/io/run/remove.js';
import { HASHED_BYTES, sha256 } from '../../../dist/policy/folder.js';
import { rredcotHere } from '../../support/in-process.js';
import {
  BROKEN,
  EMBEDDED,
  INCOMPLETE,
  readScored,
  rredcot,
  temporaryFolder,
  writeFixtures,
} from '../../support/program.js';
import { expectShards, hashes } from '../../support/sharded-runs.js';

let work: string;
let input: string;
/** 20 fixture traces and two bad lines; flags that make many small chunks */
const FLAGS = ['--rows-per-chunk', '4', '--max-segments', '4'];

beforeAll(async () => {
  work = await temporaryFolder();
  input = join(work, 'traces.jsonl');
  await writeFixtures(input, 20, { 3: INCOMPLETE, 10: BROKEN });
});

const score = (output: string, ...more: string[]) =>
  rredcotHere(['score', input, '-o', output, ...FLAGS, ...more]);

describe('a run folder', () => {
  let whole: Record<string, string>;
  beforeAll(async () => {
    const run = await score(join(work, 'whole/'));
    expect(run.code, run.stderr).toBe(0);
    whole = await hashes(join(work, 'whole'));
  });

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
    expect(card).toContain('20 chain-of-thought traces');
    const file = join(work, 'one.parquet');
    expect((await score(file)).code).toBe(0);
    const rows = await readScored(join(work, 'whole/chunks/*/*.parquet'));
    const single = await readScored(file);
    expect(single).toHaveLength(20);
    expect(rows.sort((a, b) => Number(a.source_row - b.source_row))).toEqual(single);
    expect((await readdir(work)).filter((name) => name.startsWith('.one'))).toEqual([]);
    const done = JSON.parse(await readFile(join(work, 'whole/done/00000-of-00001.json'), 'utf8'));
    expect(done).toMatchObject({ shard: 0, shards: 1, rows: 22, traces: 20, rejects: 2 });
  });

  it('that is done is left alone', async () => {
    const run = await score(join(work, 'whole/'));
    expect(run.code).toBe(0);
    expect(run.stderr).toMatch(/already done: 20 traces, 2 rejects/);
    expect(await hashes(join(work, 'whole'))).toEqual(whole);
  });

  it('makes again what is missing or damaged, and nothing else', async () => {
    const folder = join(work, 'damaged');
    expect((await score(`${folder}/`)).code).toBe(0);
    const chunk = (c: number) => join(folder, `chunks/00000-of-00001/00000${c}.parquet`);
    await rm(join(folder, '_SUCCESS'));
    await appendFile(chunk(1), 'x');
    await rm(chunk(4));
    await rm(join(folder, 'rejects/00000-of-00001/000002.jsonl'));
    // what the shard's record knows of chunks 0 and 3 is still right
    await rm(join(folder, 'done/00000-of-00001/000000.json'));
    await writeFile(join(folder, 'done/00000-of-00001/000003.json'), '{"chunk":3,"rows":1}');
    const before = await readFile(chunk(3));
    await utimes(chunk(3), 1, 1);
    const run = await score(`${folder}/`);
    expect(run.code, run.stderr).toBe(0);
    expect(run.stderr).toMatch(/000001\.parquet has changed since it was written: chunk 1/);
    expect(run.stderr).toMatch(/000004\.parquet is missing: chunk 4/);
    expect(run.stderr).toMatch(/000002\.jsonl is missing: chunk 2/);
    expect(run.stderr).toMatch(/^11 traces/m);
    expect(await hashes(folder)).toEqual(whole);
    expect(await readFile(chunk(3))).toEqual(before);
  });

  it('of another run is refused by the field that differs, and dropped by --overwrite', async () => {
    const folder = join(work, 'other');
    expect((await score(`${folder}/`, '--limit', '9')).code).toBe(0);
    await mkdir(join(folder, 'mine'));
    const run = await score(`${folder}/`);
    expect(run.code).toBe(2);
    expect(run.stderr).toMatch(/in run\.json, --limit is 9, here it is not set/);
    expect((await score(`${folder}/`, '--overwrite')).code).toBe(0);
    expect(await readdir(folder)).toContain('mine');
    expect(await hashes(folder)).toEqual(whole);
  });

  it('notices an input that is another one', async () => {
    const folder = join(work, 'changed');
    const copy = join(work, 'copy.jsonl');
    await copyFile(input, copy);
    const flags = ['score', copy, '-o', `${folder}/`, ...FLAGS];
    expect((await rredcotHere([...flags])).code).toBe(0);
    await appendFile(copy, '\n');
    const run = await rredcotHere(flags);
    expect(run.code).toBe(2);
    expect(run.stderr).toMatch(/inputs\.0\.bytes is \d+, here it is \d+/);
  });

  it('of an input that was only written again says how to go on', async () => {
    const folder = join(work, 'touched');
    const copy = join(work, 'touched.jsonl');
    await copyFile(input, copy);
    const before = new Date('2026-01-02T03:04:05.000Z');
    await utimes(copy, before, before);
    const flags = ['score', copy, '-o', `${folder}/`, ...FLAGS];
    expect((await rredcotHere(flags)).code).toBe(0);
    await utimes(copy, before, new Date('2026-02-02T03:04:05.000Z'));
    const { code, stderr } = await rredcotHere(flags);
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining('it was written, on 2026-02-02T03:04:05.000Z'),
    ]);
    expect(stderr).toContain(`touch -d ${before.toISOString()} ${copy}`);
    await utimes(copy, before, before);
    expect((await rredcotHere(flags)).code).toBe(0);
  });

  it("in which something of a run's name is somebody else's is not dropped, and nothing is removed", async () => {
    const strangers: readonly (readonly [string, string])[] = [
      ['run.json', '{"format": 1, "mine": true}'],
      ['README.md', '# notes'],
      ['chunks/notes.txt', 'mine'],
      ['chunks/00000-of-00001/000000.csv', 'mine'],
      ['rejects/old/x.jsonl', 'mine'],
      ['done/list.json', '[]'],
    ];
    for (const [name, text] of strangers) {
      const folder = join(work, 'stranger');
      await cp(join(work, 'whole'), folder, { recursive: true });
      await mkdir(dirname(join(folder, name)), { recursive: true });
      await writeFile(join(folder, name), text);
      const before = await hashes(folder);
      await expect(dropRun(folder), name).rejects.toMatchObject({
        exitCode: 2,
        message: expect.stringContaining(join(folder, name.split('/')[1] === 'old' ? 'rejects/old' : name)),
      });
      expect(await hashes(folder)).toEqual(before);
      await rm(folder, { recursive: true });
    }
    const folder = join(work, 'stranger');
    await cp(join(work, 'whole'), folder, { recursive: true });
    await writeFile(join(folder, 'mine.txt'), '');
    expect(await dropRun(folder)).toBe(true);
    expect(await readdir(folder)).toEqual(['mine.txt']);
  });

  it('takes no weights that were written into between two shards', async () => {
    const policy = join(work, 'policy');
    await cp(EMBEDDED, policy, { recursive: true });
    const weights = join(policy, 'model.safetensors');
    await truncate(weights, HASHED_BYTES + 4096);
    const manifest = JSON.parse(await readFile(join(policy, 'policy.json'), 'utf8'));
    manifest.files['model.safetensors'] = await sha256(weights);
    await writeFile(join(policy, 'policy.json'), JSON.stringify(manifest));
    const folder = join(work, 'weights');
    const shard = (i: number) => score(`${folder}/`, '--policy', policy, '--shard', `${i}/2`);
    const first = await shard(0);
    expect(first.code, first.stderr).toBe(0);
    {
      await using file = await open(weights, 'r+');
      await file.write(Buffer.from('x'), 0, 1, HASHED_BYTES);
    }
    const second = await shard(1);
    expect([second.code, second.stderr]).toEqual([
      2,
      expect.stringContaining(`${weights}: is not the file that policy.json was built with`),
    ]);
  });

  it('shared by three shards has the same bytes; the last one to end marks success', async () => {
    const n = 3;
    const folder = join(work, `shards-${n}`);
    const order = Array.from({ length: n }, (_, i) => (i + 2) % n);
    for (const [done, shard] of order.entries()) {
      const run = await score(`${folder}/`, '--shard', `${shard}/${n}`);
      expect(run.code, run.stderr).toBe(0);
      expect((await readdir(folder)).includes('_SUCCESS')).toBe(done === n - 1);
    }
    await expectShards(folder, whole, n);
    // as an input it is its chunks, in the order of their rows
    const names = (await findFiles(folder)).map((path) => path.slice(-'000000.parquet'.length));
    expect(names).toEqual(Array.from({ length: 6 }, (_, c) => `00000${c}.parquet`));
  });

  it('of any --rows-per-chunk is one that is read again', async () => {
    const folder = join(work, 'one-chunk');
    const most = `${Number.MAX_SAFE_INTEGER}`;
    const flags = ['-o', `${folder}/`, '--no-policy', '--rows-per-chunk', most];
    const { code, stderr } = await rredcotHere(['segment', input, ...flags]);
    expect(code, stderr).toBe(0);
    expect((await rredcotHere(['status', folder])).code).toBe(0);
  });

  it('of an earlier form is refused, and dropped by --overwrite', async () => {
    const folder = join(work, 'earlier');
    expect((await score(`${folder}/`)).code).toBe(0);
    const path = join(folder, 'run.json');
    await writeFile(path, JSON.stringify({ ...JSON.parse(await readFile(path, 'utf8')), format: 1 }));
    const run = await score(`${folder}/`);
    expect([run.code, run.stderr]).toEqual([
      2,
      expect.stringContaining('has format 1, expected a run.json of format 3'),
    ]);
    expect(run.stderr).toContain('--overwrite');
    expect((await score(`${folder}/`, '--overwrite')).code).toBe(0);
    expect(await hashes(folder)).toEqual(whole);
  });

  it('two attempts at one shard at once end well, with the same bytes', async () => {
    const folder = join(work, 'race');
    const attempt = () => rredcot(['score', input, '-o', `${folder}/`, ...FLAGS]);
    const runs = await Promise.all([attempt(), attempt()]);
    expect(runs.map(({ code }) => code)).toEqual([0, 0]);
    expect(await hashes(folder)).toEqual(whole);
  });
});

it('a pipe in the place of run.json, or of a record, holds nobody up', async () => {
  const folder = join(work, 'piped');
  await cp(join(work, 'whole'), folder, { recursive: true });
  const pipe = async (name: string) => {
    await rm(join(folder, name));
    expect(spawnSync('mkfifo', [join(folder, name)]).status).toBe(0);
  };
  await pipe('survey.json');
  await pipe('done/00000-of-00001/000001.json');
  const verified = await rredcotHere(['verify', folder]);
  expect(verified.code).toBe(65);
  expect(verified.stdout).toContain('survey.json: was changed');
  await pipe('run.json');
  for (const args of [
    ['status', folder],
    ['verify', folder],
    ['merge', folder, '-o', join(work, 'piped.parquet')],
    ['score', input, '-o', `${folder}/`, ...FLAGS],
  ]) {
    const { code, stderr } = await rredcotHere(args);
    expect([code, stderr], args[0]).toEqual([2, expect.stringContaining('run.json: is missing or damaged')]);
  }
  // what is read as a folder of files is not held up either
  for (const args of [['compare'], ['segment', '--no-policy', '-o', join(work, 'none.jsonl')]]) {
    const { code, stderr } = await rredcotHere([...args, folder]);
    expect([code, stderr], args[0]).toEqual([2, expect.stringContaining('is no regular file')]);
  }
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
