// A trace cannot harm its reader: nothing of it is opened, run, or sent to the terminal as it is.
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { escapeControls } from '../../dist/printable.js';
import { rredcotHere } from '../support/in-process.js';
import { readJsonl, type ScoredRow, temporaryFolder } from '../support/program.js';

const PROMPT = 'start 3: a+4 b*2 top?\n';
const CHAIN = '<think>\na: 3+4=7 top 7\nb: 7*2=4 top 7\n</think>\nanswer: 7\n';
/** clears the screen, sets the title, writes from right to left, rings, ends a C string, comes back */
const EVIL = '\u001b[2J\u001b]0;owned\u0007\u202egnp.exe\u0000\u009b31m\r\u2028';
/** control characters but for the line breaks of our own lines, and what turns the direction of text */
const CONTROLS = /(?!\n)[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029]/u;

let cwd: string;
beforeAll(async () => {
  cwd = await temporaryFolder();
});

const row = (more: Record<string, unknown>) =>
  JSON.stringify({ prompt: PROMPT, completion: CHAIN, answer: '7', reward: 1, ...more });

describe('the terminal', () => {
  it('gets no control character from ids, completions, columns, reasons or file names', async () => {
    const name = `traces${EVIL.replace('\u0000', '')}.jsonl`;
    const rows = [
      row({ id: EVIL, completion: CHAIN.replace('a: 3', `${EVIL}a: 3`) }),
      row({ id: 'x', reward: EVIL }),
      row({ [`column${EVIL}`]: 1, [EVIL]: { [EVIL]: EVIL } }),
      row({ id: 'a', completion_ids: EVIL }),
      `{"${EVIL}`,
    ];
    await writeFile(join(cwd, name), `${rows.join('\n')}\n`);
    const output = `out${EVIL.replace('\u0000', '').slice(0, 20)}.parquet`;
    const badMap = `completion=${EVIL.replace('\u0000', '')}`;
    for (const flags of [[], ['--max-rejects', '0'], ['--map', badMap]]) {
      const run = await rredcotHere(['score', name, '-o', output, ...flags], { cwd });
      expect(run.code, run.stderr).toBe(flags.length === 0 ? 0 : flags[0] === '--map' ? 2 : 65);
      expect(run.stderr).toContain('\\u{1b}[2J');
      expect(run.stderr.split('\n').filter((line) => CONTROLS.test(line))).toEqual([]);
      if (flags.length > 0) continue;
      // what programs read is as it was
      const rejects = await readJsonl<{ raw: string; file: string }>(join(cwd, `${output}.rejects.jsonl`));
      expect(rejects.at(-1)).toMatchObject({ raw: `{"${EVIL.replace('\r', '\r')}`, file: name });
    }
  });

  it.each([
    ['an input', ['score', `none${EVIL.slice(1, 20)}\u001b[31m.jsonl`]],
    ['an output', ['score', 'in.jsonl', '-o', `nowhere\u001b[31m/\u202ex.parquet`]],
    ['a flag', ['score', 'in.jsonl', '--sigma', '\u001b[31m']],
    ['an unknown flag', ['score', 'in.jsonl', '--\u001b[31m']],
    ['a command', ['\u001b[31m']],
    ['a device', ['score', 'in.jsonl', '--device', '\u001b[31m']],
    ['a policy', ['score', 'in.jsonl', '--policy', '\u001b[31m\u202e']],
  ])('nor from %s that is named in an error', async (_, args) => {
    await writeFile(join(cwd, 'in.jsonl'), `${row({})}\n`);
    const run = await rredcotHere(args, { cwd });
    expect(run.code).toBe(2);
    expect(run.stderr).not.toMatch(CONTROLS);
    expect(run.stderr).toContain('\\u{1b}');
  });

  it('nor from JSON: of inspect, of segment on stdout, of the log', async () => {
    const evil = row({ id: EVIL, completion: CHAIN.replace('a: 3', `${EVIL}a: 3`), [EVIL]: EVIL });
    const name = `json${EVIL.slice(1, 30).replace('\u0000', '')}.jsonl`;
    await writeFile(join(cwd, name), `${evil}\n${row({ id: 'x', reward: EVIL })}\n`);
    const inspected = await rredcotHere(['inspect', name, '--json'], { cwd });
    expect(inspected.code, inspected.stderr).toBe(0);
    expect(inspected.stdout).not.toMatch(CONTROLS);
    expect(JSON.parse(inspected.stdout)).toMatchObject({ file: name, trace: { id: EVIL } });
    const cut = await rredcotHere(['segment', name, '--no-policy', '--quiet'], { cwd });
    expect(cut.code, cut.stderr).toBe(0);
    expect(cut.stdout).not.toMatch(CONTROLS);
    expect(JSON.parse(cut.stdout)).toMatchObject({ id: EVIL, [EVIL]: EVIL });
    const output = name.replace('json', 'out');
    const logged = await rredcotHere(['segment', name, '--no-policy', '--log-json', '-o', output], { cwd });
    expect(logged.code, logged.stderr).toBe(0);
    expect(logged.stderr).not.toMatch(CONTROLS);
    const records = logged.stderr.trim().split('\n');
    expect(records.map((line) => JSON.parse(line) as object)).toContainEqual(
      expect.objectContaining({ msg: 'done', output }),
    );
  });

  it('nor from what looks at scored files, in text, CSV and records', async () => {
    const name = (rest: string) => `seen\u001b[31m\u202e\u009b${rest}`;
    await writeFile(
      join(cwd, name('.jsonl')),
      `${row({ id: 'a', group: 'g' })}\n${row({ id: 'b', group: 'g', reward: 0 })}\n`,
    );
    const [one, other] = [name('1.jsonl'), name('2.jsonl')];
    const commands = [
      ['score', name('.jsonl'), '-o', one],
      ['redistribute', one, '--sigma', 'rudder', '-o', other],
      ['filter', one, '--where', 'reward == 1', '-o', name('f.jsonl')],
      ['summary', one],
      ['report', one, '-o', name('.html')],
      ['compare', one, other],
      ['compare', one, other, '--csv'],
      ['compare', one, other, '--report', name('c.html')],
      ['verify', one],
      ['score', name('none/'), '--log-json'],
    ];
    for (const args of commands) {
      const { stdout, stderr } = await rredcotHere(args, { cwd });
      const lines = `${stdout}${stderr}`.split('\n');
      expect(
        lines.filter((line) => CONTROLS.test(line)),
        args.join(' '),
      ).toEqual([]);
      expect(lines.join('\n'), args.join(' ')).toMatch(/\\u\{202e\}|\\u202e/);
    }
  });

  it('escapes all that moves, colours or turns', () => {
    expect(escapeControls(`a\nb${EVIL}`)).not.toMatch(CONTROLS);
    expect(escapeControls('a\nb\tc')).toBe('a⏎b\\u{9}c');
    expect(escapeControls('ü 🙂 漢')).toBe('ü 🙂 漢');
  });
});

