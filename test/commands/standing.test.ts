// What stands where an output is to go: the same run says that it is done, anything else is refused, and --overwrite replaces it.
import { appendFile, cp, mkdir, readdir, readFile, rm, stat, utimes } from 'node:fs/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { writeFixtures } from '../support/program.js';
import { fixtureRows, GIVEN, openScene, valued } from '../support/scene.js';

const { at, done, fails, folder, run, text, write } = await openScene();
/** content, and when it was written */
const state = async (name: string) => [await readFile(at(name), 'hex'), (await stat(at(name))).mtimeMs];
const SEGMENT = 'segment traces.jsonl --no-policy';

beforeEach(async () => {
  for (const name of await readdir(folder)) await rm(at(name), { recursive: true });
  await writeFixtures(at('traces.jsonl'), 4);
});

/** A refusal before anything is touched. @param said what differs */
async function refused(line: string, output: string, said: RegExp, stdin?: string): Promise<void> {
  const before = await state(output);
  expect((await fails(line, 2, said, stdin)).stderr).toContain('--overwrite');
  expect(await state(output)).toEqual(before);
  expect((await readdir(folder)).filter((name) => name.startsWith('.'))).toEqual([]);
}

describe.each(['cut.parquet', 'cut.arrow', 'cut.jsonl', 'cut.jsonl.gz'])('a run at %s', (output) => {
  const command = `${SEGMENT} -o ${output}`;

  it('is done when it is asked for again, by one process or by workers', async () => {
    await done(command);
    const before = await state(output);
    for (const again of [command, `${command} --workers 2`]) {
      expect((await done(again)).stderr).toContain(`${output} is already done: 4 traces`);
      expect(await state(output)).toEqual(before);
    }
    expect((await readdir(folder)).filter((name) => name.startsWith('.'))).toEqual([]);
  });

  it('is refused by the flag that differs, and replaced where that is asked for', async () => {
    await done(command);
    for (const more of ['--max-segments 2', '--max-segments 2 --workers 2'])
      await refused(`${command} ${more}`, output, /another run: --max-segments is .*, here it is 2/);
    const before = await state(output);
    await done(`${command} --max-segments 2 --overwrite`);
    expect((await state(output))[0]).not.toBe(before[0]);
  });

  it('is refused where its inputs are others, or were written since', async () => {
    await done(command);
    await write('other.jsonl', (await text('traces.jsonl')).repeat(2));
    await refused(command.replace('traces', 'other'), output, /of other inputs/);
    const later = new Date(Date.now() + 60_000);
    await utimes(at('traces.jsonl'), later, later);
    await refused(command, output, /is older than its input: traces\.jsonl/);
    await appendFile(at('traces.jsonl'), await readFile(at('traces.jsonl')));
    await refused(command, output, /of these before they were edited/);
  });

  it('is refused where the file was edited since, or is nobody of ours', async () => {
    await done(command);
    const bytes = await readFile(at(output));
    bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] as number) ^ 1;
    await write(output, bytes);
    await refused(command, output, /was not|is not the file|hash|no output of a run/);
    await write(`other-${output}`, 'somebody wrote this\n');
    await refused(`${SEGMENT} -o other-${output}`, `other-${output}`, /is no output of a run/);
  });

  it('is refused where it was made of a stream, or is to be', async () => {
    await done(command);
    const [stdin, piped] = [await text('traces.jsonl'), `segment - --no-policy -o ${output}`];
    await refused(piped, output, /another run|a stream/, stdin);
    await done(`${piped} --overwrite`, stdin);
    await refused(piped, output, /whether a stream is what it was made of/, stdin);
  });
});

describe('what is made of a scored file', () => {
  beforeEach(async () => {
    await write('valued.jsonl', (await fixtureRows(0, 4)).map(valued));
    await done(`score valued.jsonl ${GIVEN} -o scored.parquet`);
  });

  it.each([
    [
      'redistribute scored.parquet -o out.jsonl --sigma rudder',
      '--residual answer',
      /another run: --residual/,
    ],
    ['filter scored.parquet -o out.parquet --where reward>=0', '--where id!=x', /another run/],
  ])('%s is done, refused and replaced alike', async (command, more, said) => {
    const output = command.includes('jsonl') ? 'out.jsonl' : 'out.parquet';
    await done(command);
    const before = await state(output);
    expect((await done(command)).stderr).toContain('is already done');
    expect(await state(output)).toEqual(before);
    await refused(`${command} ${more}`, output, said);
    await done(`${command} ${more} --overwrite`);
  });

  it('merge: a file of the run is done, another one is refused', async () => {
    await done(`${SEGMENT} -o run/ --rows-per-chunk 2`);
    await done(`${SEGMENT} -o other/ --rows-per-chunk 2 --max-segments 2`);
    await done('merge run/ -o all.parquet');
    expect((await done('merge run/ -o all.parquet')).stderr).toContain('holds this run already');
    await refused('merge other/ -o all.parquet', 'all.parquet', /another run: --max-segments/);
    await done('merge other/ -o all.parquet --overwrite');
  });
});

describe('what another run has left of an output', () => {
  const command = `${SEGMENT} --rows-per-chunk 1 -o cut.jsonl`;
  const hidden = async () => (await readdir(folder)).filter((name) => name.startsWith('.')).sort();
  /** As a killed run leaves it: three of four chunks done. */
  async function left(more: string, name: string): Promise<void> {
    await done(`${SEGMENT} --rows-per-chunk 1 --format jsonl -o run/${more}`);
    for (const file of [
      '_SUCCESS',
      'README.md',
      'done/00000-of-00001.json',
      'done/00000-of-00001/000003.json',
    ])
      await rm(at(`run/${file}`));
    await cp(at('run'), at(name), { recursive: true });
    await rm(at('run'), { recursive: true });
  }

  it('is refused where it could be gone on with, named by status, and goes with --overwrite', async () => {
    await left(' --max-segments 2', '.cut.jsonl.0123456789abcdef');
    await left(' --max-segments 3', '.cut.jsonl.123456789abcdef0');
    const why = /\.cut\.jsonl\.\w+: holds another run: in run\.json, .*--max-segments is [23]/;
    for (const more of ['', ' --workers 2']) await fails(command + more, 2, why);
    const status = await run('status cut.jsonl');
    expect(status.stdout).toMatch(/3\/4 /);
    expect(status.stdout).toMatch(/^\.cut\.jsonl\.\w{16}: of another run of this output; --overwrite/m);
    await done(`${command} --overwrite`);
    expect(await hidden()).toEqual([]);
  });

  it('is gone on with by its own command, whatever other there is', async () => {
    await left('', '.cut.jsonl.0123456789abcdef');
    expect((await run(command)).stderr).toContain('resuming: 3 chunks are done');
    expect(await hidden()).toEqual([]);
  });

  it('goes with the next run where it has no whole chunk; a file of somebody else stays', async () => {
    await mkdir(at('.cut.jsonl.0123456789abcdef/chunks'), { recursive: true });
    await write('.cut.jsonl.note', 'of a user');
    await left('', '.cut.jsonl.123456789abcdef0');
    await rm(at('.cut.jsonl.123456789abcdef0/done'), { recursive: true });
    await done(`${command} --max-segments 2`);
    expect(await hidden()).toEqual(['.cut.jsonl.note']);
  });
});
