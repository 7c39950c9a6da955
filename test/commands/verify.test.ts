// `status` and `verify`: a whole run is found whole, and every kind of damage is found and named.
import { appendFile, cp, mkdir, readFile, rm, truncate, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { ranges } from '../../dist/commands/status.js';
import { checkRow } from '../../dist/scored/check-row.js';
import { editDone, editJson, editRows, SHARD } from '../support/edited-run.js';
import { BROKEN, INCOMPLETE, writeFixtures } from '../support/program.js';
import { fixtureRows, openScene } from '../support/scene.js';

type Row = Record<string, unknown>;

const { at, done, fails, folder, run, write } = await openScene();
/** runs of the same 24 rows, two of them rejects, in chunks of 4 */
const make = (command: string, output: string, more = '') =>
  done(`${command} traces.jsonl -o ${output} --rows-per-chunk 4 --max-segments 4 --quiet ${more}`);

beforeAll(async () => {
  await writeFixtures(at('traces.jsonl'), 22, { 3: INCOMPLETE, 14: BROKEN });
  await make('score', 'scored/', '--format jsonl');
});

let copies = 0;
/** The name of a copy of the scored run, to be damaged. */
async function copy(name = `copy-${copies++}`): Promise<string> {
  await cp(at('scored'), at(name), { recursive: true });
  return name;
}

describe('verify', () => {
  it('finds nothing in a whole run, in any format, and in a single file', async () => {
    for (const shard of ['0/2', '1/2'])
      await make('segment', 'arrow/', `--format arrow --no-policy --shard ${shard}`);
    await make('score', 'one.parquet');
    await make('score', 'some.jsonl.gz', '--columns sigma,reward');
    await make('score', 'prm/', '--export prm --sigma rudder --format jsonl');
    for (const name of ['scored', 'arrow', 'one.parquet', 'some.jsonl.gz', 'prm']) {
      const { stdout, stderr } = await done(`verify ${name}`);
      expect(stdout).toBe('');
      expect(stderr).toMatch(name === 'prm' ? /nothing found/ : /22 traces.*nothing found/);
    }
  });

  it("takes a column with one of our names, that --columns left out, for the input's own", async () => {
    const rows = (await fixtureRows(0, 6)).map((row, n) => ({
      ...row,
      logprobs: [n],
      segments: 'mine',
      status: n,
    }));
    await write('own-logprobs.jsonl', rows);
    for (const out of ['own.parquet', 'own-jsonl/ --format jsonl']) {
      await done(`score own-logprobs.jsonl --columns id,sigma --quiet -o ${out}`);
      expect((await done(`verify ${out.split(' ')[0]}`)).stdout).toBe('');
    }
  });

  it.each(['prm', 'tinker', 'vineppo'])('says that a file of --export %s tells too little', async (form) => {
    await make('score', `${form}.jsonl`, `--export ${form} --sigma rudder`);
    const { stdout } = await fails(`verify ${form}.jsonl`, 2, `has the columns of --export ${form}`);
    expect(stdout).toBe('');
  });

  it('ends with 75 where nothing is wrong but something is missing', async () => {
    const name = await copy();
    for (const file of [`done/${SHARD}.json`, '_SUCCESS', `done/${SHARD}/000005.json`])
      await rm(at(`${name}/${file}`));
    const { stdout } = await fails(`verify ${name}`, 75, /1 of 1 shard is not done; nothing found/);
    expect(stdout).toBe('');
  });

  const chunk = (folder: string, n: number) => join(folder, `chunks/${SHARD}/00000${n}.jsonl`);
  const rejected = (folder: string, n: number) => join(folder, `rejects/${SHARD}/00000${n}.jsonl`);
  const recordOf = (folder: string) => join(folder, `done/${SHARD}/000003.json`);
  type Damage = (folder: string) => Promise<unknown>;
  /** the third row of a chunk with another cell */
  const row = (cell: Row): Damage => {
    return (folder) => editRows(folder, 1, (rows) => Object.assign(rows[2] as Row, cell));
  };
  const rejects = (edit: (rows: Row[]) => unknown): Damage => {
    return (folder) => editRows(folder, 0, edit, 'rejects');
  };
  const edited = (edit: Parameters<typeof editDone>[1]): Damage => {
    return (folder) => editDone(folder, edit);
  };
  const lostRow: Damage = async (folder) => {
    await editRows(folder, 1, (rows) => rows.pop());
    const counts = { traces_per_row: [1, 1, 1, 0], traces: 3 };
    await editDone(folder, ({ chunks }) => Object.assign(chunks[1] as Row, counts));
  };
  it.each<[string, Damage, RegExp]>([
    [
      'a changed chunk',
      (f) => appendFile(chunk(f, 2), '\n'),
      /000002\.jsonl: has changed since it was written$/,
    ],
    ['a missing chunk', (f) => rm(chunk(f, 1)), /000001\.jsonl: is missing$/],
    ['changed rejects', (f) => truncate(rejected(f, 0), 9), /rejects.*000000\.jsonl: has changed/],
    [
      'rejects beside the record',
      (f) => write(rejected(f, 4), ''),
      /rejects.*000004\.jsonl: .* knows of no rejects/,
    ],
    ['a file in no record', (f) => write(chunk(f, 9), ''), /000009\.jsonl: is in no record/],
    ['a record that knows of fewer chunks', edited(({ chunks }) => chunks.pop()), /knows no chunk 5/],
    [
      'a record whose sums differ',
      edited((all) => Object.assign(all, { tokens: 1 })),
      /counts 1 token, its chunks \d+ together/,
    ],
    [
      'a chunk whose two records differ',
      (f) => editJson(recordOf(f), (record) => Object.assign(record, { tokens: 0 })),
      /000003\.json: is not what .*\.json says of the chunk/,
    ],
    ['a chunk without a record', (f) => rm(recordOf(f)), /000003\.json: is missing or damaged/],
    ['a chunk without its last row', (f) => editRows(f, 1, (rows) => rows.pop()), /holds 3 traces/],
    [
      'a row of another input row',
      row({ source_row: 5 }),
      /01\.jsonl: row 2: source_row is 5, expected 6 of .*traces\.jsonl/,
    ],
    [
      'a row of another input',
      row({ source_file: 'other.jsonl' }),
      /01\.jsonl: row 2: source_file is "other\.jsonl", expected ".*traces\.jsonl"/,
    ],
    [
      'an input row that vanished',
      lostRow,
      /input row .*traces\.jsonl:7 has 1 trace, 0 are in the output and 0 in the rejects/,
    ],
    [
      'a reject of another row',
      rejects((all) => Object.assign(all[0] as Row, { row: 2 })),
      /traces\.jsonl:3 has 1 trace, 0 are in the output and 0 in the rejects/,
    ],
    [
      'rejects beyond their record',
      rejects((all) => all.push({ ...(all[0] as Row) })),
      /holds 2 rejects, its record says 1/,
    ],
    [
      'a rejects file that is none',
      rejects((all) => all.splice(0, 1, {})),
      /rejects.*cannot be read: row 0: names no file and row/,
    ],
    [
      'fewer tokens than recorded',
      edited(({ chunks }) => (chunks[2] as { tokens: number }).tokens++),
      /000002\.jsonl: holds \d+ completion tokens, its record says/,
    ],
    [
      'success without an end',
      (f) => rm(join(f, `done/${SHARD}.json`)),
      /_SUCCESS: is there, though not every shard is done/,
    ],
  ])('names %s', async (_, damage, expected) => {
    const name = await copy();
    await damage(at(name));
    await fails(`verify ${name}`, 65, new RegExp(expected.source, 'm'));
  });

  it('finds an input that was replaced, warns of one that was touched, and holds on to row numbers without it', async () => {
    await cp(at('traces.jsonl'), at('other.jsonl'));
    await done('segment other.jsonl -o moved/ --no-policy --format jsonl --quiet --rows-per-chunk 64');
    const touched = new Date(1e12);
    await utimes(at('other.jsonl'), touched, touched);
    expect(await done('verify moved')).toMatchObject({
      stdout: '',
      stderr: expect.stringMatching(/other\.jsonl: was written since, .* the same\n.*nothing found/),
    });
    const bytes = await readFile(at('other.jsonl'));
    await appendFile(at('other.jsonl'), '{}\n');
    expect((await fails('verify moved', 65, '1 finding')).stdout.trimEnd()).toBe(
      `other.jsonl: is not the input that the run has read: ${bytes.length + 3} bytes, expected ${bytes.length}`,
    );
    await write('other.jsonl', Buffer.concat([bytes.subarray(0, -2), Buffer.from(' \n')]));
    await fails('verify moved', 65, /its first MiB differs$/m);
    await rm(at('other.jsonl'));
    const clean = await done('verify moved');
    expect(clean.stdout).toBe('');
    expect(clean.stderr).toMatch(/cannot be compared.*other\.jsonl is gone/);
    await editRows(at('moved'), 0, (rows) => Object.assign(rows[5] as Row, { source_row: 2 }));
    await fails('verify moved', 65, /row 5: source_row is 2, expected 6 of/);
  });

  it.each([
    ['parquet', 60],
    ['arrow', -300],
    ['jsonl', 100],
  ])('outlives a %s file that is cut off or overwritten', async (extension, place) => {
    const name = `cut.${extension}`;
    await done(`segment traces.jsonl -o ${name} --no-policy --quiet`);
    const bytes = await readFile(at(name));
    const from = place < 0 ? bytes.length + place : place;
    for (const damaged of [
      bytes.subarray(0, bytes.length - 20),
      Buffer.concat([bytes.subarray(0, from), Buffer.alloc(200, 0xff), bytes.subarray(from + 200)]),
      Buffer.alloc(0),
    ]) {
      await write(name, damaged);
      await fails(`verify ${name}`, 65, /cannot be read|is not the file that was written/);
    }
  });

  it('refuses what is none of our files', async () => {
    for (const name of ['traces.jsonl', 'missing', folder])
      expect((await run(`verify ${name}`)).code).toBe(2);
  });
});

describe('a row', () => {
  const segment = {
    ...{ start: 0, end: 3, char_start: 0, char_end: 5, kind: 'thought' },
    ...{ entropy: 1, value: 0.5, delta: 0.1, sigma: 0.8 },
  };
  const answer = {
    ...{ ...segment, start: 3, end: 4, char_start: 5, char_end: 9 },
    ...{ kind: 'answer', value: null, sigma: 0.2 },
  };
  const beside = (first: object, second: object) => ({
    segments: [
      { ...segment, ...first },
      { ...answer, ...second },
    ],
  });
  const sound: Row = {
    ...{ id: 'a', source_row: 1n, status: 'ok', completion_ids: [5, 6, 7, 8], logprobs: [-1, -1, -1, -1] },
    ...{ entropies: [1, 1, 1, 1], sigma: [0.5, 0.5, -0.2, 0.2], segments: [segment, answer] },
    ...{ value_start: 0.4, reward: 1, reference_logprobs: [[-1], [-2]], reference_utilities: [1] },
  };
  const faults = (change: Row) => checkRow({ ...sound, ...change }).faults.join('\n');

  it('that is sound has no faults', () => {
    expect(faults({})).toBe('');
    const cut = { sigma: null, segments: [{ ...segment, start: null, end: null }] };
    expect(faults({ status: 'segments:by-length', completion_ids: [1n], ...cut })).toBe('');
    // ids of an input whose integers have 64 bits, where --columns leaves out ours
    expect(faults({ completion_ids: BigInt64Array.of(1n, 2n, 3n, 4n) })).toBe('');
    // log v̂ where no reference counts
    expect(faults({ value_start: Number.NEGATIVE_INFINITY, reference_utilities: [0] })).toBe('');
    const none = { char_start: null, char_end: null };
    expect(faults(beside(none, none))).toBe('');
  });

  it.each<[Row, RegExp]>([
    [{ id: null }, /has no id/],
    [{ source_row: null }, /has no source_row/],
    [{ status: '' }, /has no status/],
    [{ sigma: [0.5, 0.5, -0.2, 0.21] }, /Σσ is 1\.01, expected 1 ± 0\.0000014/],
    [{ sigma: [0.5, 0.5, -0.2, Number.NaN] }, /sigma\[3\] is NaN, expected a finite number/],
    [{ sigma: [0.5, 0.3, 0.2] }, /sigma has 3 entries, completion_ids 4/],
    [{ logprobs: [-1, Number.NEGATIVE_INFINITY, -1, -1] }, /logprobs\[1\] is -Infinity/],
    [{ logprobs: [] }, /logprobs has 0 entries, completion_ids 4/],
    [{ entropies: [1, 1, 1, 1, 1] }, /entropies has 5 entries/],
    [{ value_start: Number.NEGATIVE_INFINITY }, /value_start is -Infinity/],
    [{ reward: Number.NaN }, /reward is NaN/],
    [{ segments: [] }, /has no segments/],
    [{ segments: [segment] }, /segments end at token 3, expected 4/],
    [beside({}, { start: 2 }), /segments\[1\] is tokens 2–4, expected them from 3 on/],
    [beside({ end: 0 }, {}), /segments\[0\] is tokens 0–0/],
    [beside({}, { char_start: 4 }), /segments\[1\] is characters 4–9, expected them from 5 on/],
    [beside({}, { sigma: 0.3 }), /segments\[1\]\.sigma is 0\.3, which is not the sum/],
    [beside({ value: Number.NaN }, {}), /segments\[0\]\.value is NaN/],
    [{ reference_logprobs: [[-1]] }, /reference_logprobs has 1 exits, expected 2/],
    [{ reference_logprobs: [[-1], [-1, -1]] }, /reference_logprobs\[1\] has 2 entries, .*_utilities 1/],
    [{ reference_logprobs: [[-1], [Number.NaN]] }, /reference_logprobs\[1\]\[0\] is NaN/],
  ])('with %j is found out', (change, expected) => expect(faults(change)).toMatch(expected));
});

describe('status', () => {
  it('tells what is there and what is missing, for people and for programs', async () => {
    await copy('state');
    const whole = (await done('status state')).stdout;
    expect(whole).toMatch(/score to jsonl, .*4 rows a chunk/);
    expect(whole).toMatch(
      /00000-of-00001 +6\/6 +24 +22 +2 +[\d,]+ +done\n(?:mean log p|σ uniform)(?:.*\n){3}finished \(_SUCCESS\)/,
    );
    await rm(at(`state/chunks/${SHARD}/000003.jsonl`));
    expect((await run('status state')).stdout).toMatch(/missing in 00000-of-00001: 3\nnot finished/);

    for (const shard of ['0/4', '2/4'])
      await make('segment', 'parts/', `--no-policy --format parquet --shard ${shard}`);
    await rm(at('parts/done/00002-of-00004.json'));
    const { stdout } = await run('status parts --json');
    expect(JSON.parse(stdout)).toMatchObject({
      ...{ finished: false, success: false, input_rows: 24, rows: 12, chunks: 3, chunks_expected: 6 },
      shards: [
        { shard: 0, done: true, missing: [], rows: 8 },
        { shard: 1, done: false, missing: [1, 5], rows: 0, updated: null },
        { shard: 2, done: false, missing: [], rows: 4 },
        { shard: 3, done: false, missing: [3] },
      ],
    });
    const table = (await run('status parts')).stdout;
    expect(table).toMatch(/^all +3\/6 +12/m);
    expect(table).toMatch(/not finished: 3 of 4 shards/);
  });

  it('finds the hidden folder of a file that is being made', async () => {
    await copy('.made.jsonl.0123456789abcdef');
    expect((await run('status made.jsonl')).stdout).toMatch(/6\/6/);
    expect((await run('status traces.jsonl')).stdout).toMatch(/no run is under way/);
    await mkdir(at('nothing'));
    expect((await run('status nothing')).code).toBe(2);
  });

  it('writes chunk numbers as ranges', () => {
    expect(ranges([0, 1, 2, 5, 7, 8])).toBe('0–2, 5, 7–8');
    expect(ranges(Array.from({ length: 20 }, (_, i) => 2 * i))).toMatch(/14, … \(20 chunks\)$/);
  });
});
