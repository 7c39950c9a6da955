// The help of every command: an example that runs, exit codes, a page that is there; defaults without quotes; completion in bash.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { readersFolder, runIn } from '../support/documentation.js';
import { rredcotHere } from '../support/in-process.js';
import { temporaryFolder } from '../support/program.js';

const COMMANDS = [
  ...[
    'score',
    'segment',
    'sample',
    'inspect',
    'summary',
    'report',
    'calibrate',
    'compare',
    'redistribute',
    'filter',
  ],
  ...['status', 'verify', 'merge', 'doctor', 'completion', 'policy build', 'policy info', 'policy check'],
];
const helps = new Map<string, string>();
beforeAll(async () => {
  for (const command of COMMANDS)
    helps.set(command, (await rredcotHere([...command.split(' '), '--help'])).stdout);
});

describe('the help', () => {
  it('is that of every command there is', async () => {
    const { stdout } = await rredcotHere(['--help']);
    const listed = [...stdout.matchAll(/^ {2}([a-z]+)\b/gm)].map(([, name]) => name);
    const first = new Set(COMMANDS.map((name) => name.split(' ')[0]));
    expect([...new Set(listed)].filter((name) => name !== 'help' && name !== 'commands').sort()).toEqual(
      [...first].sort(),
    );
  });

  it.each(COMMANDS)('of %s ends with an example, exit codes, and a page that is there', (command) => {
    const help = helps.get(command) as string;
    expect(help).toMatch(/\nExamples?:\n(?: {2}rredcot .*\n)+\nExit codes: 0 done, .*\nMore: .*\n$/);
    expect(existsSync(/\nMore: (.*)\n$/.exec(help)?.[1] as string)).toBe(true);
    expect(help).not.toMatch(/\(default:\s+("|\[|false)/);
  });

  it('has examples that run', async () => {
    const folder = await readersFolder();
    const before = [
      'rredcot score fixtures/chains.jsonl --limit 128 -o scored.parquet --quiet',
      'rredcot score fixtures/chains.jsonl --limit 16 -o out/ --quiet',
      'rredcot policy build ./checkpoint -o ./policy',
    ];
    for (const line of before) expect(runIn(folder, line)).toMatchObject({ status: 0 });
    // what example policy check reads is made by Python, where there is a transformers
    for (const command of COMMANDS.filter((name) => name !== 'policy check')) {
      const line = /\nExamples?:\n {2}(.*)\n/.exec(helps.get(command) as string)?.[1] as string;
      // the examples of score and policy build would write over what the others read
      const ran = line.replace('-o scored.parquet', '-o again.parquet').replace('-o ./policy', '-o ./again');
      const { status, stderr } = runIn(folder, ran);
      expect(status, `${ran}: ${stderr}`).toBe(0);
    }
  });
});

it('completion completes in bash', async () => {
  const { stdout } = await rredcotHere(['completion', 'bash']);
  const folder = await temporaryFolder();
  await writeFile(join(folder, 'rredcot.bash'), stdout);
  const completed = (...words: string[]) => {
    const set = `COMP_WORDS=(rredcot ${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length}`;
    const run = `source '${join(folder, 'rredcot.bash')}'; ${set}; _rredcot; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const { stdout: found, stderr } = spawnSync('bash', ['--norc', '-c', run], {
      encoding: 'utf8',
      cwd: folder,
    });
    expect(stderr).toBe('');
    return found.trim().split('\n');
  };
  expect(completed('sc')).toEqual(['score']);
  expect(completed('policy', 'b')).toEqual(['build']);
  expect(completed('score', '--calib')).toEqual(['--calibration']);
  expect(completed('score', '--strategy', 'one')).toEqual(['one-run']);
  expect(completed('policy', 'check', '--de')).toEqual(['--device']);
  expect(completed('inspect', 'rred')).toEqual(['rredcot.bash']);
});
