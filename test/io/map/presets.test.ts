// Presets: each against rows made from the documented fields, and the real dumps whole where they are at hand.
import { existsSync } from 'node:fs';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { fieldSources, parseFieldMap, withSources } from '../../../dist/io/map/fields.js';
import { JOINS } from '../../../dist/io/map/join.js';
import { mapRow } from '../../../dist/io/map/map.js';
import {
  choosePreset,
  type MappingOptions,
  PRESET_NAMES,
  PRESETS,
  resolveMapping,
} from '../../../dist/io/map/mapping.js';
import { resolveInputs } from '../../../dist/io/read/inputs.js';
import type { BadRow, InputRow } from '../../../dist/rows.js';
import type { Trace } from '../../../dist/trace.js';
import { rredcotHere } from '../../support/in-process.js';
import { collect, inputRow } from '../../support/io-helpers.js';
import { ROOT, readJsonl, SHARED_DATA, temporaryFolder } from '../../support/program.js';
import { jsonLines } from '../../support/scene.js';

const FIXTURES = join(ROOT, 'test/io/map/dumps');
const NONE = { prompt: false, references: false };
const AUTO: MappingOptions = { map: undefined, preset: 'auto' };

/** A trace as the fixtures spell it: ids and values as lists, without its source; a reject as its code. */
function plain(trace: Trace | BadRow): unknown {
  if ('kind' in trace) return { rejected: trace.rejection.code, id: trace.id };
  const { source: _, ...fields } = trace;
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [name, ArrayBuffer.isView(value) ? listed(value) : value]),
  );
}

/** Numbers by the decimals that were meant: values are float32. */
const listed = (view: ArrayBufferView) =>
  Array.from(view as Int32Array | Float32Array, (x) => Number(x.toPrecision(7)));

async function mapFile(path: string, opts: Partial<MappingOptions> = {}) {
  const { map, choice, join, read } = await resolveMapping(await resolveInputs([path]), { ...AUTO, ...opts });
  const rows = await collect(read({}));
  const traces = rows.flatMap((row) => (row.kind === 'bad' ? [row] : [...mapRow(row, map, NONE)]));
  return { rows, traces, choice, join };
}

/** A row by itself, as a preset has it: files hold several variants of one. */
function mapAlone(row: InputRow, preset = 'auto', map?: string) {
  const choice = choosePreset(preset, row.columns);
  const fields = withSources(parseFieldMap(map), choice ? [fieldSources(choice.preset.fields())] : []);
  return { name: choice?.preset.name, traces: [...mapRow(row, fields, NONE)] };
}

/** Files of JSON lines in a folder of their own. */
async function files(...contents: readonly (readonly object[])[]): Promise<string[]> {
  const folder = await temporaryFolder();
  const paths = contents.map((_, n) => join(folder, `${n}.jsonl`));
  for (const [n, rows] of contents.entries()) await writeFile(paths[n] as string, jsonLines(rows));
  return paths;
}

describe('every preset', () => {
  it.each(PRESET_NAMES)('%s', async (name) => {
    const path = join(FIXTURES, `${name}.jsonl`);
    const { rows } = await mapFile(path);
    const found = (rows as InputRow[]).map((row) => mapAlone(row));
    expect(found.map((each) => each.name)).toEqual(rows.map(() => name));
    const expected = JSON.parse(await readFile(join(FIXTURES, `${name}.json`), 'utf8'));
    expect(found.flatMap(({ traces }) => traces.map(plain))).toEqual(expected);
  });

  it.each(JOINS.map(({ name }) => name))('joined with %s', async (name) => {
    const path = join(FIXTURES, `${name}.jsonl`);
    const found = await mapFile(path, { join: join(FIXTURES, `${name}.join.jsonl`) });
    expect(found.join?.name).toBe(name);
    const expected = JSON.parse(await readFile(join(FIXTURES, `${name}.json`), 'utf8'));
    expect(found.traces.map(plain)).toEqual(expected);
  });

  it('has a fixture, a variant for each of its rows, and a line in docs/presets.md', async () => {
    const docs = await readFile(join(ROOT, 'docs/presets.md'), 'utf8');
    const names = [...PRESET_NAMES, ...JOINS.map(({ name }) => name)];
    const fixtures = (await readdir(FIXTURES)).filter((name) => /^[^.]+\.json$/.test(name));
    expect(fixtures.sort()).toEqual(names.map((name) => `${name}.json`).sort());
    for (const name of names) expect(docs).toContain(`| \`${name}\``);
    for (const { name } of PRESETS) {
      const rows = await readJsonl<Record<string, unknown>>(join(FIXTURES, `${name}.jsonl`));
      const variants = new Set(rows.map((columns) => choosePreset('auto', columns)?.preset));
      expect(variants.size, name).toBe(PRESETS.filter((each) => each.name === name).length);
    }
  });
});

