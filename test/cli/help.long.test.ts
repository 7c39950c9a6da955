// The help of every command: an example that runs, exit codes, a page that is there; every default.
import { existsSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { COMMANDS, readersFolder } from '../support/documentation.js';
import { runLine } from '../support/documentation-pages.js';
import { rredcotHere } from '../support/in-process.js';

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

  it.each(['', 'policy'])('of "%s" ends with examples, exit codes, and a page', async (group) => {
    const { stdout } = await rredcotHere([...group.split(' ').filter(Boolean), '--help']);
    const end = /\nExamples:\n((?: {2}rredcot .*\n)+)\nExit codes: 0 done, .*\nMore: (.*)\n$/.exec(stdout);
    expect(existsSync(end?.[2] as string)).toBe(true);
    // each is a command's own, which is run
    for (const line of String(end?.[1]).trim().split(/\n */))
      expect([...helps.values(), 'rredcot inspect traces.jsonl'].join()).toContain(line);
  });

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
