// Makes the benchmark's sets: samples of the policies on problems of their own, the bifurcation task, and sets of published chains.
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  Bool,
  Field,
  Float32,
  Float64,
  Int32,
  List,
  Table,
  tableToIPC,
  Utf8,
  vectorFromArray,
} from 'apache-arrow';
import { Compression, Table as Encoded, WriterPropertiesBuilder, writeParquet } from 'parquet-wasm/node';
import { firstMistake } from '../fidelity/known-lines.mjs';
import { buildFolder } from '../fidelity/prepare.mjs';
import { ROOT, readLines, rowsOf, rredcot, writeLines } from '../fidelity/program.mjs';
import { compactSamples } from '../fidelity/samples.mjs';
import { pythonWithTorch } from '../python.mjs';
import { bifurcationRows } from './bifurcation.mjs';

export const WORK = join(ROOT, '.benchmark');
/** Completions of an exit in either half. */
export const HALF = 32;

const listOf = (type) => new List(new Field('item', type, true));
const typed = (type, names) => Object.fromEntries(names.split(' ').map((name) => [name, type]));
const TYPES = {
  ...typed(new Utf8(), 'set half id group prompt completion answer'),
  ...typed(new Int32(), 'reward first_wrong completions_a_half'),
  ...typed(
    listOf(new Int32()),
    'prompt_ids completion_ids segment_ends segment_char_ends wins_first wins_second',
  ),
  ...typed(listOf(new Float32()), 'logprobs entropies'),
  ...{ values: listOf(new Float64()), exact: new Bool() },
};

/** Writes a set as Parquet, its columns in the order of the first row. @param name with its version */
export function writeSet(path, name, rows) {
  const all = rows.map((row) => ({ set: name, ...row }));
  const columns = Object.keys(all[0]).map((key) => [
    key,
    vectorFromArray(
      all.map((row) => row[key]),
      TYPES[key],
    ),
  ]);
  const properties = new WriterPropertiesBuilder().setCompression(Compression.ZSTD).build();
  const table = Encoded.fromIPCStream(tableToIPC(new Table(Object.fromEntries(columns)), 'stream'));
  writeFileSync(path, writeParquet(table, properties));
}

/** The policies, and how their tasks are called in the recipe. */
export const TOYS = [
  { name: 'puzzles', task: 'puzzles', problems: 8, checkpoint: join(ROOT, 'models/puzzles') },
  { name: 'embedded', task: 'task', problems: 12, folder: join(ROOT, 'models/embedded') },
];
const SEED = 'bench-1';
export const inRecipe = (...args) =>
  execFileSync(pythonWithTorch() ?? 'python3', args, {
    ...{ cwd: join(ROOT, 'models/recipe'), encoding: 'utf8', maxBuffer: 2 ** 28 },
  });
export const ofLines = (text) =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
export const python = (...args) => ofLines(inRecipe(...args));
const recipe = (...args) => python('prompts.py', ...args);

/** A set's traces as `bench` prints them. */
export const linesOf = (set, half) =>
  execFileSync(process.execPath, [join(ROOT, 'bin/rredcot.js'), 'bench', set, '--half', half], {
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  });

/** Which half of a set a group is in. */
export const halfOf = (group) => (Number(group.slice(-4)) % 2 === 0 ? 'choose' : 'judge');

/** A policy's folder; built, where it is none yet. */
export function folderOf({ name, checkpoint, folder = join(WORK, name, 'policy') }) {
  mkdirSync(join(WORK, name), { recursive: true });
  if (checkpoint !== undefined) buildFolder(checkpoint, folder);
  return folder;
}

const words = (text) => text.split(' ');
const drawnOf = ({ task, problems }) => words(`--task ${task} --seed ${SEED} --problems ${problems}`);

/** Samples traces and, at the ends of their lines, completions: an hour of one core. */
export function sampleToy(toy) {
  const at = (name) => join(WORK, toy.name, name);
  const policy = ['--policy', folderOf(toy), '--quiet'];
  const named = (row) => ({ ...row, id: `bench-${row.id}`, group: `bench-${row.group}` });
  writeLines(at('prompts.jsonl'), recipe(...drawnOf(toy)).map(named));
  const traces = at('traces.jsonl');
  rredcot('sample', at('prompts.jsonl'), '-o', traces, ...words('-n 6 --seed 1 --overwrite'), ...policy);
  const how = words(`--estimator mc --mc-samples ${2 * HALF} --seed 1 --keep-samples --segmenter newline`);
  const form = words('--rows-per-part 4 --format jsonl --columns id,segments,value_start');
  rredcot('score', traces, '-o', at('mc/'), ...policy, ...how, ...form);
  writeToy(toy, rowsOf(at('mc')));
}