describe('--preset', () => {
  const row = { problem: 'p', generations: ['a', 'b'], correctness_math_verify: [true, false], answer: '1' };
  const traces = (columns: Record<string, unknown>, preset: string, map?: string) =>
    mapAlone(inputRow(columns), preset, map).traces.map(plain);

  it('auto finds none for rows that no preset knows, and fields are taken by their names', () => {
    expect(choosePreset('auto', { text: 'x', completion: 'y' })).toBeUndefined();
    expect(choosePreset('auto', undefined)).toBeUndefined();
    expect(choosePreset('none', row)).toBeUndefined();
    const why = 'the first row has problem, answer, generations, correctness_math_verify';
    expect(choosePreset('auto', row)?.why).toBe(why);
  });

  it('refuses a name that it does not know, and says where prompts and answers go', () => {
    expect(() => choosePreset('open-rs', row)).toThrowError(
      expect.objectContaining({ exitCode: 2, hint: expect.stringContaining('--join') }),
    );
  });

  it('says what a named one misses in the first row', () => {
    expect(choosePreset('openr1', row)?.why).toBe('--preset');
    const { generations: _, answer: __, ...rest } = row;
    const why = '--preset, though the first row has no answer, generations';
    expect(choosePreset('openr1', rest)?.why).toBe(why);
  });

  it('is overridden field by field', () => {
    expect(traces(row, 'auto', 'reward=none|correctness_count')).toMatchObject([{ rejected: 'map' }]);
    expect(traces({ ...row, mine: [3, 4] }, 'auto', 'reward=mine[]')).toMatchObject([
      { completion: 'a', reward: 3 },
      { completion: 'b', reward: 4 },
    ]);
  });

  it('leaves its lists and segment ends out where --map names another completion', () => {
    expect(traces({ ...row, best: 'z' }, 'auto', 'completion=best')).toMatchObject([
      { id: 'traces:0', completion: 'z', reward: null },
    ]);
    const steps = { problem: 'p', steps: ['a', 'b'], final_answer_correct: true, label: -1, text: 'z' };
    const [own] = traces(steps, 'auto', 'completion=text');
    expect(own).not.toHaveProperty('segmentCharEnds');
    expect(traces(steps, 'auto')[0]).toMatchObject({ segmentCharEnds: [3, 4] });
  });

  it.each([
    ['nemo-rl', { token_ids: [1, 2, 3], token_loss_mask: [0, 1] }, 'lists of one length'],
    ['nemo-rl', { token_ids: [1], token_loss_mask: [0] }, 'no token was sampled'],
    ['chat', { messages: [{ role: 'user', content: 'q' }] }, "expected the assistant's"],
    [
      'chat',
      { prompt: [{ role: 'user', content: 'q' }], completion: [{ role: 'tool', content: 'x' }] },
      'message',
    ],
    ['processbench', { problem: 'p', steps: ['a', 3], final_answer_correct: true, label: 0 }, 'steps[1]'],
    ['prm800k', { question: { problem: 'p' }, label: { steps: [{}] }, labeler: 'l' }, 'label.steps[0]'],
    ['math-shepherd', { input: 'no steps ки', label: '', task: '' }, 'Step 1:'],
    ['openthoughts', { conversations: [{ from: 'human', value: 'q' }] }, 'of the model'],
    [
      'thought-anchors',
      { problem: {}, base_solution: { solution: 'ab' }, chunks: [{ chunk: 'b' }, { chunk: 'a' }] },
      'chunks[1] is not in base_solution.solution',
    ],
  ])('%s turns down a row that is not one of its own: %j', (preset, columns, reason) => {
    const [only, ...others] = mapAlone(inputRow(columns), preset).traces;
    expect(others).toEqual([]);
    expect(only).toMatchObject({
      kind: 'bad',
      rejection: { code: 'map', reason: expect.stringContaining(reason) },
    });
  });
});

