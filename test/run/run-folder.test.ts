// Run folders: what is in one, what is made again or refused, and shards and attempts that share one.
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
} from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { writeText } from '../../dist/io/files/json-file.js';
import { findFiles } from '../../dist/io/read/find-files.js';
import { HASHED_BYTES, sha256 } from '../../dist/model/onnx/folder.js';
import { dropRun } from '../../dist/run/remove.js';
import { editJson } from '../support/edited-run.js';
import { BROKEN, EMBEDDED, INCOMPLETE, rredcot, temporaryFolder, writeFixtures } from '../support/program.js';
import { openScene } from '../support/scene.js';
import { expectShards, hashes } from '../support/sharded-runs.js';

const { at, done, fails, folder: work, json, rows, text, write } = await openScene();
/** flags that make many small chunks, of 20 fixture traces and two bad lines */
const CHUNKS = '--rows-per-chunk 4 --max-segments 4';
const score = (output: string, more = '') => `score traces.jsonl -o ${output} ${CHUNKS} ${more}`;

beforeAll(() => writeFixtures(at('traces.jsonl'), 20, { 3: INCOMPLETE, 10: BROKEN }));

describe('a run folder', () => {
  let whole: Record<string, string>;
  beforeAll(async () => {
    await done(score('whole/'));
    whole = await hashes(at('whole'));
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
    const card = await text('whole/README.md');
    expect(card).toMatch(/^---\n(.*\n)*--- *\n/);
    expect(card).toContain('20 chain-of-thought traces');
    await done(score('one.parquet'));
    const [chunks, single] = [await rows('whole/chunks/*/*.parquet'), await rows('one.parquet')];
    expect(single).toHaveLength(20);
    expect(chunks.sort((a, b) => Number(a.source_row - b.source_row))).toEqual(single);
    expect((await readdir(work)).filter((name) => name.startsWith('.one'))).toEqual([]);
    expect(await json('whole/done/00000-of-00001.json')).toMatchObject({
      ...{ shard: 0, shards: 1, rows: 22, traces: 20, rejects: 2 },
    });
  });

  it('that is done is left alone', async () => {
    expect((await done(score('whole/'))).stderr).toMatch(/already done: 20 traces, 2 rejects/);
    expect(await hashes(at('whole'))).toEqual(whole);
  });

  it('makes again what is missing or damaged, and nothing else', async () => {
    await done(score('damaged/'));
    const chunk = (c: number) => at(`damaged/chunks/00000-of-00001/00000${c}.parquet`);
    await appendFile(chunk(1), 'x');
    await rm(chunk(4));
    // what the shard's record knows of chunks 0 and 3 is still right
    for (const name of ['_SUCCESS', 'rejects/00000-of-00001/000002.jsonl', 'done/00000-of-00001/000000.json'])
      await rm(at(`damaged/${name}`));
    await write('damaged/done/00000-of-00001/000003.json', '{"chunk":3,"rows":1}');
    const before = await readFile(chunk(3));
    await utimes(chunk(3), 1, 1);
    const { stderr } = await done(score('damaged/'));
    expect(stderr).toMatch(/000001\.parquet has changed since it was written: chunk 1/);
    expect(stderr).toMatch(/000004\.parquet is missing: chunk 4/);
    expect(stderr).toMatch(/000002\.jsonl is missing: chunk 2/);
    expect(stderr).toMatch(/^11 traces/m);
    expect(await hashes(at('damaged'))).toEqual(whole);
    expect(await readFile(chunk(3))).toEqual(before);
  });

  it('of another run is refused by the field that differs, and dropped by --overwrite', async () => {
    await done(score('other/', '--limit 9'));
    await mkdir(at('other/mine'));
    await fails(score('other/'), 2, /in run\.json, --limit is 9, here it is not set/);
    await done(score('other/', '--overwrite'));
    expect(await readdir(at('other'))).toContain('mine');
    expect(await hashes(at('other'))).toEqual(whole);
  });

  it('notices an input that is another one', async () => {
    await copyFile(at('traces.jsonl'), at('copy.jsonl'));
    const line = `score copy.jsonl -o changed/ ${CHUNKS}`;
    await done(line);
    await appendFile(at('copy.jsonl'), '\n');
    await fails(line, 2, /inputs\.0\.bytes is \d+, here it is \d+/);
  });

  it('of an input that was only written again says how to go on', async () => {
    const copy = at('touched.jsonl');
    await copyFile(at('traces.jsonl'), copy);
    const before = new Date('2026-01-02T03:04:05.000Z');
    await utimes(copy, before, before);
    const line = `score ${copy} -o touched/ ${CHUNKS}`;
    await done(line);
    await utimes(copy, before, new Date('2026-02-02T03:04:05.000Z'));
    const { stderr } = await fails(line, 2, 'it was written, on 2026-02-02T03:04:05.000Z');
    expect(stderr).toContain(`touch -d ${before.toISOString()} ${copy}`);
    await utimes(copy, before, before);
    await done(line);
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
    for (const [name, content] of strangers) {
      const folder = at('stranger');
      await cp(at('whole'), folder, { recursive: true });
      await mkdir(dirname(join(folder, name)), { recursive: true });
      await write(join(folder, name), content);
      const before = await hashes(folder);
      await expect(dropRun(folder), name).rejects.toMatchObject({
        exitCode: 2,
        message: expect.stringContaining(join(folder, name.split('/')[1] === 'old' ? 'rejects/old' : name)),
      });
      expect(await hashes(folder)).toEqual(before);
      await rm(folder, { recursive: true });
    }
    const folder = at('stranger');
    await cp(at('whole'), folder, { recursive: true });
    await write('stranger/mine.txt', '');
    await dropRun(folder);
    expect(await readdir(folder)).toEqual(['mine.txt']);
  });

  it('takes no weights that were written into between two shards', async () => {
    await cp(EMBEDDED, at('policy'), { recursive: true });
    const weights = at('policy/model.safetensors');
    await truncate(weights, HASHED_BYTES + 4096);
    const hash = await sha256(weights);
    await editJson<{ files: Record<string, string> }>(at('policy/policy.json'), ({ files }) =>
      Object.assign(files, { 'model.safetensors': hash }),
    );
    const shard = (i: number) => score('weights/', `--policy policy --shard ${i}/2`);
    await done(shard(0));
    {
      await using file = await open(weights, 'r+');
      await file.write(Buffer.from('x'), 0, 1, HASHED_BYTES);
    }
    const why = 'policy/model.safetensors: is not the file that policy.json was built with';
    await fails(shard(1), 2, why);
  });

  it('shared by three shards has the same bytes; the last one to end marks success', async () => {
    for (const [nth, shard] of [2, 0, 1].entries()) {
      await done(score('shards/', `--shard ${shard}/3`));
      expect((await readdir(at('shards'))).includes('_SUCCESS')).toBe(nth === 2);
    }
    await expectShards(at('shards'), whole, 3);
    // as an input it is its chunks, in the order of their rows
    const names = (await findFiles(at('shards'))).map((path) => path.slice(-'000000.parquet'.length));
    expect(names).toEqual(Array.from({ length: 6 }, (_, c) => `00000${c}.parquet`));
  });

  it('of any --rows-per-chunk is one that is read again', async () => {
    const most = `--rows-per-chunk ${Number.MAX_SAFE_INTEGER}`;
    await done(`segment traces.jsonl -o one-chunk/ --no-policy ${most}`);
    await done('status one-chunk');
  });

  it('of an earlier form is refused, and dropped by --overwrite', async () => {
    await done(score('earlier/'));
    await editJson(at('earlier/run.json'), (description) => Object.assign(description, { format: 1 }));
    const why = 'has format 1, expected a run.json of format 3';
    expect((await fails(score('earlier/'), 2, why)).stderr).toContain('--overwrite');
    await done(score('earlier/', '--overwrite'));
    expect(await hashes(at('earlier'))).toEqual(whole);
  });

  it('two attempts at one shard at once end well, with the same bytes', async () => {
    const attempt = () => rredcot(score('race/').trim().split(' '), { cwd: work });
    const attempts = await Promise.all([attempt(), attempt()]);
    expect(attempts.map(({ code }) => code)).toEqual([0, 0]);
    expect(await hashes(at('race'))).toEqual(whole);
  });
});

it('a pipe in the place of run.json, or of a record, holds nobody up', async () => {
  await cp(at('whole'), at('piped'), { recursive: true });
  const pipe = async (name: string) => {
    await rm(at(`piped/${name}`));
    expect(spawnSync('mkfifo', [at(`piped/${name}`)]).status).toBe(0);
  };
  await pipe('survey.json');
  await pipe('done/00000-of-00001/000001.json');
  await pipe('run.json');
  for (const line of ['status piped', 'merge piped -o piped.parquet', score('piped/')])
    await fails(line, 2, 'run.json: is missing or damaged');
  // what is read as a folder of files is not held up either
  for (const line of ['compare piped', 'segment --no-policy -o none.jsonl piped'])
    await fails(line, 2, 'is no regular file');
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
