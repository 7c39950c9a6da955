// `verify` finds every edited value, whoever has made the hashes fit again, and every flipped bit, cut and missing line.
import { cp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { writeSurveyFile } from '../../dist/run/summary-file.js';
import { seeded } from '../oracle/toy.js';
import { editJson, editRows, SHARD } from '../support/edited-run.js';
import { writeFixtures } from '../support/program.js';
import { openScene } from '../support/scene.js';

type Row = Record<string, unknown>;
type Segment = Record<string, unknown>;
interface Scored extends Row {
  id: string;
  prompt_ids: number[];
  completion_ids: number[];
  logprobs: (number | null)[];
  entropies: number[];
  sigma: number[];
  segments: Segment[];
  value_start: number;
  reference_logprobs: number[][];
  reference_utilities: number[];
  reward: number;
  baseline: number;
  source_row: number;
  sigma_ess: number;
  sigma_max_weight: number;
}

const FILES = ['one.parquet', 'one.arrow', 'one.jsonl', 'one.jsonl.gz'];
const { at, done, fails, run, text, write } = await openScene();

/** 16 rows of two groups, in chunks of 8; and files */
beforeAll(async () => {
  await writeFixtures(at('traces.jsonl'), 16);
  const score = 'score traces.jsonl --max-segments 5 --quiet';
  await done(`${score} -o run/ --format jsonl --rows-per-chunk 8`);
  await done(`${score} -o one.parquet`);
  for (const name of FILES.slice(1)) await done(`segment traces.jsonl --no-policy --quiet -o ${name}`);
});

let copies = 0;
/** The name of a copy of the run. */
async function copy(): Promise<string> {
  const name = `copy-${copies++}`;
  await cp(at('run'), at(name), { recursive: true });
  return name;
}

const add = (list: number[], at: number, by: number) => {
  list[at] = Math.fround((list[at] as number) + by);
};
const addTo = (segment: Segment | undefined, name: string, by: number) =>
  Object.assign(segment ?? {}, { [name]: Math.fround(((segment?.[name] as number) ?? 0) + by) });

/** Each is done to the second row of a chunk, whose inputs are gone. */
const EDITS: readonly (readonly [string, (row: Scored, rows: Scored[]) => unknown])[] = [
  ['the id of another row', (row, rows) => Object.assign(row, { id: rows[0]?.id })],
  ['no id', (row) => Object.assign(row, { id: null })],
  ['no group', (row) => Object.assign(row, { group: null })],
  ['no prompt_ids', (row) => Object.assign(row, { prompt_ids: null })],
  ['a negative prompt id', (row) => row.prompt_ids.splice(0, 1, -1)],
  ['a prompt id outside the vocabulary', (row) => row.prompt_ids.splice(0, 1, 100_000)],
  ['a completion id less', (row) => row.completion_ids.pop()],
  ['a completion id more', (row) => row.completion_ids.push(3)],
  ['a completion id outside the vocabulary', (row) => row.completion_ids.splice(0, 1, 100_000)],
  ['no completion_ids', (row) => Object.assign(row, { completion_ids: null })],
  ['a log p less', (row) => row.logprobs.pop()],
  ['a log p above 0', (row) => row.logprobs.splice(2, 1, 0.5)],
  ['a log p that is null', (row) => row.logprobs.splice(1, 1, null)],
  ['no logprobs', (row) => Object.assign(row, { logprobs: null })],
  ['another entropy', (row) => add(row.entropies, 0, 0.01)],
  ['an entropy below 0', (row) => row.entropies.splice(0, 1, -0.5)],
  ['an entropy above ln V', (row) => row.entropies.splice(0, 1, 9)],
  ['no entropies', (row) => Object.assign(row, { entropies: null })],
  ['another σ', (row) => add(row.sigma, 0, 1e-4)],
  ['σ moved within a segment', (row) => [add(row.sigma, 0, 1e-3), add(row.sigma, 1, -1e-3)]],
  ['σ in another order', (row) => row.sigma.reverse()],
  ['no sigma', (row) => Object.assign(row, { sigma: null })],
  ["another entropy of a segment's", (row) => addTo(row.segments[0], 'entropy', 1e-3)],
  ['no entropy of a segment', (row) => Object.assign(row.segments[0] ?? {}, { entropy: null })],
  ['another value', (row) => addTo(row.segments[0], 'value', 0.01)],
  ['another last value', (row) => addTo(row.segments.at(-2), 'value', 1e-3)],
  ['no value', (row) => Object.assign(row.segments[0] ?? {}, { value: null })],
  ['a value after the answer', (row) => Object.assign(row.segments.at(-1) ?? {}, { value: 0.5 })],
  ['another delta', (row) => addTo(row.segments[1], 'delta', 1e-4)],
  ['a delta of the answer', (row) => addTo(row.segments.at(-1), 'delta', 0.1)],
  ['no delta', (row) => Object.assign(row.segments[0] ?? {}, { delta: null })],
  ["another σ of a segment's", (row) => addTo(row.segments[0], 'sigma', 0.01)],
  ['an end moved', (row) => addTo(row.segments[0], 'end', 1)],
  ['a border moved', (row) => [addTo(row.segments[0], 'end', 1), addTo(row.segments[1], 'start', 1)]],
  ['a start moved', (row) => addTo(row.segments[1], 'start', -1)],
  ['an answer in front', (row) => Object.assign(row.segments[0] ?? {}, { kind: 'answer' })],
  ['an answer that is a thought', (row) => Object.assign(row.segments.at(-1) ?? {}, { kind: 'thought' })],
  ['another kind', (row) => Object.assign(row.segments[0] ?? {}, { kind: 'x' })],
  ['a gap between characters', (row) => addTo(row.segments[0], 'char_end', 1)],
  ['characters beyond the text', (row) => addTo(row.segments.at(-1), 'char_end', 1000)],
  [
    'one segment without characters',
    (row) => Object.assign(row.segments.at(-1) ?? {}, { char_start: null, char_end: null }),
  ],
  ['a segment less', (row) => row.segments.pop()],
  ['a segment twice', (row) => row.segments.push({ ...row.segments.at(-1) })],
  ['no segments', (row) => Object.assign(row, { segments: [] })],
  ['another value_start', (row) => add(row as unknown as number[], 'value_start' as unknown as number, 0.05)],
  ['no value_start', (row) => Object.assign(row, { value_start: null })],
  ['another log p of a reference', (row) => add(row.reference_logprobs[1] as number[], 0, -0.3)],
  ['a log p of a reference above 0', (row) => row.reference_logprobs[0]?.splice(0, 1, 0.2)],
  ['an exit less', (row) => row.reference_logprobs.pop()],
  ['a reference more at one exit', (row) => row.reference_logprobs[0]?.push(-1)],
  ['no reference_logprobs', (row) => Object.assign(row, { reference_logprobs: null })],
  ['another reward', (row) => Object.assign(row, { reward: 1 - row.reward })],
  ['a reward above 1', (row) => Object.assign(row, { reward: 2 })],
  ['no reward', (row) => Object.assign(row, { reward: null })],
  ['another baseline', (row) => Object.assign(row, { baseline: Math.fround(row.baseline + 0.01) })],
  ['no baseline', (row) => Object.assign(row, { baseline: null })],
  ['another utility', (row) => Object.assign(row, { reference_utilities: [0.5] })],
  ['a utility above 1', (row) => Object.assign(row, { reference_utilities: [2] })],
  ['no utilities', (row) => Object.assign(row, { reference_utilities: null })],
  ['the source row of another', (row) => Object.assign(row, { source_row: row.source_row - 1 })],
  ['a later source row', (row) => Object.assign(row, { source_row: row.source_row + 1 })],
  ['no source row', (row) => Object.assign(row, { source_row: null })],
  ['no source file', (row) => Object.assign(row, { source_file: null })],
  [
    'another effective number',
    (row) => Object.assign(row, { sigma_ess: Math.fround(row.sigma_ess * 1.001) }),
  ],
  [
    'another largest weight',
    (row) => Object.assign(row, { sigma_max_weight: Math.fround(row.sigma_max_weight * 1.001) }),
  ],
  ['no effective number', (row) => Object.assign(row, { sigma_ess: null })],
  ['a status of its own', (row) => Object.assign(row, { status: 'okay' })],
  ['a reason where σ is not uniform', (row) => Object.assign(row, { status: 'uniform:no-gain' })],
  ['ok beside a code', (row) => Object.assign(row, { status: 'ok;truncated' })],
  ['an unknown reward that is known', (row) => Object.assign(row, { status: 'reward:unknown' })],
  ['no status', (row) => Object.assign(row, { status: '' })],
  ...['sigma', 'logprobs', 'reference_logprobs', 'source_file', 'source_row', 'status', 'baseline'].map(
    (name) => [`${name} left out`, (row: Scored) => Reflect.deleteProperty(row, name)] as const,
  ),
  ['rows in another order', (_, rows) => rows.reverse()],
  ['a row twice', (row, rows) => rows.splice(2, 1, { ...row })],
];

describe('of a run whose inputs are gone', () => {
  beforeAll(() => rm(at('traces.jsonl')));

  it('finds nothing where nothing was edited', async () => {
    for (const name of [await copy(), ...FILES]) expect((await done(`verify ${name}`)).stdout).toBe('');
  });

  it(`each of ${EDITS.length} edits is found`, async () => {
    const missed: string[] = [];
    for (const [name, edit] of EDITS) {
      const folder = await copy();
      await editRows<Scored>(at(folder), 0, (rows) => edit(rows[1] as Scored, rows));
      const { code, stdout } = await run(`verify ${folder}`);
      if (code !== 65 || !stdout.includes('000000.jsonl')) missed.push(`${name}: ${code} ${stdout}`);
      await rm(at(folder), { recursive: true });
    }
    expect(missed).toEqual([]);
  });

  it.each<[string, (folder: string) => Promise<unknown>, RegExp]>([
    ['no _SUCCESS', (folder) => rm(join(folder, '_SUCCESS')), /_SUCCESS: is missing/],
    [
      "another run's _SUCCESS",
      (folder) =>
        editJson(join(folder, '_SUCCESS'), (value) => Object.assign(value, { run: 'a'.repeat(64) })),
      /_SUCCESS: is not that of the run/,
    ],
    [
      'an edited survey',
      (folder) => editJson(join(folder, 'survey.json'), (value) => Object.assign(value, { traces: 1 })),
      /survey\.json: was changed since it was written/,
    ],
    [
      "another run's survey",
      (folder) => writeSurveyFile(join(folder, 'survey.json'), 'a'.repeat(64), { rows: 1 }),
      /survey\.json: is of another run/,
    ],
    ['no card', (folder) => rm(join(folder, 'README.md')), /README\.md: is missing/],
    [
      'another card',
      (folder) => writeFile(join(folder, 'README.md'), '# mine'),
      /README\.md: is not the card/,
    ],
    [
      "another run's record",
      (folder) =>
        editJson(join(folder, `done/${SHARD}/000001.json`), (value) =>
          Object.assign(value, { run: 'a'.repeat(64) }),
        ),
      /000001\.json: is of another run/,
    ],
  ])('%s is found', async (_, edit, expected) => {
    const folder = await copy();
    await edit(at(folder));
    await fails(`verify ${folder}`, 65, expected);
  });

  it.each<[string, (description: Row) => unknown, number]>([
    ['another flag', (run) => Object.assign(run.config as Row, { maxSegments: 6 }), 65],
    ['another policy', (run) => Object.assign(run.policy as Row, { 'policy.onnx': 'a'.repeat(64) }), 65],
    ['another vocabulary', (run) => Object.assign(run, { vocab: 1e9 }), 65],
    ['another identity', (run) => Object.assign(run, { run: 'a'.repeat(64) }), 65],
    ['a hundred million shards', (run) => Object.assign(run, { shards: 1e8 }), 2],
    ['no shards', (run) => Object.assign(run, { shards: 0 }), 2],
    ['rows a chunk that no number holds', (run) => Object.assign(run, { rows_per_chunk: 1e300 }), 2],
    ['no inputs', (run) => Object.assign(run, { inputs: [] }), 2],
    ['an input of a negative size', (run) => Object.assign((run.inputs as Row[])[0] ?? {}, { bytes: -1 }), 2],
  ])('a run.json with %s is refused at once', async (_, edit, exitCode) => {
    const folder = await copy();
    await editJson(at(`${folder}/run.json`), edit);
    await fails(`verify ${folder}`, exitCode, `${folder}/run.json`);
  });
});

/** Of each of four formats; `npm run torture` flips more. */
const FLIPS = process.env.RREDCOT_TORTURE === undefined ? 8 : 60;

describe.each(FILES)('%s', (name) => {
  it('with any bit flipped is found out, and so is one that was cut', async () => {
    const bytes = await readFile(at(name));
    if (name.includes('jsonl')) await write(`damaged-${name}.sha256`, await text(`${name}.sha256`));
    const random = seeded(7);
    const damaged = Array.from({ length: FLIPS }, () => {
      const flipped = Buffer.from(bytes);
      const bit = Math.floor(random() * bytes.length * 8);
      flipped[bit >> 3] = (flipped[bit >> 3] as number) ^ (1 << (bit & 7));
      return [`bit ${bit}`, flipped] as const;
    });
    const lastLine = bytes.lastIndexOf('\n', bytes.length - 2) + 1;
    const cuts = [0, 1, lastLine, bytes.length >> 1, bytes.length - 1];
    const missed: string[] = [];
    for (const [what, each] of [
      ...damaged,
      ...cuts.map((to) => [`cut at ${to}`, bytes.subarray(0, to)] as const),
    ]) {
      await write(`damaged-${name}`, each);
      const { code } = await run(`verify damaged-${name}`);
      if (code !== 65) missed.push(`${what}: ${code}`);
    }
    expect(missed).toEqual([]);
  });
});
