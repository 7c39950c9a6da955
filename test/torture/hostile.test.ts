// A trace cannot harm its reader: nothing of it is opened, run, or sent to the terminal as it is.
import { mkdir, readdir } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { rredcotHere } from '../support/in-process.js';
import { CHAIN, goodLine } from '../support/program.js';
import { openScene } from '../support/scene.js';

/** clears the screen, sets the title, writes from right to left, rings, ends a C string, comes back */
const EVIL = '\u001b[2J\u001b]0;owned\u0007\u202egnp.exe\u0000\u009b31m\r\u2028';
/** control characters but for the line breaks of our own lines, and what turns the direction of text */
const CONTROLS = /(?!\n)[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029]/u;

const { at, done, rows: rowsOf, run, text, write } = await openScene();

describe('the terminal', () => {
  it('gets no control character from ids, completions, columns, reasons or file names', async () => {
    const name = `traces${EVIL.replace('\u0000', '')}.jsonl`;
    const rows = [
      goodLine({ id: EVIL, completion: CHAIN.replace('a: 3', `${EVIL}a: 3`) }),
      goodLine({ id: 'x', reward: EVIL }),
      goodLine({ [`column${EVIL}`]: 1, [EVIL]: { [EVIL]: EVIL } }),
      goodLine({ id: 'a', completion_ids: EVIL }),
      `{"${EVIL}\n`,
    ];
    await write(name, rows.join(''));
    const output = `out${EVIL.replace('\u0000', '').slice(0, 20)}.parquet`;
    const badMap = `completion=${EVIL.replace('\u0000', '')}`;
    for (const flags of [[], ['--max-rejects', '0'], ['--map', badMap]]) {
      const { code, stderr } = await run(['score', name, '-o', output, ...flags]);
      expect(code, stderr).toBe(flags.length === 0 ? 0 : flags[0] === '--map' ? 2 : 65);
      expect(stderr).toContain('\\u{1b}[2J');
      expect(stderr.split('\n').filter((line) => CONTROLS.test(line))).toEqual([]);
      if (flags.length > 0) continue;
      // what programs read is as it was
      const rejects = await rowsOf<{ raw: string; file: string }>(`${output}.rejects.jsonl`);
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
    await write('in.jsonl', goodLine());
    const { code, stderr } = await run(args);
    expect(code).toBe(2);
    expect(stderr).not.toMatch(CONTROLS);
    expect(stderr).toContain('\\u{1b}');
  });

  it('nor from JSON: of inspect, of segment on stdout, of the log', async () => {
    const evil = goodLine({ id: EVIL, completion: CHAIN.replace('a: 3', `${EVIL}a: 3`), [EVIL]: EVIL });
    const name = `json${EVIL.slice(1, 30).replace('\u0000', '')}.jsonl`;
    await write(name, `${evil}${goodLine({ id: 'x', reward: EVIL })}`);
    const inspected = await done(['inspect', name, '--json']);
    expect(inspected.stdout).not.toMatch(CONTROLS);
    expect(JSON.parse(inspected.stdout)).toMatchObject({ file: name, trace: { id: EVIL } });
    const cut = await done(['segment', name, '--no-policy', '--quiet']);
    expect(cut.stdout).not.toMatch(CONTROLS);
    expect(JSON.parse(cut.stdout)).toMatchObject({ id: EVIL, [EVIL]: EVIL });
    const output = name.replace('json', 'out');
    const logged = await done(['segment', name, '--no-policy', '--log-json', '-o', output]);
    expect(logged.stderr).not.toMatch(CONTROLS);
    const records = logged.stderr.trim().split('\n');
    expect(records.map((line) => JSON.parse(line) as object)).toContainEqual(
      expect.objectContaining({ msg: 'done', output }),
    );
  });

  it('nor from what looks at scored files, in text, CSV and records', async () => {
    const name = (rest: string) => `seen\u001b[31m\u202e\u009b${rest}`;
    const group = [{ id: 'a' }, { id: 'b', reward: 0 }].map((own) => goodLine({ group: 'g', ...own }));
    await write(name('.jsonl'), group.join(''));
    const [one, other] = [name('1.jsonl'), name('2.jsonl')];
    const commands = [
      ['score', name('.jsonl'), '-o', one],
      ['redistribute', one, '--sigma', 'rudder', '-o', other],
      ['filter', one, '--where', 'reward == 1', '-o', name('f.jsonl')],
      ['summary', one],
      ['report', one, '-o', name('.html')],
      ['compare', one, other],
      ['compare', one, other, '--csv'],
      ['verify', one],
      ['score', name('none/'), '--log-json'],
    ];
    for (const args of commands) {
      const lines = (await run(args)).said.split('\n');
      expect(
        lines.filter((line) => CONTROLS.test(line)),
        args.join(' '),
      ).toEqual([]);
      expect(lines.join('\n'), args.join(' ')).toMatch(/\\u\{202e\}|\\u202e/);
    }
  });
});

it('the file system gets no path from a row: ids, groups and columns are only written', async () => {
  const rows = ['../../x', '/etc/passwd', '..', 'a/../../b', 'file:///etc/passwd', '$(touch owned)', '`id`'];
  const input = rows.map((id) => goodLine({ id, group: id, image: id, path: id, file: id })).join('');
  await mkdir(at('in/side'), { recursive: true });
  await write('in/side/rows.jsonl', `${input}{"id": "../y", "prompt": 1}\n`);
  const args = ['segment', 'rows.jsonl', '-o', 'out/', '--format', 'jsonl'];
  expect(await rredcotHere(args, { cwd: at('in/side') })).toMatchObject({ code: 0 });
  expect((await readdir(at('in/side'))).sort()).toEqual(['out', 'rows.jsonl']);
  expect(await readdir(at('in'))).toEqual(['side']);
  expect((await readdir(at('in/side/out'), { recursive: true })).sort()).toEqual([
    ...['README.md', '_facts', '_facts/part-00000.json', '_run.json', 'part-00000.jsonl'],
    ...['rejects', 'rejects/part-00000.jsonl'],
  ]);
  const out = await rowsOf('in/side/out/part-00000.jsonl');
  expect(out.map(({ id }) => id)).toEqual(rows);
});

it('the program keeps keys that JavaScript knows as data', async () => {
  const line = goodLine({ id: 'k', constructor: 'c', toString: 1, nested: { hasOwnProperty: null } });
  const evil = line.replace('{', '{"__proto__":{"polluted":true,"completion":"no"},"prototype":{"x":[1]},');
  await write('keys.jsonl', `${evil}{"__proto__":{"prompt":"p","completion":"c"}}\n`);
  for (const format of ['jsonl', 'parquet', 'arrow']) {
    await done(`segment keys.jsonl -o keys.out.${format} --no-policy`);
    const [reject] = await rowsOf<{ code: string }>(`keys.out.${format}.rejects.jsonl`);
    expect(reject?.code).toBe('map');
  }
  const found = await text('keys.out.jsonl');
  expect(found).toContain('"__proto__":{"polluted":true,"completion":"no"}');
  const written = JSON.parse(found) as Record<string, unknown>;
  expect(written).toMatchObject({ completion: CHAIN, constructor: 'c', toString: 1 });
  expect(({} as Record<string, unknown>).polluted).toBeUndefined();
});
