// `inspect` in a terminal of its own (util-linux `script`): keys move on, the width is kept, and the terminal is left as it was.
import { spawn, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { columnsOf } from '../../dist/report/lines.js';
import { FIXTURES, ROOT, rredcot, temporaryFolder } from '../support/program.js';

const hasScript = spawnSync('script', ['--version']).status === 0;
const program = join(ROOT, 'bin/rredcot.js');

/** Runs it on a pseudo-terminal; each key is pressed when the terminal has been drawn on again. */
function pressed(folder: string, columns: number, keys: readonly string[], env: Record<string, string> = {}) {
  const command = `stty cols ${columns} rows 50; exec '${process.execPath}' '${program}' inspect scored.parquet --worst`;
  const child = spawn('script', ['-qefc', command, '/dev/null'], {
    cwd: folder,
    // nothing of ours: CI, FORCE_COLOR and the like change the number of colours
    env: { PATH: process.env.PATH, HOME: process.env.HOME, TERM: 'xterm-256color', ...env },
  });
  const screens: string[] = [''];
  const left = [...keys];
  return new Promise<{ screens: string[]; all: string; code: number | null }>((resolve) => {
    let all = '';
    child.stdout.on('data', (chunk: Buffer) => {
      all += chunk.toString();
      // the status line is the last thing that is drawn
      const drawn = all.split('\u001b[H\u001b[2J').slice(1);
      if (drawn.length < screens.length || !drawn.at(-1)?.endsWith('\u001b[0m')) return;
      screens.push('');
      child.stdin.write(left.shift() ?? 'q');
    });
    child.on('close', (code) => resolve({ screens: all.split('\u001b[H\u001b[2J').slice(1), all, code }));
  });
}

describe.skipIf(!hasScript)(`a terminal${hasScript ? '' : ' (skipped: no script)'}`, () => {
  let folder: string;
  beforeAll(async () => {
    folder = await temporaryFolder();
    const score = ['score', FIXTURES, '--limit', '24', '-o', join(folder, 'scored.parquet')];
    expect((await rredcot(score)).code).toBe(0);
  });
  const idOf = (screen = '') => /^[\w/-]+(?=: reward)/.exec(screen)?.[0];
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colours are control characters
  const placed = (text: string) => text.replaceAll(/\u001b\[\d+;1H/g, '\r\n');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colours are control characters
  const plain = (text: string) => placed(text).replaceAll(/\u001b\[[\d;]*[A-Za-z]/g, '');

  it.each([60, 200])(
    'of %i columns: n and p move on and back, m to a mate, q gives it back',
    async (columns) => {
      const { screens, all, code } = await pressed(folder, columns, ['n', 'p', 'm', 'a', '\u001b[B', 'q']);
      expect(code).toBe(0);
      const ids = screens.map(idOf);
      const numbers = ids.map((id) => Number(id?.split('/')[1]) + 8 * Number(id?.slice(4, 8)));
      expect(numbers[1]).toBe((numbers[0] as number) + 1);
      expect(ids[2]).toBe(ids[0]);
      expect(ids[3]?.split('/')[0]).toBe(ids[0]?.split('/')[0]);
      expect(ids[3]).not.toBe(ids[0]);
      const lines = screens.flatMap((screen) => plain(screen).split('\r\n'));
      expect(lines.filter((line) => columnsOf(line.replaceAll('\r', '')) > columns)).toEqual([]);
      expect(all).toContain('\u001b[48;5;');
      expect(all.trimEnd().endsWith('\u001b[?25h\u001b[?1049l')).toBe(true);
    },
  );

  it('without colours has none', async () => {
    const { all } = await pressed(folder, 100, ['q'], { NO_COLOR: '1' });
    expect(all).not.toContain('\u001b[48;5;');
    expect(all).toContain('lowered it');
  });
});
