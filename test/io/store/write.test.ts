// Outputs in a store that speaks S3: what is there in the end are the bytes of the same command on this disk, whatever goes wrong on the way.
import { readdir, readFile } from 'node:fs/promises';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { BROKEN, writeFixtures } from '../../support/program.js';
import { openStore } from '../../support/s3-server.js';

const { at, done, fails, run, store, text, write } = await openStore();
const SEGMENT = 'segment rows.jsonl --no-policy --rows-per-part 8';
beforeAll(async () => {
  await writeFixtures(at('rows.jsonl'), 24, { 3: BROKEN });
  for (const name of ['run.parquet', 'run.jsonl']) await done(`${SEGMENT} -o ${name}`);
});
/** The object has the bytes of a file of this disk. */
async function expectSame(name: string, file: string): Promise<void> {
  const isSame = store.bytes(`out/${name}`)?.equals(await readFile(at(file)));
  expect(isSame, `${name} has the bytes of ${file}`).toBe(true);
}
/** What is left of runs on this disk. */
const left = async () => {
  const names = await readdir(at('cache'), { recursive: true }).catch(() => []);
  return names.filter((name) => name.split('/').length > 2);
};

describe('one file', () => {
  it.each(['run.parquet', 'run.jsonl'])('%s is there with all that belongs to it', async (name) => {
    const { said } = await done(`${SEGMENT} -o s3://out/a/${name}`);
    expect(said).toContain(`written to s3://out/a/${name}`);
    await expectSame(`a/${name}`, name);
    await expectSame(`a/${name}.rejects.jsonl`, `${name}.rejects.jsonl`);
    const summary = JSON.parse(String(store.bytes(`out/a/${name}.summary.json`)));
    expect(summary).toMatchObject({ output: `s3://out/a/${name}`, traces: 24, rejects: 1 });
    const names = [name, `${name}.rejects.jsonl`, `${name}.summary.json`];
    expect([...store.objects.keys()].sort()).toEqual(names.map((each) => `out/a/${each}`).sort());
    expect(await left()).toEqual([]);
    // once more: nothing is touched
    const before = store.seen.length;
    const again = await done(`${SEGMENT} -o s3://out/a/${name}`);
    expect(again.said).toContain(`s3://out/a/${name} is already done: 24 traces, 1 reject`);
    for (const { method } of store.seen.slice(before)) expect(['GET', 'HEAD']).toContain(method);
  });

  it('is there where the store is busy, ends its answers early, or loses them after the work is done', async () => {
    const failures = ['busy', 'lost', 'cut'] as const;
    let requests = 0;
    store.failWith(() => failures[requests++ % 4]);
    await done(`${SEGMENT} -o s3://out/run.parquet`);
    await expectSame('run.parquet', 'run.parquet');
    await expectSame('run.parquet.rejects.jsonl', 'run.parquet.rejects.jsonl');
    // the answer to the write that publishes is lost: the next try is told that something is there, which is what was sent
    store.reset();
    const lost: string[] = [];
    store.failWith(({ method, name }) => {
      if (method !== 'PUT' || lost.includes(name)) return undefined;
      lost.push(name);
      return 'lost';
    });
    await done(`${SEGMENT} -o s3://out/run.jsonl`);
    await expectSame('run.jsonl', 'run.jsonl');
    expect(lost.length).toBe(3);
    const puts = store.seen.filter(({ method, name }) => method === 'PUT' && name === 'out/run.jsonl');
    expect(puts.map(({ headers }) => headers['if-none-match'])).toEqual(['*', '*']);
    await done('verify run.parquet');
  });

  it('goes on where it was killed, with what lies here, and says where that is', async () => {
    store.failWith(({ method }) => method === 'PUT' && 'busy');
    const stopped = run(`${SEGMENT} -o s3://out/run.parquet`);
    // its parts are done, and nothing of it can be published: as it is when it is killed there
    await vi.waitUntil(() => store.seen.some(({ method }) => method === 'PUT'), 60_000);
    const hidden = (await left()).find((name) => name.endsWith('run.json'));
    expect(hidden).toMatch(/^rredcot\/[0-9a-f]{16}\/\.run\.parquet\.run\/_run\.json$/);
    store.reset();
    // the one that waits and a second one meet: both end well, with the same bytes
    expect((await stopped).code).toBe(0);
    await expectSame('run.parquet', 'run.parquet');
    expect(await left()).toEqual([]);
  });

  it("is not put in the place of another run's, and with --overwrite is", async () => {
    store.put('out/run.parquet', 'of somebody else');
    const foreign = 's3://out/run.parquet: is there already, and is no output of a run';
    await fails(`${SEGMENT} -o s3://out/run.parquet`, 2, foreign);
    expect(store.bytes('out/run.parquet')?.toString()).toBe('of somebody else');
    await done(`${SEGMENT} -o s3://out/run.parquet --overwrite`);
    await expectSame('run.parquet', 'run.parquet');
    await fails(`${SEGMENT} --limit 5 -o s3://out/run.parquet`, 2, /is the output of another run: .*--limit/);
    // one that comes while this one is at work
    store.reset();
    store.failWith(({ method, name }) => {
      if (method === 'PUT' && name === 'out/run.jsonl') store.put(name, 'of another one');
    });
    const late = /run\.jsonl: another command has made it while this one was at work\n.*--overwrite/;
    await fails(`${SEGMENT} -o s3://out/run.jsonl`, 2, late);
    expect(store.bytes('out/run.jsonl')?.toString()).toBe('of another one');
    store.failWith(() => undefined);
    await done(`${SEGMENT} -o s3://out/run.jsonl --overwrite`);
    await expectSame('run.jsonl', 'run.jsonl');
  });
});

