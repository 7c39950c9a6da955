// Files that are a part of a data set say so, in each format and however they came about, and what needs whole groups goes by it.
import { copyFile, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { rredcotHere } from '../support/in-process.js';
import { readMetadata } from '../support/io-helpers.js';
import { FIXTURES, readJsonl, type ScoredRow, temporaryFolder } from '../support/program.js';

const FORMATS = ['parquet', 'arrow', 'jsonl'] as const;
const VALUE = ['--baseline', 'value', '--quiet'];
const CHUNKS = ['--rows-per-chunk', '4', ...VALUE];

let folder: string;
const at = (name: string) => join(folder, name);
const run = async (...args: string[]) => rredcotHere(args, { cwd: folder });
const done = async (...args: string[]) => {
  const made = await run(...args);
  expect(made.code, made.stderr).toBe(0);
  return made;
};
/** What is said where a group's mean would follow from the traces of an output. */
const means = async (path: string) => {
  const { code, stderr } = await run(
    'redistribute',
    path,
    '--baseline',
    'group',
    '-o',
    'means.jsonl',
    '--overwrite',
    '--quiet',
  );
  return `${code} ${stderr}`;
};
/** What `verify` notes of it; nothing is found in any. */
const noted = async (path: string, code = 0) => {
  const made = await run('verify', path, '--log-json');
  expect([made.code, made.stdout]).toEqual([code, '']);
  return made.stderr.split('\n').flatMap((line) => {
    const record = line === '' ? {} : JSON.parse(line);
    return record.code === 'part' ? [record.msg as string] : [];
  });
};

/** two groups of eight */
beforeAll(async () => {
  folder = await temporaryFolder();
  const lines = (await readFile(FIXTURES, 'utf8')).split('\n').slice(0, 16);
  await writeFile(at('traces.jsonl'), `${lines.join('\n')}\n`);
  await done('score', 'traces.jsonl', '-o', 'stored.jsonl', '--quiet');
});

it.each(['lost.parquet', 'lost.jsonl', 'lost/'])(
  'traces that %s has lost to the rejects are told',
  async (output) => {
    const [first, ...others] = await readJsonl<Record<string, unknown>>(at('traces.jsonl'));
    const lost = [{ ...first, completion_ids: [9999] }, ...others];
    await writeFile(at('lost-rows.jsonl'), lost.map((row) => `${JSON.stringify(row)}\n`).join(''));
    await done('score', 'lost-rows.jsonl', '-o', output, ...VALUE);
    const said = /has rejected 1 trace: the mean of a group's rewards is that of those that are left/;
    const told = async () =>
      (await done('redistribute', output, '--baseline', 'group', '--overwrite', '-o', 'told.jsonl')).stderr;
    expect(await told()).toMatch(said);
    // as it was computed of all of them
    await done('score', 'lost-rows.jsonl', '-o', output, '--baseline', 'group', '--quiet', '--overwrite');
    expect(await told()).not.toMatch(said);
  },
);

describe.each(['parquet', 'jsonl'] as const)('a limit, %s', (format) => {
  const [cut, whole] = [`cut.${format}`, `uncut.${format}`];
  beforeAll(async () => {
    await done('score', 'traces.jsonl', '--limit', '9', '-o', cut, ...VALUE);
    await done('score', 'traces.jsonl', '--limit', '16', '-o', whole, ...VALUE);
  });

  it('is told by the file, where it has cut something', async () => {
    if (format === 'parquet')
      expect((await readMetadata(at(cut))).keys.get('rredcot.part')).toBe('{"by":"limit","limit":9}');
    expect(await noted(cut)).toEqual([`${cut}: was cut by --limit 9: groups may lack traces`]);
    expect(await noted(whole)).toEqual([]);
    const { warnings } = JSON.parse((await done('summary', cut, '--json')).stdout);
    expect(warnings[0]).toEqual({
      code: 'part',
      text: 'the file was cut by --limit 9: its groups may lack traces',
    });
  });

  it('leaves no means of groups, and tells of what else is made of them', async () => {
    expect(await means(cut)).toMatch(
      /^65 .*cut\.\w+: was cut by --limit 9, so that the mean of its groups' rewards is not known/,
    );
    expect(await means(whole)).toBe('0 ');
    const [made, stored] = await Promise.all(
      ['means.jsonl', 'stored.jsonl'].map((name) => readJsonl<ScoredRow>(at(name))),
    );
    expect(made?.map(({ baseline }) => baseline)).toEqual(stored?.map(({ baseline }) => baseline));
    const said = async (...args: string[]) => {
      const { stdout, stderr } = await done(...args, '--log-json');
      return `${stdout}${stderr}`;
    };
    const dapo = [
      '--normalisers',
      'dapo,batch_tokens',
      '--batch-size',
      '8',
      '--overwrite',
      '-o',
      'dapo.jsonl',
    ];
    expect(await said('redistribute', cut, ...dapo)).toMatch(
      /"part".*normaliser_dapo [\s\S]*"part".*normaliser_batch_tokens/,
    );
    expect(await said('redistribute', whole, ...dapo)).not.toContain('"part"');
    expect(await said('calibrate', cut, '-o', 'calibration.json')).toContain('"part"');
    expect(await said('calibrate', whole, '-o', 'calibration.json')).not.toContain('"part"');
    expect(await said('compare', cut, '--json')).toContain('"part"');
    expect(await said('compare', whole, '--json')).not.toContain('"part"');
    const again = ['-o', 'again.jsonl', '--map', 'reference=answer', '--overwrite'];
    expect(await said('score', cut, ...again)).toContain('"part_input"');
    // what is made of a part is one
    expect(await noted('again.jsonl')).toHaveLength(1);
    expect(await said('score', whole, ...again)).not.toContain('"part_input"');
    expect(await noted('again.jsonl')).toEqual([]);
    await done('redistribute', cut, '--sigma', 'rudder', '--overwrite', '-o', 'rudder.arrow', '--quiet');
    expect(await means('rudder.arrow')).toMatch(/^65 /);
  });
});

describe('a limit', () => {
  it('of a stream leaves a part, since nobody has seen what follows', async () => {
    const stdin = await readFile(at('traces.jsonl'));
    const made = await rredcotHere(['score', '-', '--limit', '9', '-o', 'stream.parquet', ...VALUE], {
      cwd: folder,
      stdin,
    });
    expect(made.code, made.stderr).toBe(0);
    expect(await noted('stream.parquet')).toHaveLength(1);
    // and what follows of the last group follows of a part of it; groups that nothing follows of may be cut
    const cutGroup = async (...flags: string[]) => {
      const args = ['score', '-', '--limit', '9', '-o', '-', '--format', 'jsonl', ...flags];
      return (await rredcotHere(args, { cwd: folder, stdin })).stderr;
    };
    expect(await cutGroup()).toContain('WARN: --limit 9 may have cut the last group, "top-0001": ');
    expect(await cutGroup('--baseline', 'value')).not.toContain('may have cut');
  });

  it('is told of a run folder by status, too', async () => {
    await done('score', 'traces.jsonl', '--limit', '9', '-o', 'limited/', '--format', 'jsonl', ...CHUNKS);
    expect((await done('status', 'limited/')).stdout).toContain('part: the run was cut by --limit 9');
    const { part } = JSON.parse((await done('status', 'limited/', '--json')).stdout);
    expect(part).toEqual({ by: 'limit', limit: 9 });
    expect(await noted('limited/')).toHaveLength(1);
    expect(await means('limited/')).toMatch(/^65 .*was cut by --limit 9/);
    await done('merge', 'limited/', '-o', 'limited.jsonl', '--quiet');
    expect(await means('limited.jsonl')).toMatch(/^65 .*was cut by --limit 9/);
  });

  it('takes nothing from prompts that are sampled, unless they share groups', async () => {
    const rows = (await readJsonl<Record<string, unknown>>(at('traces.jsonl'))).slice(0, 4);
    const bare = rows.map(({ group: _, ...row }) => row);
    for (const [name, all] of [['bare', bare] as const, ['grouped', rows] as const]) {
      await writeFile(at(`${name}.jsonl`), all.map((row) => `${JSON.stringify(row)}\n`).join(''));
      const few = ['--limit', '2', '--samples', '2', '--max-tokens', '8', '--quiet'];
      await done('sample', `${name}.jsonl`, '-o', `${name}.parquet`, ...few);
    }
    const partOf = async (name: string) => (await readMetadata(at(name))).keys.get('rredcot.part');
    expect(await partOf('bare.parquet')).toBeUndefined();
    expect(await partOf('grouped.parquet')).toBe('{"by":"limit","limit":2}');
  });
});

describe.each(FORMATS)('a run that is not whole, %s', (format) => {
  const out = `run-${format}`;
  const shard = (n: number) => ['--shard', `${n}/2`, '--format', format];
  beforeAll(() => done('score', 'traces.jsonl', '-o', `${out}/`, ...CHUNKS, ...shard(0)));

  it('is a part where it is merged, and where its chunks are named', async () => {
    const places = [`part.${format}`, `part-${format}/`];
    for (const place of places) {
      await done('merge', `${out}/`, '-o', place, '--partial', '--quiet');
      expect(await means(place)).toMatch(/^65 .*has 2 of 4 pieces of its run, so that the mean/);
      expect(await noted(place)).toEqual([expect.stringContaining('has 2 of 4 pieces of its run')]);
    }
    expect(await noted(`${out}/`, 75)).toHaveLength(1);
    const { part } = JSON.parse((await done('status', `${out}/`, '--json')).stdout);
    expect(part).toEqual({ by: 'pieces', pieces: 2, of: 4 });
    if (format !== 'jsonl') expect(await means(`${out}/chunks`)).toMatch(/^65 .*has 2 of 4 pieces/);
    const chunk = `${out}/chunks/00000-of-00002/000002.${format}`;
    expect(await noted(chunk)).toEqual([expect.stringContaining('has 1 of 4 pieces of its run')]);
    const again = await done('score', chunk, '--dry-run', '--map', 'reference=answer', '--log-json');
    expect(again.stderr).toContain('"part_input"');
  });

  it('is none when it is finished, however its chunks are named together', async () => {
    await done('score', 'traces.jsonl', '-o', `${out}/`, ...CHUNKS, ...shard(1));
    const places = [`all.${format}`, `all-${format}/`];
    for (const place of places) await done('merge', `${out}/`, '-o', place, '--quiet');
    for (const place of [`${out}/`, ...places]) {
      expect(await noted(place)).toEqual([]);
      expect(await means(place)).toBe('0 ');
    }
    expect(JSON.parse((await done('status', `${out}/`, '--json')).stdout).part).toBeNull();
    if (format === 'jsonl') return;
    // a chunk says so itself, wherever it lies
    const copies = `copies-${format}`;
    await mkdir(at(copies));
    const names = await readdir(at(`${out}/chunks`), { recursive: true });
    for (const [n, name] of names.filter((each) => each.endsWith(format)).entries()) {
      await copyFile(at(`${out}/chunks/${name}`), at(`${copies}/${n}.${format}`));
      expect(await means(copies)).toMatch(n < 3 ? `65 rredcot: ${copies}: has ${n + 1} of 4 pieces` : /^0 $/);
    }
    await done('score', 'traces.jsonl', '-o', `single.${format}`, ...CHUNKS);
    const [single, all] = await Promise.all(
      [`single.${format}`, `all.${format}`].map((name) => readFile(at(name))),
    );
    expect(single?.equals(all as Buffer)).toBe(true);
  });
});

it('a file of a merged folder is a part without the others', async () => {
  await done('merge', 'run-arrow/', '-o', 'files/', '--file-size', '64KiB', '--quiet');
  const names = (await readdir(at('files'))).filter((name) => name.startsWith('data-'));
  expect(names.length).toBeGreaterThan(1);
  const said = `has 1 of ${names.length} pieces of its run`;
  expect(await noted('files/data-00000.arrow')).toEqual([expect.stringContaining(said)]);
  expect(await noted('files/')).toEqual([]);
});