/** @param sampled rows of the Monte Carlo run */
export function writeToy(toy, sampled) {
  const at = (name) => join(WORK, toy.name, name);
  const own = ['--segmenter', 'newline', '--overwrite', '--quiet'];
  rredcot('score', at('traces.jsonl'), '-o', at('scored.jsonl'), '--policy', folderOf(toy), ...own);
  const ofRecipe = () => recipe(...drawnOf(toy), '--label', at('traces.jsonl'));
  const labels = toy.task === 'puzzles' ? ofRecipe().map(({ mistake }) => mistake) : null;
  const samples = new Map(Array.from(sampled, (row) => [row.id, compactSamples(row)]));
  const rows = readLines(at('scored.jsonl')).map((row, i) => {
    const { ends, utilities } = samples.get(row.id);
    const wins = (from) =>
      utilities.map((of) => of.slice(from, from + HALF).reduce((sum, own) => sum + own, 0));
    const line = labels === null ? firstMistake(row.prompt, row.completion) : labels[i];
    // some mistakes cost nothing: the answer is right in spite of them
    const isWrong = line !== null && line < ends.length - 1 && row.reward <= 0.5;
    const { id, group, prompt, prompt_ids, completion, completion_ids, answer, reward, ...of } = row;
    return {
      ...{ half: halfOf(group), id, group, prompt, prompt_ids, completion, completion_ids, answer, reward },
      ...{ segment_ends: ends.slice(1), logprobs: of.logprobs, entropies: of.entropies },
      ...{ completions_a_half: HALF, wins_first: wins(0), wins_second: wins(HALF) },
      first_wrong: isWrong ? line : null,
    };
  });
  writeSet(join(ROOT, `fixtures/bench/${toy.name}.parquet`), `${toy.name}@1`, rows);
}

const lines = (steps) => steps.map((step) => `${step}\n`);

/** A chain of ProcessBench and its like. @param from the number that labels give to the first step */
const labelled = (from) => (row) => ({
  ...{ id: row.id, group: row.id, prompt: row.problem, steps: lines(row.steps) },
  ...{ reward: row.final_answer_correct, first_wrong: row.label < 0 ? null : row.label - from },
});

/** Published chains in steps, each a segment: their prompt, steps, reward, and the first wrong one, or values. */
export const PUBLISHED = {
  'thought-anchors': ({ id, problem_idx, base_solution: base, chunks }) => ({
    ...{ id, group: `${problem_idx}`, prompt: base.prompt, steps: chunks.map(({ chunk }) => `${chunk} `) },
    // before each step; of the state after the last nobody knows
    ...{ reward: base.is_correct, values: [...chunks.map(({ accuracy }) => accuracy), null] },
  }),
  'big-bench-mistake': (row, n) => ({
    ...{ id: `${n}`, group: `${n}`, prompt: row.input, steps: lines(row.steps) },
    ...{ reward: row.answer === row.target, first_wrong: row.mistake_index },
  }),
  processbench: labelled(0),
  'gr-ben': labelled(1),
};

/** Makes a set of a published file, which stays where it is. */
export function writePublished(kind, path, output) {
  const rows = readLines(path).map((row, n) => {
    const { id, group, prompt, steps, reward, ...truth } = PUBLISHED[kind](row, n);
    const ends = steps.map((_, k) => Array.from(steps.slice(0, k + 1).join('')).length);
    const trace = { half: n % 2 === 0 ? 'choose' : 'judge', id, group, prompt, completion: steps.join('') };
    return { ...trace, reward: Number(reward), segment_char_ends: ends, ...truth };
  });
  writeSet(output, `${kind}@1`, rows);
}

export function writeBifurcation() {
  writeSet(join(ROOT, 'fixtures/bench/bifurcation.parquet'), 'bifurcation@1', bifurcationRows(24, 8));
}