it('other commands: redistribute and filter write objects, and read them', async () => {
  await write('few.jsonl', (await text('rows.jsonl')).split('\n').slice(4, 12).join('\n'));
  await done('score few.jsonl -o folder/ --rows-per-part 4');
  const lines = (out: (name: string) => string) => [
    `filter folder/ -o ${out('one.parquet')}`,
    `redistribute one.parquet --sigma uniform -o ${out('again.arrow')}`,
    `filter one.parquet --where 'reward >= 1' -o ${out('kept.parquet')}`,
    `redistribute one.parquet -o ${out('all.jsonl')}`,
  ];
  for (const line of lines((name) => name)) await done(line);
  for (const line of lines((name) => `s3://out/x/${name}`)) {
    await done(line);
    expect((await done(line)).said, line).toMatch(/already done|is already there/);
  }
  for (const name of ['one.parquet', 'again.arrow', 'kept.parquet', 'all.jsonl'])
    await expectSame(`x/${name}`, name);
  expect(await left()).toEqual([]);
  await done('verify s3://out/x/one.parquet');
  await done("filter s3://out/x/one.parquet --where 'reward >= 1' -o s3://out/x/more.parquet");
  await done('summary s3://out/x/again.arrow');
  await done('compare s3://out/x/one.parquet s3://out/x/again.arrow');
  await fails(`${SEGMENT} -o hf://datasets/o/d/x.parquet`, 2, 'which is not written here');
  await fails('report s3://out/x/one.parquet -o s3://out/page.html', 2, 'which is not written here');
  await fails('summary s3://out/x/none.parquet', 2, 's3://out/x/none.parquet');
});

describe('a run folder', () => {
  it.each(['parquet', 'jsonl'])(
    'of %s has the files of one here, whichever shards make it',
    async (format) => {
      const line = `${SEGMENT} --format ${format}`;
      await done(`${line} -o own-${format}/`);
      await done(`${line} -o s3://out/f/ --shard 1/2`);
      await fails('verify s3://out/f/', 75, /missing/);
      await done(`${line} -o s3://out/f/ --shard 0/2`);
      const names = (await readdir(at(`own-${format}`), { recursive: true })).filter((n) =>
        /^[^.].*\./.test(n),
      );
      expect([...store.objects.keys()].sort()).toEqual(names.map((name) => `out/f/${name}`).sort());
      for (const name of names) await expectSame(`f/${name}`, `own-${format}/${name}`);
      await done('verify s3://out/f/');
      const before = store.seen.length;
      await done(`${line} -o s3://out/f/`);
      expect(store.seen.slice(before).filter(({ method }) => method === 'PUT')).toEqual([]);
    },
  );

  it('of another run is dropped by --overwrite alone, and what is of no run stays', async () => {
    await done(`${SEGMENT} --limit 20 -o s3://out/g/`);
    store.put('out/g/notes.txt', 'mine');
    await fails(`${SEGMENT} --limit 5 -o s3://out/g/`, 2, /holds another run/);
    await done(`${SEGMENT} --limit 5 -o s3://out/g/ --overwrite`);
    expect([...store.objects.keys()].filter((name) => /part-\d+\.parquet/.test(name))).toHaveLength(1);
    expect(String(store.bytes('out/g/notes.txt'))).toBe('mine');
  });
});
