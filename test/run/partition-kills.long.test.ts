// A run dealt out to folders that is killed at each of its steps: the same command makes the same bytes.
import fs from 'node:fs/promises';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { BROKEN, start, temporaryFolder } from '../support/program.js';
import { fixtureRows, GIVEN, openScene, valued } from '../support/scene.js';
import { snapshot } from '../torture/snapshot.js';

const { at, done, folder, write } = await openScene();
/** all but the input */
const outputs = async () => (await fs.readdir(folder)).filter((name) => name !== 'traces.jsonl');
const left = async () => (await fs.readdir(folder)).filter((name) => name.startsWith('.'));

beforeAll(async () => {
  const traces = (await fixtureRows(0, 12)).map((row, n) =>
    JSON.stringify({ ...valued(row), step: 9 + (n % 2) }),
  );
  await write('traces.jsonl', `${traces.toSpliced(2, 0, BROKEN).join('\n')}\n`);
});

describe.each(['parquet', 'arrow'])('a run dealt out to %s', (format) => {
  const command = `score traces.jsonl ${GIVEN} --rows-per-part 4 --partition step --format ${format}`;

  const moments: readonly (readonly [
    name: string,
    moment: { op: string; path: string; when?: string; nth?: number },
  ])[] = [
    [
      'in the middle of a file',
      { op: 'write', path: `\\.part-00000\\.${format}`, nth: format === 'arrow' ? 3 : 0 },
    ],
    ['when one is there', { op: 'rename', path: `step=10/part`, when: 'after' }],
    ['when all are', { op: 'rename', path: 'summary\\.json$' }],
    ['before they have their name', { op: 'rename', path: '/out$' }],
    ['when they have it', { op: 'rename', path: '/out$', when: 'after' }],
  ];
  // the kill knows whole paths
  const of = (out: string) => `${command.replace('traces', at('traces'))} -o ${at(out)}/`;
  let kept: string;
  let whole: Awaited<ReturnType<typeof snapshot>>;
  beforeAll(async () => {
    await done(of('one'));
    whole = await snapshot(at('one'));
    for (const name of await outputs()) await fs.rm(at(name), { recursive: true });
    // parts that stand, so that the files of the folders are what is written
    for (const i of [0, 1, 2]) await done(`${of('out')} --shard ${i}/4`);
    kept = await temporaryFolder();
    for (const name of await outputs()) await fs.rename(at(name), `${kept}/${name}`);
  });
  beforeEach(async () => {
    for (const name of await outputs()) await fs.rm(at(name), { recursive: true });
    await fs.cp(kept, folder, { recursive: true, preserveTimestamps: true });
  });

  it.each(format === 'parquet' ? moments : moments.slice(0, 1))(
    'goes on where it was killed %s',
    async (_, moment) => {
      const plan = { under: folder, nth: 0, ...moment };
      expect((await start([...of('out').split(' ')], { plan }).end).signal).toBe('SIGKILL');
      if (moment.when !== 'after') await expect(fs.stat(at('out'))).rejects.toThrow('ENOENT');
      await done(of('out'));
      expect(await snapshot(at('out'))).toEqual(whole);
      expect(await left()).toEqual([]);
    },
  );
});