describe('--join', () => {
  it('finds the question in a prompt, the longest one that it ends with, and never guesses', async () => {
    const tail = ' Put it in a box.';
    const problems = [`one?${tail}`, `and one?${tail}`, 'x', 'twice'];
    const long = `and one?${tail}${'.'.repeat(600)}`;
    const prompts = [...problems, `chat: and one?${tail}\nassistant\n`, long, 'two?', 'What about x'];
    const [rows = '', joined = ''] = await files(
      prompts.map((prompt) => ({ prompt, completion: 'c' })),
      [...problems, 'twice'].map((problem, n) => ({ problem, solution: '', answer: n })),
    );
    const { traces } = await mapFile(rows, { join: joined });
    const noRow = (reason: string) => ({ code: 'join', reason: expect.stringContaining(reason) });
    const found = traces.map((each) => ('kind' in each ? each.rejection : each.references[0]?.answer));
    const others = [noRow('no row of'), noRow('"two?"'), { code: 'join' }];
    expect(found).toMatchObject(['0', '1', '2', noRow('differ'), '1', ...others]);
  });

  it('goes by fields with --join-on, and --map reaches the joined row', async () => {
    const [rows = '', joined = ''] = await files(
      [
        { k: { n: 1 }, prompt: 'p', completion: 'c' },
        { k: { n: 3 }, prompt: 'p', completion: 'c' },
      ],
      [
        { index: 1, gold: ['a'], note: 'n' },
        { index: 2, gold: ['b'], note: 'n' },
      ],
    );
    const opts = { join: joined, joinOn: 'k.n=index', map: 'reference=join.gold' };
    const { traces } = await mapFile(rows, opts);
    expect(traces.map(plain)).toMatchObject([{ references: [{ answer: 'a' }] }, { rejected: 'join' }]);
    // what passes through is the row, not its partner
    expect((traces[0] as Trace).source.columns).not.toHaveProperty('join');
    await expect(mapFile(rows, { join: joined })).rejects.toThrow(/none of|is not a data set/);
    await expect(mapFile(rows, { joinOn: 'a=b' })).rejects.toThrow('--join-on has no meaning');
    await expect(mapFile(rows, { ...opts, joinOn: 'a=b=c' })).rejects.toThrow('not field=field');
    await expect(mapFile(rows, { ...opts, map: undefined })).rejects.toThrow('none of its columns is used');
    await expect(mapFile(rows, { ...opts, joinOn: 'k.n=nowhere' })).rejects.toThrow(/1\.jsonl:0: no key/);
  });

  it('tells by a hash what was joined', async () => {
    const row = { prompt: 'q', completion: 'c' };
    const answers = ['1', '1', '2'].map((answer) => ({ problem: 'q', solution: '', answer }));
    const hashes = await Promise.all(
      answers.map(async (answer) => {
        const [rows = '', joined = ''] = await files([row], [answer]);
        const { config } = await resolveMapping(await resolveInputs([rows]), { ...AUTO, join: joined });
        return JSON.stringify(config);
      }),
    );
    expect(hashes[0]).toBe(hashes[1]);
    expect(hashes[0]).not.toBe(hashes[2]);
  });
});

type Segmented = { segments: { char_end: number }[]; mistake_index: number | null };

