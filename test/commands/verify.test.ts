// `status` and `verify`: a whole run is found whole, and every kind of damage is found and named.
import { createHash } from 'node:crypto';
import { appendFile, cp, mkdir, readFile, rm, truncate, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { ranges } from '../../dist/commands/status.js';
import { verify } from '../../dist/commands/verify.js';
import { checkRow } from '../../dist/io/scored/check-row.js';
import { rredcotHere } from '../support/in-process.js';
import {
  BROKEN,
  FIXTURES,
  INCOMPLETE,
  readJsonl,
  temporaryFolder,
  writeFixtures,
} from '../support/program.js';

type Row = Record<string, unknown>;

let work: string;
let input: string;
/** runs of the same 24 rows, two of them rejects, in chunks of 4 */
let scored: string;
const FLAGS = ['--rows-per-chunk', '4', '--max-segments', '4'];
const SHARD = '00000-of-00001';

const run = (command: string, output: string, ...more: string[]) =>
  rredcotHere([command, input, '-o', output, ...FLAGS, '--quiet', ...more]);

beforeAll(async () => {
  work = await temporaryFolder();
  input = join(work, 'traces.jsonl');
  await writeFixtures(input, 22, { 3: INCOMPLETE, 14: BROKEN });
  scored = join(work, 'scored');
  const { code, stderr } = await run('score', `${scored}/`, '--format', 'jsonl');
  expect(code, stderr).toBe(0);
});

/** `rredcot verify` without a process of its own. */
async function verified(out: string) {
  const stdout: string[] = [];
  const stderr: string[] = [];
  const log = {
    ...{ text: () => {}, record: () => {}, progress: () => {} },
    info: (line: string) => void stderr.push(line),
    warn: (_: string, line: string) => void stderr.push(line),
  };
  const opts = { signal: new AbortController().signal, print: (line: string) => void stdout.push(line) };
  const code = await verify(out, opts, log);
  return { code, stdout: stdout.join('\n'), stderr: stderr.join('\n') };
}

let copies = 0;
/** A copy of the scored run, to be damaged. */
async function copy(): Promise<string> {
  const folder = join(work, `copy-${copies++}`);
  await cp(scored, folder, { recursive: true });
  return folder;
}

/** Changes the records of the copy: the shard's, and those of its chunks, which say the same. */
async function editDone(folder: string, edit: (done: { chunks: Row[] } & Row) => void): Promise<void> {
  const path = join(folder, `done/${SHARD}.json`);
  const done = JSON.parse(await readFile(path, 'utf8')) as { chunks: Row[] } & Row;
  edit(done);
  await writeFile(path, JSON.stringify(done));
  for (const record of done.chunks)
    await writeFile(join(folder, `done/${SHARD}/00000${record.chunk}.json`), JSON.stringify(record));
}

/** Changes the rows of a chunk, or its rejects, and its hash with them. */
async function editRows(
  folder: string,
  chunk: number,
  edit: (rows: Row[]) => void,
  kind: 'chunks' | 'rejects' = 'chunks',
): Promise<string> {
  const path = join(folder, `${kind}/${SHARD}/00000${chunk}.jsonl`);
  const rows = await readJsonl<Row>(path);
  edit(rows);
  const bytes = Buffer.from(rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
  await writeFile(path, bytes);
  const field = kind === 'chunks' ? 'sha256' : 'rejects_sha256';
  await editDone(folder, ({ chunks }) => {
    (chunks[chunk] as Row)[field] = createHash('sha256').update(bytes).digest('hex');
  });
  return path;
}

describe('verify', () => {
  it('finds nothing in a whole run, in any format, and in a single file', async () => {
    for (const shard of ['0/2', '1/2'])
      await run('segment', join(work, 'arrow/'), '--format', 'arrow', '--no-policy', '--shard', shard);
    await run('score', join(work, 'one.parquet'));
    await run('score', join(work, 'some.jsonl.gz'), '--columns', 'sigma,reward');
    await run('score', join(work, 'prm/'), '--export', 'prm', '--sigma', 'rudder', '--format', 'jsonl');
    for (const name of ['scored', 'arrow', 'one.parquet', 'some.jsonl.gz', 'prm']) {
      const { code, stdout, stderr } = await rredcotHere(['verify', join(work, name)]);
      expect(stdout).toBe('');
      expect(code, stderr).toBe(0);
      expect(stderr).toMatch(name === 'prm' ? /nothing found/ : /22 traces.*nothing found/);
    }
  });

  it("takes a column with one of our names, that --columns left out, for the input's own", async () => {
    const rows = (await readJsonl<Row>(FIXTURES)).slice(0, 6);
    const path = join(work, 'own-logprobs.jsonl');
    const own = rows.map((row, n) => JSON.stringify({ ...row, logprobs: [n], segments: 'mine', status: n }));
    await writeFile(path, own.join('\n'));
    const args = ['score', path, '--columns', 'id,sigma', '--quiet', '-o'];
    for (const out of ['own.parquet', 'own-jsonl/']) {
      const format = out.endsWith('/') ? ['--format', out.slice(4, -1)] : [];
      expect((await rredcotHere([...args, join(work, out), ...format])).code).toBe(0);
      const { code, stdout, stderr } = await rredcotHere(['verify', join(work, out)]);
      expect([out, stdout]).toEqual([out, '']);
      expect(code, stderr).toBe(0);
    }
  });

  it.each(['prm', 'tinker', 'vineppo'])('says that a file of --export %s tells too little', async (form) => {
    const path = join(work, `${form}.jsonl`);
    await run('score', path, '--export', form, '--sigma', 'rudder');
    const { code, stdout, stderr } = await rredcotHere(['verify', path]);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(`has the columns of --export ${form}`);
  });

  it('ends with 75 where nothing is wrong but something is missing', async () => {
    const folder = await copy();
    await rm(join(folder, `done/${SHARD}.json`));
    await rm(join(folder, '_SUCCESS'));
    await rm(join(folder, `done/${SHARD}/000005.json`));
    const { code, stdout, stderr } = await verified(folder);
    expect([code, stdout]).toEqual([75, '']);
    expect(stderr).toMatch(/1 of 1 shard is not done; nothing found/);
  });

  it.each<[string, (folder: string) => Promise<unknown>, RegExp]>([
    [
      'a changed chunk',
      (folder) => appendFile(join(folder, `chunks/${SHARD}/000002.jsonl`), '\n'),
      /000002\.jsonl: has changed since it was written$/,
    ],
    [
      'a missing chunk',
      (folder) => rm(join(folder, `chunks/${SHARD}/000001.jsonl`)),
      /000001\.jsonl: is missing$/,
    ],
    [
      'changed rejects',
      (folder) => truncate(join(folder, `rejects/${SHARD}/000000.jsonl`), 9),
      /rejects.*000000\.jsonl: has changed/,
    ],
    [
      'rejects of which the record knows nothing',
      (folder) => writeFile(join(folder, `rejects/${SHARD}/000004.jsonl`), ''),
      /rejects.*000004\.jsonl: is there, its record knows of no rejects/,
    ],
    [
      'a file in no record',
      (folder) => writeFile(join(folder, `chunks/${SHARD}/000009.jsonl`), ''),
      /000009\.jsonl: is in no record/,
    ],
    [
      'a record that knows of fewer chunks',
      (folder) => editDone(folder, ({ chunks }) => chunks.pop()),
      /knows no chunk 5/,
    ],
    [
      'a record whose sums differ',
      (folder) =>
        editDone(folder, (done) => {
          done.tokens = 1;
        }),
      /counts 1 token, its chunks \d+ together/,
    ],
    [
      'a chunk whose two records differ',
      async (folder) => {
        const path = join(folder, `done/${SHARD}/000003.json`);
        await writeFile(path, JSON.stringify({ ...JSON.parse(await readFile(path, 'utf8')), tokens: 0 }));
      },
      /000003\.json: is not what .*\.json says of the chunk/,
    ],
    [
      'a chunk without a record',
      (folder) => rm(join(folder, `done/${SHARD}/000003.json`)),
      /000003\.json: is missing or damaged/,
    ],
    ['a chunk without its last row', (folder) => editRows(folder, 1, (rows) => rows.pop()), /holds 3 traces/],
    [
      'a row of another input row',
      (folder) =>
        editRows(folder, 1, (rows) => {
          (rows[2] as Row).source_row = 5;
        }),
      /000001\.jsonl: row 2: source_row is 5, expected 6 of .*traces\.jsonl/,
    ],
    [
      'a row of another input',
      (folder) =>
        editRows(folder, 1, (rows) => {
          (rows[2] as Row).source_file = 'other.jsonl';
        }),
      /000001\.jsonl: row 2: source_file is "other\.jsonl", expected ".*traces\.jsonl"/,
    ],
    [
      'an input row that vanished',
      (folder) =>
        editRows(folder, 1, (rows) => rows.pop()).then(() =>
          editDone(folder, ({ chunks }) => {
            Object.assign(chunks[1] as Row, { traces_per_row: [1, 1, 1, 0], traces: 3 });
          }),
        ),
      /input row .*traces\.jsonl:7 has 1 trace, 0 are in the output and 0 in the rejects/,
    ],
    [
      'a reject of another row',
      (folder) =>
        editRows(
          folder,
          0,
          (rows) => {
            (rows[0] as Row).row = 2;
          },
          'rejects',
        ),
      /traces\.jsonl:3 has 1 trace, 0 are in the output and 0 in the rejects/,
    ],
    [
      'rejects beyond their record',
      (folder) => editRows(folder, 0, (rows) => rows.push({ ...(rows[0] as Row) }), 'rejects'),
      /holds 2 rejects, its record says 1/,
    ],
    [
      'a rejects file that is none',
      (folder) => editRows(folder, 0, (rows) => rows.splice(0, 1, {}), 'rejects'),
      /rejects.*cannot be read: row 0: names no file and row/,
    ],
    [
      'fewer tokens than recorded',
      (folder) =>
        editDone(folder, (done) => {
          (done.chunks[2] as { tokens: number }).tokens++;
        }),
      /000002\.jsonl: holds \d+ completion tokens, its record says/,
    ],
    [
      'success without an end',
      (folder) => rm(join(folder, `done/${SHARD}.json`)),
      /_SUCCESS: is there, though not every shard is done/,
    ],
  ])('names %s', async (_, damage, expected) => {
    const folder = await copy();
    await damage(folder);
    const { code, stdout, stderr } = await verified(folder);
    expect(code, stderr).toBe(65);
    expect(stdout).toMatch(new RegExp(expected.source, 'm'));
  });

  it('finds an input that was replaced, warns of one that was touched, and holds on to row numbers without it', async () => {
    const folder = join(work, 'moved');
    const other = join(work, 'other.jsonl');
    await cp(input, other);
    const flags = ['--no-policy', '--format', 'jsonl', '--quiet', '--rows-per-chunk', '64'];
    await rredcotHere(['segment', other, '-o', `${folder}/`, ...flags]);
    const touched = new Date(1e12);
    await utimes(other, touched, touched);
    expect(await verified(folder)).toMatchObject({
      ...{ code: 0, stdout: '' },
      stderr: expect.stringMatching(/other\.jsonl: was written since, .* the same\n.*nothing found/),
    });
    const bytes = await readFile(other);
    await appendFile(other, '{}\n');
    const longer = await verified(folder);
    expect([longer.code, longer.stderr]).toEqual([65, expect.stringContaining('1 finding')]);
    expect(longer.stdout).toBe(
      `${other}: is not the input that the run has read: ${bytes.length + 3} bytes, expected ${bytes.length}`,
    );
    await writeFile(other, Buffer.concat([bytes.subarray(0, -2), Buffer.from(' \n')]));
    const another = await verified(folder);
    expect([another.code, another.stdout]).toEqual([65, expect.stringMatching(/its first MiB differs$/)]);
    await rm(other);
    const clean = await verified(folder);
    expect([clean.code, clean.stdout]).toEqual([0, '']);
    expect(clean.stderr).toMatch(/cannot be compared.*other\.jsonl is gone/);
    await editRows(folder, 0, (rows) => {
      (rows[5] as Row).source_row = 2;
    });
    const { code, stdout } = await verified(folder);
    expect(code).toBe(65);
    expect(stdout).toMatch(/row 5: source_row is 2, expected 6 of/);
  });

  it.each([
    ['parquet', 60],
    ['arrow', -300],
    ['jsonl', 100],
  ])('outlives a %s file that is cut off or overwritten', async (extension, place) => {
    const file = join(work, `cut.${extension}`);
    await rredcotHere(['segment', input, '-o', file, '--no-policy', '--quiet']);
    const bytes = await readFile(file);
    const from = place < 0 ? bytes.length + place : place;
    for (const damaged of [
      bytes.subarray(0, bytes.length - 20),
      Buffer.concat([bytes.subarray(0, from), Buffer.alloc(200, 0xff), bytes.subarray(from + 200)]),
      Buffer.alloc(0),
    ]) {
      await writeFile(file, damaged);
      const { code, stdout, stderr } = await verified(file);
      expect(code, stderr).toBe(65);
      expect(stdout).toMatch(/cannot be read|is not the file that was written/);
    }
  });

  it('refuses what is none of our files', async () => {
    for (const name of [input, join(work, 'missing'), work])
      expect((await rredcotHere(['verify', name])).code).toBe(2);
  });
});

describe('a row', () => {
  const segment = {
    start: 0,
    end: 3,
    char_start: 0,
    char_end: 5,
    kind: 'thought',
    entropy: 1,
    value: 0.5,
    delta: 0.1,
    sigma: 0.8,
  };
  const answer = {
    ...segment,
    start: 3,
    end: 4,
    char_start: 5,
    char_end: 9,
    kind: 'answer',
    value: null,
    sigma: 0.2,
  };
  const sound: Row = {
    id: 'a',
    source_row: 1n,
    status: 'ok',
    completion_ids: [5, 6, 7, 8],
    logprobs: [-1, -1, -1, -1],
    entropies: [1, 1, 1, 1],
    sigma: [0.5, 0.5, -0.2, 0.2],
    segments: [segment, answer],
    value_start: 0.4,
    reward: 1,
    reference_logprobs: [[-1], [-2]],
    reference_utilities: [1],
  };
  const faults = (change: Row) => {
    const row = { ...sound, ...change };
    return checkRow({ number: 0, has: (name) => name in row, cell: (name) => row[name] ?? null }).faults.join(
      '\n',
    );
  };

  it('that is sound has no faults', () => {
    expect(faults({})).toBe('');
    expect(
      faults({
        status: 'segments:by-length',
        completion_ids: [1n],
        sigma: null,
        segments: [{ ...segment, start: null, end: null }],
      }),
    ).toBe('');
    // ids of an input whose integers have 64 bits, where --columns leaves out ours
    expect(faults({ completion_ids: BigInt64Array.of(1n, 2n, 3n, 4n) })).toBe('');
    // log v̂ where no reference counts
    expect(faults({ value_start: Number.NEGATIVE_INFINITY, reference_utilities: [0] })).toBe('');
    expect(
      faults({
        segments: [
          { ...segment, char_start: null, char_end: null },
          { ...answer, char_start: null, char_end: null },
        ],
      }),
    ).toBe('');
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
    [
      { segments: [segment, { ...answer, start: 2 }] },
      /segments\[1\] is tokens 2–4, expected them from 3 on/,
    ],
    [{ segments: [{ ...segment, end: 0 }, answer] }, /segments\[0\] is tokens 0–0/],
    [
      { segments: [segment, { ...answer, char_start: 4 }] },
      /segments\[1\] is characters 4–9, expected them from 5 on/,
    ],
    [
      { segments: [segment, { ...answer, sigma: 0.3 }] },
      /segments\[1\]\.sigma is 0\.3, which is not the sum/,
    ],
    [{ segments: [{ ...segment, value: Number.NaN }, answer] }, /segments\[0\]\.value is NaN/],
    [{ reference_logprobs: [[-1]] }, /reference_logprobs has 1 exits, expected 2/],
    [
      { reference_logprobs: [[-1], [-1, -1]] },
      /reference_logprobs\[1\] has 2 entries, reference_utilities 1/,
    ],
    [{ reference_logprobs: [[-1], [Number.NaN]] }, /reference_logprobs\[1\]\[0\] is NaN/],
  ])('with %j is found out', (change, expected) => expect(faults(change)).toMatch(expected));
});

describe('status', () => {
  it('tells what is there and what is missing, for people and for programs', async () => {
    const folder = join(work, 'state');
    await cp(scored, folder, { recursive: true });
    const whole = await rredcotHere(['status', folder]);
    expect(whole.code).toBe(0);
    expect(whole.stdout).toMatch(/score to jsonl, .*4 rows a chunk/);
    expect(whole.stdout).toMatch(
      /00000-of-00001 +6\/6 +24 +22 +2 +[\d,]+ +done\n(?:mean log p|σ uniform)(?:.*\n){3}finished \(_SUCCESS\)/,
    );
    await rm(join(folder, `chunks/${SHARD}/000003.jsonl`));
    expect((await rredcotHere(['status', folder])).stdout).toMatch(
      /missing in 00000-of-00001: 3\nnot finished/,
    );

    const shards = join(work, 'parts');
    for (const shard of ['0/4', '2/4'])
      await run('segment', `${shards}/`, '--no-policy', '--format', 'parquet', '--shard', shard);
    await rm(join(shards, 'done/00002-of-00004.json'));
    const { stdout } = await rredcotHere(['status', shards, '--json']);
    expect(JSON.parse(stdout)).toMatchObject({
      finished: false,
      success: false,
      input_rows: 24,
      rows: 12,
      chunks: 3,
      chunks_expected: 6,
      shards: [
        { shard: 0, done: true, missing: [], rows: 8 },
        { shard: 1, done: false, missing: [1, 5], rows: 0, updated: null },
        { shard: 2, done: false, missing: [], rows: 4 },
        { shard: 3, done: false, missing: [3] },
      ],
    });
    const table = (await rredcotHere(['status', shards])).stdout;
    expect(table).toMatch(/^all +3\/6 +12/m);
    expect(table).toMatch(/not finished: 3 of 4 shards/);
  });

  it('finds the hidden folder of a file that is being made', async () => {
    await cp(scored, join(work, '.made.jsonl.0123456789abcdef'), { recursive: true });
    expect((await rredcotHere(['status', join(work, 'made.jsonl')])).stdout).toMatch(/6\/6/);
    expect((await rredcotHere(['status', input])).stdout).toMatch(/no run is under way/);
    await mkdir(join(work, 'nothing'));
    expect((await rredcotHere(['status', join(work, 'nothing')])).code).toBe(2);
  });

  it('writes chunk numbers as ranges', () => {
    expect(ranges([0, 1, 2, 5, 7, 8])).toBe('0–2, 5, 7–8');
    expect(ranges(Array.from({ length: 20 }, (_, i) => 2 * i))).toMatch(/14, … \(20 chunks\)$/);
  });
});
