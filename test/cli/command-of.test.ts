// The command that `summary` prints scores once more with the same bytes; fields of a run are named as their flags.
import { execFileSync } from 'node:child_process';
import { copyFile, readFile, writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { job } from '../../dist/cli/job-flags.js';
import { CORES_VARIABLE, ownCores } from '../../dist/cores.js';
import { flagOfKey, nameOfField } from '../../dist/run/identity.js';
import { rredcotHere } from '../support/in-process.js';
import { FIXTURES, ROOT } from '../support/program.js';
import { temporaryFolder } from '../support/temporary-folder.js';

let folder: string;
const at = (name: string) => join(folder, name);
const done = async (args: readonly string[]) => {
  const { code, stdout, stderr } = await rredcotHere(args, { cwd: folder });
  expect(code, `${args.join(' ')}: ${stderr}`).toBe(0);
  return stdout;
};
/** Words of a command line, as a shell takes it. */
const words = (line: string) =>
  execFileSync('bash', ['-c', `printf '%s\\0' ${line.replace('<inputs>', 'inputs')}`], { encoding: 'utf8' })
    .split('\0')
    .slice(0, -1);

beforeAll(async () => {
  folder = await temporaryFolder();
  const lines = (await readFile(FIXTURES, 'utf8')).split('\n').slice(0, 8);
  await writeFile(at('traces.jsonl'), `${lines.join('\n')}\n`);
  const signed = lines.map((line) => {
    const { reward, ...row } = JSON.parse(line);
    return JSON.stringify({ ...row, reward: 4 * reward - 2 });
  });
  await writeFile(at('signed.jsonl'), `${signed.join('\n')}\n`);
  await copyFile(join(ROOT, 'examples/own_estimator.mjs'), at('mine.mjs'));
});

describe('the command that summary prints', () => {
  it.each([
    [
      'nothing but defaults',
      'traces.jsonl',
      [],
      /^rredcot score <inputs> --preset tokens --reward-range 0,1 --max-segments 40$/,
    ],
    [
      'a rule, shaped',
      'traces.jsonl',
      ['--sigma', 'rudder,share', '--smooth', '2', '--baseline', 'value'],
      /--sigma rudder,share.*--smooth 2/,
    ],
    [
      'texts and lists',
      'traces.jsonl',
      ['--keywords', "Wait,Let me,don't", '--max-segments', '7', '--drop', 'solution'],
      /--max-segments 7/,
    ],
    [
      'a segmenter and tags',
      'traces.jsonl',
      ['--segmenter', 'keyword', '--keywords', 'b,so far', '--thought-tags', '<pad>,</pad>'],
      /--segmenter keyword.*--thought-tags '<pad>,<\/pad>'/,
    ],
    ['a range below 0', 'signed.jsonl', ['--reward-range', '-2,2'], /--reward-range=-2,2/],
    ['no text', 'traces.jsonl', ['--no-text', '--limit', '5'], /--no-text/],
    [
      'token weights',
      'traces.jsonl',
      ['--within', 'entropy', '--even', '.8', '--cap', '4', '--steps', 'scaled', '--bank', 'group'],
      /--bank group/,
    ],
  ])('%s', async (name, input, flags, said) => {
    const [first, again] = ['first', 'again'].map(
      (each) => `${name.replaceAll(/\W/g, '-')}-${each}.parquet`,
    ) as [string, string];
    await done(['score', input, '-o', first, '--quiet', ...flags]);
    const { command } = JSON.parse(await done(['summary', first, '--json'])) as { command: string };
    expect(command).toMatch(said);
    expect(await done(['summary', first])).toContain(`\nso again: ${command}\n`);
    const [program, verb, , ...rest] = words(command);
    expect([program, verb]).toEqual(['rredcot', 'score']);
    await done(['score', input, ...rest, '-o', again, '--quiet']);
    expect((await readFile(at(again))).equals(await readFile(at(first)))).toBe(true);
  });

  it('leaves out the paths that no output holds', async () => {
    await done(['score', 'traces.jsonl', '-o', 'own.jsonl', '--quiet', '--estimator', './mine.mjs']);
    expect(await done(['summary', 'own.jsonl'])).toMatch(
      /^so again: rredcot score <inputs> .*--estimator '?<module>/m,
    );
  });
});

describe('--threads', () => {
  afterEach(() => {
    delete process.env[CORES_VARIABLE];
  });

  it('bounds the cores of the process', async () => {
    const command = job(new Command('score'), 'scored.parquet')
      .exitOverride()
      .action(() => {});
    const parse = (...flags: string[]) => command.parseAsync(['node', 'score', 'x.jsonl', ...flags]);
    await parse('--threads', '1');
    expect(ownCores()).toBe(1);
    for (const odd of ['0', 'x', '1.5', '100000'])
      expect(ownCores({ [CORES_VARIABLE]: odd })).toBe(availableParallelism());
    await expect(parse('--threads', '0')).rejects.toThrow(/--threads 0: .*at least 1/);
  });
});

it('fields of a run are named as their flags', () => {
  expect(flagOfKey('rule')).toBe('--sigma');
  expect(flagOfKey('maxSegments')).toBe('--max-segments');
  expect(nameOfField('config.rewardRange.0')).toBe('--reward-range');
  expect(nameOfField('config.calibration.mean.0')).toBe('--calibration (mean.0)');
  expect(nameOfField('config.command')).toBe('config.command');
  expect(nameOfField('rows_per_part')).toBe('--rows-per-part');
  expect(nameOfField('inputs.0.bytes')).toBe('inputs.0.bytes');
});
