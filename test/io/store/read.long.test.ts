// Inputs in a store that speaks S3: the bytes that come out are those of the same files on this disk, whatever goes wrong on the way.
import { readdir, readFile, rm } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { startHub } from '../../support/hub-server.js';
import { FIXTURES } from '../../support/program.js';
import { KEYS, openStore } from '../../support/s3-server.js';

const { at, done, fails, folder, rows, run, store, text, write } = await openStore();
const lines = (await readFile(FIXTURES, 'utf8')).split(/(?<=\n)/);

const SEGMENT = '--no-policy --overwrite';
/** `source_file` without where the file lies. */
const plain = (text: string) => text.replaceAll(/"(s3|hf):[^"]*\/([^"/]+)"/g, '"$2"');

/** Rows as they come out of inputs of this disk. */
async function expected(inputs: string): Promise<string> {
  await done(`segment ${inputs} -o expected.jsonl ${SEGMENT}`);
  return text('expected.jsonl');
}
async function made(inputs: string): Promise<string> {
  await done(`segment ${inputs} -o made.jsonl ${SEGMENT}`);
  return plain(await text('made.jsonl'));
}
/** The rows of an address are those of a file of this disk. */
async function expectRead(address: string, name: string): Promise<void> {
  expect((await made(address)) === (await expected(name)), address).toBe(true);
}
const refused = (inputs: string, code: number, why: string | RegExp) =>
  fails(`segment ${inputs} -o x.jsonl ${SEGMENT}`, code, why);
/** The same rows in every form that is read, by name. */
async function forms(from = 0, to = 40): Promise<ReadonlyMap<string, Buffer>> {
  const text = lines.slice(from, to).join('');
  await write('rows.jsonl', text);
  await write('rows.jsonl.gz', gzipSync(text));
  for (const name of ['rows.parquet', 'rows.arrow', 'rows.arrows'])
    await done(`segment rows.jsonl -o ${name} --rows-per-part 16 ${SEGMENT}`);
  const names = ['rows.jsonl', 'rows.jsonl.gz', 'rows.parquet', 'rows.arrow', 'rows.arrows'];
  return new Map(await Promise.all(names.map(async (name) => [name, await readFile(at(name))] as const)));
}

describe('an object', () => {
  it('is read as the file, in every form, by signed requests for ranges of one version', async () => {
    for (const [name, bytes] of await forms()) {
      store.put(`data/a b+c/${name}`, bytes);
      await expectRead(`'s3://data/a b+c/${name}'`, name);
    }
    const reads = store.seen.filter(({ method }) => method === 'GET');
    expect(reads.length).toBeGreaterThan(10);
    for (const { headers } of reads)
      expect(headers).toMatchObject({ range: expect.anything(), 'if-match': expect.anything() });
  });

  it('is asked for again where the store is busy, closes the connection, or ends its answer early', async () => {
    const all = await forms();
    for (const [name, bytes] of all) store.put(`data/${name}`, bytes);
    const failures = ['busy', 'cut', 'lost', undefined] as const;
    let requests = 0;
    store.failWith(() => failures[requests++ % failures.length]);
    for (const name of ['rows.jsonl.gz', 'rows.parquet']) await expectRead(`s3://data/${name}`, name);
    expect(requests).toBeGreaterThan(20);
  });

  it.each(['rows.jsonl.gz', 'rows.parquet'])(
    '%s that is replaced: rows of one version, or none',
    async (name) => {
      const before = (await forms(0, 40)).get(name) as Buffer;
      const old = await expected(name);
      const after = (await forms(40, 80)).get(name) as Buffer;
      const fresh = await expected(name);
      store.put(`data/${name}`, before);
      await made(`s3://data/${name}`);
      const requests = store.seen.length;
      expect(requests).toBeGreaterThan(4);
      const ends: number[] = [];
      for (let nth = 0; nth < requests; nth++) {
        store.put(`data/${name}`, before);
        let asked = 0;
        store.failWith(() => {
          if (asked++ === nth) store.put(`data/${name}`, after);
        });
        await rm(at('changed.jsonl'), { force: true });
        const { code, said } = await run(`segment s3://data/${name} -o changed.jsonl ${SEGMENT}`);
        ends.push(code);
        if (code === 0)
          expect([old, fresh].includes(plain(await text('changed.jsonl'))), `${nth}`).toBe(true);
        else {
          expect([code, said], `${nth}`).toEqual([65, expect.stringContaining('changed while it was read')]);
          expect(await readdir(folder)).not.toContain('changed.jsonl');
        }
      }
      expect(ends).toContain(0);
      expect(ends.filter((code) => code === 65).length).toBeGreaterThan(2);
    },
  );
});

describe('an address', () => {
  beforeEach(async () => {
    await forms();
    const beside = ['a/1.jsonl.rejects.jsonl', 'a/_x.jsonl', 'a/readme.md'];
    for (const name of ['b/2.jsonl', 'a/1.jsonl', ...beside, 'a/é &.jsonl'])
      store.put(`data/set/${name}`, lines[0] as string);
    store.put('data/set2/3.jsonl', lines[0] as string);
  });
  const read = async (inputs: string) => {
    await done(`segment ${inputs} -o made.jsonl ${SEGMENT}`);
    return (await rows<{ source_file: string }>('made.jsonl')).map(({ source_file: file }) =>
      file.replace('s3://data/', ''),
    );
  };

  it('that ends with a slash, or is a pattern, stands for objects in the order of their names', async () => {
    const all = ['set/a/1.jsonl', 'set/a/é &.jsonl', 'set/b/2.jsonl'];
    expect(await read('s3://data/set/')).toEqual(all);
    expect(await read('s3://data/set')).toEqual(all);
    expect(await read("'s3://data/set*/{b,c}/*.jsonl'")).toEqual(['set/b/2.jsonl']);
    const numbered = ['set/a/1.jsonl', 'set/b/2.jsonl', 'set2/3.jsonl'];
    expect(await read("'s3://data/**/[1-3].jsonl'")).toEqual(numbered);
    await refused('s3://data/none', 2, 's3://data/none: no such object, and none below it');
    await refused("'s3://data/none/*'", 2, 's3://data/none/*: no object matches');
    await refused('s3://data/a/../b.jsonl', 2, 'is no address of an object');
    // a run of ours is its parts, once all are there
    store.put('data/run/_run.json', '{"parts":2,"output":"jsonl"}');
    store.put('data/run/other.jsonl', lines[0] as string);
    store.put('data/run/rejects/part-00000.jsonl', '{}');
    store.put('data/run/part-00001.jsonl', lines[0] as string);
    const unfinished = 's3://data/run: is a run that is not finished: of its 2 parts these are missing: 0';
    await refused('s3://data/run/', 75, unfinished);
    store.put('data/run/part-00000.jsonl', lines[0] as string);
    expect(await read('s3://data/run/')).toEqual(['run/part-00000.jsonl', 'run/part-00001.jsonl']);
  });

  it('tells what the store answers, with what mends it', async () => {
    const input = 's3://data/set/b/2.jsonl';
    vi.stubEnv('AWS_ACCESS_KEY_ID', undefined);
    await refused(
      input,
      2,
      /cannot be read: the store answers 403.*\n.*AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; of a profile: eval/,
    );
    vi.stubEnv('AWS_ACCESS_KEY_ID', KEYS.id);
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'another');
    await refused(input, 2, /answers 403.*\n.*check that these keys may read/);
    vi.stubEnv('AWS_ENDPOINT_URL_S3', 'localhost:9000');
    await refused(input, 2, 'localhost:9000: expected http:// or https://');
    vi.stubEnv('AWS_ENDPOINT_URL_S3', 'http://nowhere.invalid');
    await refused(input, 2, /nowhere\.invalid: getaddrinfo .*\n.*AWS_ENDPOINT_URL_S3/);
  });
});