describe('the file system', () => {
  it('gets no path from a row: ids, groups and columns are only written', async () => {
    const rows = [
      '../../x',
      '/etc/passwd',
      '..',
      'a/../../b',
      'file:///etc/passwd',
      '$(touch owned)',
      '`id`',
    ];
    const input = rows.map((id) => row({ id, group: id, image: id, path: id, file: id })).join('\n');
    const place = join(cwd, 'in', 'side');
    await mkdir(place, { recursive: true });
    await writeFile(join(place, 'rows.jsonl'), `${input}\n{"id": "../y", "prompt": 1}\n`);
    const run = await rredcotHere(['segment', 'rows.jsonl', '-o', 'out/', '--format', 'jsonl'], {
      cwd: place,
    });
    expect(run.code, run.stderr).toBe(0);
    expect((await readdir(place)).sort()).toEqual(['out', 'out.summary.json', 'rows.jsonl']);
    expect(await readdir(join(cwd, 'in'))).toEqual(['side']);
    const files = (await readdir(join(place, 'out'), { recursive: true })).sort();
    expect(
      files.filter(
        (name) =>
          !/^(run\.json|survey\.json|README\.md|_SUCCESS|(chunks|rejects|done)\b[\w/.-]*)$/.test(name),
      ),
    ).toEqual([]);
    const out = await readJsonl<ScoredRow>(join(place, 'out/chunks/00000-of-00001/000000.jsonl'));
    expect(out.map(({ id }) => id)).toEqual(rows);
  });
});

describe('the program', () => {
  it('keeps keys that JavaScript knows as data', async () => {
    const line = row({ id: 'k', constructor: 'c', toString: 1, nested: { hasOwnProperty: null } });
    const evil = line.replace('{', '{"__proto__":{"polluted":true,"completion":"no"},"prototype":{"x":[1]},');
    await writeFile(join(cwd, 'keys.jsonl'), `${evil}\n{"__proto__":{"prompt":"p","completion":"c"}}\n`);
    for (const format of ['jsonl', 'parquet', 'arrow']) {
      const output = join(cwd, `keys.out.${format}`);
      const run = await rredcotHere(['segment', 'keys.jsonl', '-o', output, '--no-policy'], { cwd });
      expect(run.code, run.stderr).toBe(0);
      const [reject] = await readJsonl<{ code: string }>(`${output}.rejects.jsonl`);
      expect(reject?.code).toBe('map');
    }
    const text = await readFile(join(cwd, 'keys.out.jsonl'), 'utf8');
    expect(text).toContain('"__proto__":{"polluted":true,"completion":"no"}');
    const written = JSON.parse(text) as Record<string, unknown>;
    expect(written).toMatchObject({ completion: CHAIN, constructor: 'c', toString: 1 });
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });
});