describe('the program', () => {
  it('says which preset it found, on stdin too, and loses no row to it', async () => {
    const path = join(FIXTURES, 'bigbench-mistake.jsonl');
    const args = ['segment', '--no-policy', '--segmenter', 'given', '-o', '-', '--format', 'jsonl'];
    const file = await rredcotHere([...args, path]);
    const stdin = await rredcotHere([...args, '-'], {
      stdin: `not JSON\n${await readFile(path, 'utf8')}`,
      cwd: await temporaryFolder(),
    });
    for (const run of [file, stdin]) {
      expect(run.code, run.stderr).toBe(0);
      expect(run.stderr).toContain('preset bigbench-mistake (the first row has input, steps, target,');
      const rows = JSON.parse(`[${run.stdout.trim().replaceAll('\n', ',')}]`) as Segmented[];
      for (const { segments } of rows) expect(segments.map((each) => each.char_end)).toEqual([7, 25]);
      expect(rows.map(({ mistake_index }) => mistake_index)).toEqual([0, null]);
    }
  });

  it('writes the preset into the metadata, where a resumed run looks for it', async () => {
    const folder = await temporaryFolder();
    const args = ['segment', join(FIXTURES, 'processbench.jsonl'), '--no-policy', '-o', `${folder}/out/`];
    const first = await rredcotHere(args);
    expect(first.code, first.stderr).toBe(0);
    const other = await rredcotHere([...args, '--preset', 'none', '--map', 'completion=problem']);
    expect(other.code).toBe(2);
    expect(other.stderr).toMatch(/preset|map/);
  });
});

it('inspect: shows preset, trace and what is missing, with control characters made visible', async () => {
  const problem = `p\u001b[31m${' and so on'.repeat(100)} to the end`;
  const row = { problem, steps: ['a', 'b'], final_answer_correct: true, label: -1 };
  const [path = '', nothing = ''] = await files([row, { ...row, id: 'second' }], []);
  const run = await rredcotHere(['inspect', path]);
  // score would turn it down
  expect(run.code, run.stderr).toBe(65);
  expect(run.stdout).toContain('preset      processbench: Qwen/ProcessBench\n');
  expect(run.stdout).toMatch(/ p\\u\{1b\}\[31m and so on.* … \d+ characters … .* to the end\n/);
  expect(run.stdout).not.toContain('\u001b');
  expect(run.stdout).toMatch(/completion {2}4 characters, from steps, joined by .*\n +a⏎⏎b\n/);
  expect(run.stdout).toContain('2 given ends, from the ends of steps (--segmenter given)');
  expect(run.stdout).toMatch(/missing {5}references: .*--map reference=<path>, or --join <file>/);
  expect(run.stdout).toMatch(/rejected {4}no_reference: /);

  const inspect = (line: string) => rredcotHere(['inspect', path, ...line.split(' ')]);
  const second = await inspect('--row second --json --map reference=label');
  expect(second.code, second.stderr).toBe(0);
  expect(JSON.parse(second.stdout)).toMatchObject({
    row: 1,
    preset: { name: 'processbench' },
    fields: { prompt: 'problem', reference: 'label' },
    trace: { id: 'second', segmentCharEnds: [3, 4], references: [{ answer: '-1' }], reward: 1 },
    rejected: null,
    missing: [{ field: 'group' }],
  });
  const empty = await rredcotHere(['inspect', nothing]);
  expect(empty.code).toBe(65);
  expect(empty.stderr).toContain('there are no rows in the input');
  const none = await inspect('--row 2');
  expect(none.code).toBe(2);
  expect(none.stderr).toContain('--row 2: no such row or id in 2 rows');
});

/** Rows, traces a row, right traces, and whether segments are given. */
const REAL = [
  ['gsm8k_model_solutions', 'gsm8k-solutions', 700, 4, 153 + 280 + 241 + 398, false],
  ['bigbench_mistake_multistep_arithmetic', 'bigbench-mistake', 300, 1, 45, true],
  ['thought_anchors_r1distill_llama8b', 'thought-anchors', 20, 1, 10, true],
] as const;

describe.skipIf(!existsSync(SHARED_DATA))('real dumps, whole (need ../shared/data)', () => {
  it.each(REAL)('%s is %s', async (file, preset, rows, perRow, right, hasEnds) => {
    const found = await mapFile(join(SHARED_DATA, `${file}.jsonl`));
    expect([found.choice?.preset.name, found.rows.length]).toEqual([preset, rows]);
    const traces = found.traces as Trace[];
    expect(traces.length).toBe(rows * perRow);
    for (const { references, segmentCharEnds: ends, source } of traces) {
      expect(references.length).toBe(1);
      const { steps, chunks } = source.columns as { steps?: unknown[]; chunks?: unknown[] };
      expect(ends?.length).toBe(hasEnds ? (steps ?? chunks)?.length : undefined);
    }
    // the sets' own figures (shared/data/README.md)
    expect(traces.filter(({ reward }) => reward === 1).length).toBe(right);
  });
});
