// `--config`: what a file may hold, and who wins: flag before environment before file before default.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Command } from 'commander';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type JobFlags, job } from '../../dist/cli/job-flags.js';
import { workerFlags } from '../../dist/cli/worker-flags.js';
import { CORES_VARIABLE, coreShare, ownCores } from '../../dist/cores.js';
import { flagOfKey, nameOfField } from '../../dist/io/run/flag-names.js';
import { temporaryFolder } from '../support/temporary-folder.js';

let folder: string;
beforeAll(async () => {
  folder = await temporaryFolder();
});

type Flags = JobFlags & { sigma: string; rewardRange: string };

/** The flags that an action is given, and those that its workers would be given. */
async function parsed(config: unknown, ...args: string[]): Promise<{ flags: Flags; workers: string[] }> {
  const path = join(folder, 'config.json');
  await writeFile(path, typeof config === 'string' ? config : JSON.stringify(config));
  let flags: Flags | undefined;
  const command = job(new Command('score'), 'scored.parquet')
    .option('--policy <folder>', 'folder', 'embedded')
    .option('--no-policy', 'none')
    .option('--sigma <rule>', 'rule', 'share')
    .option('--reward-range <low,high>', 'range', '0,1')
    .exitOverride()
    .action((_, found: Flags) => {
      flags = found;
    });
  await command.parseAsync(['node', 'score', 'x.jsonl', '--config', path, ...args]);
  return { flags: flags as Flags, workers: workerFlags(command) };
}

describe('--threads', () => {
  afterEach(() => {
    delete process.env[CORES_VARIABLE];
  });

  it('bounds the cores of the process and of all its workers together', async () => {
    const { workers } = await parsed({ threads: 1 });
    expect(ownCores()).toBe(1);
    expect(coreShare(4)).toBe(1);
    expect(workers).toEqual([]);
    await expect(parsed({}, '--threads', '0')).rejects.toThrow(/--threads 0: .*at least 1/);
  });
});

describe('a file of flags', () => {
  it('sets flags of any kind, by their names', async () => {
    const config = {
      'max-segments': 20,
      sigma: 'rudder',
      keep: ['a', 'b'],
      overwrite: true,
      text: false,
      chatTemplateArg: ['x=1', 'y=2'],
      policy: false,
      map: null,
    };
    const { flags, workers } = await parsed(config);
    expect(flags).toMatchObject({
      maxSegments: '20',
      sigma: 'rudder',
      keep: 'a,b',
      overwrite: true,
      text: false,
    });
    expect(flags).toMatchObject({ chatTemplateArg: ['x=1', 'y=2'], policy: false, rewardRange: '0,1' });
    expect(flags.map).toBeUndefined();
    expect(workers).toEqual([
      ...[
        '--keep=a,b',
        '--no-text',
        '--max-segments=20',
        '--chat-template-arg=x=1',
        '--chat-template-arg=y=2',
      ],
      ...['--no-policy', '--sigma=rudder'],
    ]);
  });

  it('has the negated flags too, null for a default, and the mark of an editor in front', async () => {
    const { flags, workers } = await parsed('\uFEFF{"no-text": true, "no-policy": true, "sigma": null}');
    expect(flags).toMatchObject({ text: false, policy: false, sigma: 'share' });
    expect(workers).toEqual(['--no-text', '--no-policy']);
    const { flags: given } = await parsed({ 'no-text': true }, '--text');
    expect(given.text).toBe(true);
  });

  it('gives way to a flag, and comes before a default', async () => {
    const { flags } = await parsed({ sigma: 'rudder', 'reward-range': '-1,1' }, '--sigma', 'uniform');
    expect([flags.sigma, flags.rewardRange]).toEqual(['uniform', '-1,1']);
  });

  describe('beside a scheduler', () => {
    afterEach(() => {
      delete process.env.SLURM_ARRAY_TASK_ID;
      delete process.env.SLURM_ARRAY_TASK_COUNT;
    });

    it('gives way to the environment, which gives way to a flag', async () => {
      const shard = async (...args: string[]) => (await parsed({ shard: '1/2' }, ...args)).flags.shard;
      expect(await shard()).toBe('1/2');
      Object.assign(process.env, { SLURM_ARRAY_TASK_ID: '0', SLURM_ARRAY_TASK_COUNT: '4' });
      expect(await shard()).toBeUndefined();
      expect(await shard('--shard', '3/4')).toBe('3/4');
    });
  });

  it.each([
    ['no json', /is not JSON/],
    ['[1]', /is a list of 1, expected an object/],
    [{ sigmaa: 'x' }, /no flag is called "sigmaa"/],
    [{ config: 'x' }, /no flag is called "config"/],
    [{ overwrite: 'yes' }, /overwrite is the text "yes", expected true or false/],
    ['null', /is null, expected an object/],
    [{ 'no-text': false }, /no-text is false, expected true/],
    [{ text: true, 'no-text': true }, /"text" and "no-text" are one flag/],
    [{ 'max-segments': 3, maxSegments: 4 }, /"max-segments" and "maxSegments" are one flag/],
    [{ sigma: { rule: 'share' } }, /sigma is an object .* expected text, a number/],
    [{ sigma: true }, /sigma is true, expected text/],
  ])('%j is refused', async (config, message) => {
    await expect(parsed(config)).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringMatching(message),
    });
  });
});

describe('the description or the summary of a run', () => {
  const config = {
    command: 'score',
    map: 'prompt=q',
    preset: 'none',
    rule: 'rudder',
    rewardRange: [-1, 1],
    chatTemplateArgs: { thinking: true, style: 'short' },
    segmenter: 'hybrid',
    fixedLength: 64,
    maxSegments: 7,
  };

  it('is taken as the flags it was made with', async () => {
    const { flags } = await parsed({ format: 2, rredcot: '0.1.0', config, shards: 4 }, '--max-segments', '9');
    expect(flags).toMatchObject({ map: 'prompt=q', preset: 'none', sigma: 'rudder', rewardRange: '-1,1' });
    expect(flags).toMatchObject({ maxSegments: '9', chatTemplateArg: ['thinking=true', 'style=short'] });
    expect([flags.fixedLength, flags.shard]).toEqual([undefined, undefined]);
  });

  it('is refused for another command, and where it does not say what was joined', async () => {
    const run = (more: object) => parsed({ rredcot: '0.1.0', config: { ...config, ...more } });
    await expect(run({ command: 'segment' })).rejects.toThrow('is of segment, this is score');
    await expect(run({ join: { name: 'x' } })).rejects.toThrow('does not say which file was joined');
  });
});

it('fields of a run are named as their flags', () => {
  expect(flagOfKey('rule')).toBe('--sigma');
  expect(flagOfKey('maxSegments')).toBe('--max-segments');
  expect(nameOfField('config.rewardRange.0')).toBe('--reward-range');
  expect(nameOfField('config.calibration.mean.0')).toBe('--calibration (mean.0)');
  expect(nameOfField('config.command')).toBe('config.command');
  expect(nameOfField('rows_per_chunk')).toBe('--rows-per-chunk');
  expect(nameOfField('inputs.0.bytes')).toBe('inputs.0.bytes');
});