describe('a data set of the Hub', () => {
  let hub: Awaited<ReturnType<typeof startHub>>;
  beforeAll(async () => {
    hub = await startHub();
  });
  beforeEach(() => {
    hub.seen.length = 0;
    for (const [name, value] of Object.entries(hub.env)) vi.stubEnv(name, value);
  });
  afterAll(() => hub.close());

  it.each([false, true])(
    'is read at one commit, its token told nobody (large files: %s)',
    async (isLarge) => {
      const files = await forms();
      hub.commit('c1', Object.fromEntries(files), isLarge);
      for (const name of ['rows.jsonl.gz', 'rows.parquet'])
        await expectRead(`hf://datasets/o/set/${name}`, name);
      const more = { 'data/a.jsonl': Buffer.from('{}'), 'c.txt': Buffer.from('') };
      hub.commit('c2', { ...more, 'data/b.jsonl': files.get('rows.jsonl') as Buffer }, isLarge);
      await expectRead('hf://datasets/o/set@c1/rows.jsonl', 'rows.jsonl');
      await done(`segment 'hf://datasets/o/set/data/b*' -o made.jsonl ${SEGMENT}`);
      await refused('hf://datasets/o/set/rows.jsonl', 2, 'no such object');
      await refused('hf://datasets/set', 2, 'hf://datasets/<owner>/<name>');
      expect(hub.seen.some(({ host }) => host === hub.elsewhere)).toBe(isLarge);
      const told = hub.seen.filter(({ host, token }) => (token !== undefined) === (host === hub.elsewhere));
      expect(told).toEqual([]);
      vi.stubEnv('HF_TOKEN', undefined);
      await refused('hf://datasets/o/set/rows.jsonl', 2, /the Hub answers 401 GatedRepo\n.*HF_TOKEN/);
    },
  );

  it('that gets another commit while it is read is noticed', async () => {
    const files = await forms();
    const others = await forms(40, 80);
    hub.commit('c3', Object.fromEntries(files));
    const requests = hub.seen.length;
    hub.after(14, () => hub.commit('c4', Object.fromEntries(others)));
    await refused('hf://datasets/o/set/rows.jsonl', 65, 'changed while it was read');
    expect(hub.seen.length).toBeGreaterThan(requests + 14);
  });
});
