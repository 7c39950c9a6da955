// The help of every command: an example that runs, exit codes, a page that is there; every default; completion in bash, zsh and fish.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { readersFolder } from '../support/documentation.js';
import { runLine } from '../support/documentation-pages.js';
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
    'bench',
    'redistribute',
    'filter',
  ],
  ...['verify', 'doctor', 'completion', 'policy build', 'policy info'],
];
const helps = new Map<string, string>();
beforeAll(async () => {
  for (const command of COMMANDS)
    helps.set(command, (await rredcotHere([...command.split(' '), '--help'])).stdout);
});

describe('the help', () => {
  it('is that of every command there is', async () => {
    const { stdout } = await rredcotHere(['--help']);
    const commands = /\nCommands:\n(.*?)\n\n/s.exec(stdout)?.[1] as string;
    const listed = [...commands.matchAll(/^ {2}([a-z]+)\b/gm)].map(([, name]) => name);
    const first = new Set(COMMANDS.map((name) => name.split(' ')[0]));
    expect([...new Set(listed)].filter((name) => name !== 'help').sort()).toEqual([...first].sort());
  });

  it.each(['', 'policy'])(
    'of "%s" ends with examples, exit codes, and a page that is there',
    async (group) => {
      const { stdout } = await rredcotHere([...group.split(' ').filter(Boolean), '--help']);
      const end = /\nExamples:\n((?: {2}rredcot .*\n)+)\nExit codes: 0 done, .*\nMore: (.*)\n$/.exec(stdout);
      expect(existsSync(end?.[2] as string)).toBe(true);
      // each is a command's own, which is run
      for (const line of String(end?.[1]).trim().split(/\n */))
        expect([...helps.values(), 'rredcot inspect traces.jsonl'].join()).toContain(line);
    },
  );

  it.each(COMMANDS)('of %s tells the default of every flag that takes a value', (command) => {
    const flags = (helps.get(command) as string)
      .split('\nOptions:\n')[1]
      ?.split(/\n\n/)[0]
      ?.split(/\n(?= {2}-| {6}--)/)
      .map((text) => text.replaceAll(/\s+/g, ' '))
      .filter((text) => / --[a-z-]+ </.test(text));
    expect(flags?.filter((text) => !/\(required\)$|default: \S/.test(text))).toEqual([]);
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
      'rredcot bench embedded > embedded.jsonl',
      'rredcot score embedded.jsonl -o credits.parquet --segmenter given --quiet',
    ];
    for (const line of before) await runLine(folder, line);
    for (const command of COMMANDS) {
      const line = /\nExamples?:\n {2}(.*)\n/.exec(helps.get(command) as string)?.[1] as string;
      // examples that would write over what others read
      const ran = line.replace(/-o (scored|traces)\./, '-o $1-again.').replace('-o ./policy', '-o ./again');
      await runLine(folder, ran);
    }
  });
});

/** What is completed, in each shell: the words so far, the last of them begun, and the words that come of it. */
const CASES: [words: string[], found: string[]][] = [
  [['sc'], ['score']],
  [['policy', 'b'], ['build']],
  [['score', '--calib'], ['--calibration']],
  [['score', '--segmenter', 'ent'], ['entropy']],
  [['score', '--judge', 'ex'], ['exact']],
  [['doctor', '--device', 'cpu', '--js'], ['--json']],
  [['score', '-o', 'rred'], ['rredcot.script']],
  [['score', 'policy', '--thought'], ['--thought-tags']],
  [['inspect', '--preset', 'no'], ['none']],
  [['completion', 'z'], ['zsh']],
  [['inspect', 'rred'], ['rredcot.script']],
];
/** Programs of a shell that print what it completes. */
const COMPLETE = {
  bash: (words: string[]) => [
    '--norc',
    '-c',
    `source ./rredcot.script; COMP_WORDS=(rredcot ${words.join(' ')}); COMP_CWORD=${words.length}; _rredcot; printf '%s\\n' "\${COMPREPLY[@]}"`,
  ],
  // what the line editor would be handed, and which of it goes on from what was typed
  zsh: (words: string[]) => [
    '-f',
    '-c',
    `source ./rredcot.script; compset() { return 1 }; compadd() { print -rl -- \${(M)matches:#\${words[-1]}*} }; words=(rredcot ${words.join(' ')}); CURRENT=${words.length + 1}; eval \${_comps[rredcot]}`,
  ],
  fish: (words: string[]) => [
    '-N',
    '-c',
    `source ./rredcot.script; complete -C 'rredcot ${words.join(' ')}' | string replace -r '\\t.*' ''`,
  ],
};

for (const shell of ['bash', 'zsh', 'fish'] as const) {
  const isThere = spawnSync(shell, ['--version']).status === 0;
  it.skipIf(!isThere)(
    `completion completes in ${shell}${isThere ? '' : ` (skipped: no ${shell})`}`,
    async () => {
      const { stdout } = await rredcotHere(['completion', shell]);
      const folder = await temporaryFolder();
      await writeFile(join(folder, 'rredcot.script'), stdout);
      for (const [words, found] of CASES) {
        const run = spawnSync(shell, COMPLETE[shell](words), {
          encoding: 'utf8',
          cwd: folder,
          env: { ...process.env, HOME: folder },
        });
        expect([words, run.stderr, run.stdout.trim().split('\n')]).toEqual([words, '', found]);
      }
    },
  );

  it(`completion leaves no quote open in ${shell}`, async () => {
    const { stdout } = await rredcotHere(['completion', shell]);
    expect(stdout).toContain('max-segments');
    for (const line of stdout.split('\n')) expect((line.match(/'/g)?.length ?? 0) % 2, line).toBe(0);
  });
}
