// Our columns in every format, read back by other readers; and files that appear whole or not at all.

import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as arrow from 'apache-arrow';
import { describe, expect, it } from 'vitest';
import { inferColumns, type PassThroughColumn } from '../../../dist/io/arrow/schema.js';
import { bytesFault, FACTS_KEY, parseFacts } from '../../../dist/io/files/facts.js';
import { parseFieldMap } from '../../../dist/io/map/fields.js';
import { sumCounts } from '../../../dist/io/write/facts.js';
import { namedFormat, type OutputTarget, openOutput, openRejects } from '../../../dist/io/write/output.js';
import { resolveTarget } from '../../../dist/io/write/target.js';
import { rejectRow } from '../../../dist/rows.js';
import { declared, OUR_COLUMNS } from '../../../dist/scored/columns.js';
import { resolveColumnNames } from '../../../dist/scored/layout.js';
import type { OutputRow } from '../../../dist/scored.js';
import * as io from '../../support/io-helpers.js';
import { readJsonl, temporaryFolder } from '../../support/program.js';

const QUESTION: PassThroughColumn[] = [{ name: 'question', as: 'question', type: { kind: 'string' } }];
const METADATA = { 'rredcot.version': '0.1.0', 'rredcot.config': '{"sigma":"rudder"}' };

const f32 = (...values: number[]) => Float32Array.from(values);

const r = Math.fround;
const SEGMENTS = [
  {
    ...{ start: 0, end: 2, char_start: 0, char_end: 1, kind: 'thought' as const, entropy: 1.5 },
    ...{ value: r(0.3), delta: r(0.1), noise: r(0.02), sigma: r(0.1) },
  },
  {
    ...{ start: 2, end: 3, char_start: null, char_end: null, kind: 'answer' as const, entropy: null },
    ...{ value: null, delta: null, noise: null, sigma: r(0.9) },
  },
];
/** One row with every value there, one with none. */
const FULL: OutputRow = {
  trace: { ...io.bareRow({ question: 'é?' }, 3).trace, id: 'a/1', group: 'g', item: 2 },
  promptIds: Int32Array.of(1),
  completionIds: Int32Array.of(5, 2147483647, 0),
  logprobs: f32(-0.1, -2.5, 0),
  entropies: f32(1.5, 0, 3e-20),
  sigma: f32(0.2, -0.1, 0.9),
  segments: SEGMENTS.map(({ char_start: charStart, char_end: charEnd, ...own }) => {
    return { ...own, charStart, charEnd };
  }),
  valueStart: 0.2,
  baseline: 0.5,
  referenceLogprobs: [f32(-1.5, -2.5), f32(-0.5, -0.25), f32()],
  reward: 1,
  referenceTokens: Int32Array.of(2, 1),
  referenceUtilities: f32(1, 0.5),
  sigmaEss: 1.4,
  sigmaMaxWeight: 2.7,
  sigmaGain: 1.2,
  status: ['uniform:flat', 'truncated', 'truncated'],
};
const BARE = io.bareRow({}, 4);

const FULL_EXPECTED = {
  question: 'é?',
  id: 'a/1',
  group: 'g',
  prompt: '',
  completion: 'x',
  prompt_ids: [1],
  completion_ids: [5, 2147483647, 0],
  completion_mask: [1, 1, 1],
  logprobs: [r(-0.1), -2.5, 0],
  entropies: [1.5, 0, r(3e-20)],
  sigma: [r(0.2), r(-0.1), r(0.9)],
  segments: SEGMENTS,
  value_start: r(0.2),
  baseline: 0.5,
  reference_logprobs: [[-1.5, -2.5], [-0.5, -0.25], []],
  reward: 1,
  reference_utilities: [1, 0.5],
  reference_tokens: [2, 1],
  source_file: 'traces.jsonl',
  source_row: 3n,
  source_item: 2,
  sigma_ess: r(1.4),
  sigma_max_weight: r(2.7),
  sigma_gain: r(1.2),
  status: 'truncated;uniform:flat',
};
const BARE_EXPECTED = {
  ...Object.fromEntries(Object.keys(FULL_EXPECTED).map((name) => [name, null])),
  id: 'traces:4',
  segments: [],
  source_file: 'traces.jsonl',
  source_row: 4n,
  prompt: '',
  completion: 'x',
  status: 'ok',
};
const EXPECTED = [FULL_EXPECTED, BARE_EXPECTED];

const SEGMENT =
  'STRUCT("start" INTEGER, "end" INTEGER, char_start INTEGER, char_end INTEGER, kind VARCHAR, entropy FLOAT, "value" FLOAT, delta FLOAT, noise FLOAT, sigma FLOAT)';
const TYPES: Record<string, readonly string[]> = {
  VARCHAR: ['question', 'id', 'group', 'prompt', 'completion', 'source_file', 'status'],
  FLOAT: ['value_start', 'baseline', 'reward', 'sigma_ess', 'sigma_max_weight', 'sigma_gain'],
  INTEGER: ['source_item'],
  BIGINT: ['source_row'],
  'INTEGER[]': ['prompt_ids', 'completion_ids', 'completion_mask', 'reference_tokens'],
  'FLOAT[]': ['logprobs', 'entropies', 'sigma', 'reference_utilities'],
  'FLOAT[][]': ['reference_logprobs'],
  [`${SEGMENT}[]`]: ['segments'],
};

const COUNTS = { ...sumCounts([]), traces: 2, tokens: 3, sigma: 1.5 };
const FACTS = { run: '0'.repeat(64), ...COUNTS, rejects_sha256: null };

const open = (path: string, changes: Partial<OutputTarget> = {}) =>
  openOutput({
    ...{ path, format: namedFormat(path) as OutputTarget['format'], ourColumns: declared(OUR_COLUMNS) },
    ...{ passThrough: QUESTION, metadata: METADATA, ...changes },
  });

async function write(path: string, rows: readonly OutputRow[], changes: Partial<OutputTarget> = {}) {
  const output = await open(path, changes);
  for (const row of rows) await output.write(row);
  await output.finish(FACTS);
  await output.publish();
}

/** Plain lists and objects from whatever a reader uses, float32 exact. */
function plain(value: unknown): unknown {
  if (value === undefined) return null;
  if (typeof value !== 'object' || value === null) return value;
  if (
    Symbol.iterator in value &&
    !('toJSON' in value && !Array.isArray(value) && !ArrayBuffer.isView(value))
  ) {
    return Array.from(value as Iterable<unknown>, plain);
  }
  const object = 'toJSON' in value ? (value as { toJSON(): object }).toJSON() : value;
  if (Array.isArray(object)) return object.map(plain);
  return Object.fromEntries(Object.entries(object).map(([key, item]) => [key, plain(item)]));
}

describe('our columns', () => {
  it('come back from Parquet in hyparquet and in DuckDB, with the metadata where these look', async () => {
    const path = join(await temporaryFolder(), 'out.parquet');
    await write(path, [FULL, BARE]);
    expect((await io.readWithHyparquet(path)).map(plain)).toEqual(EXPECTED);
    expect(await io.queryDuckdb(`select * from '${path}' order by source_row`)).toEqual(EXPECTED);
    const described = `describe select * from '${path}'`;
    const columns = await io.queryDuckdb(`select column_name, column_type from (${described})`);
    for (const { column_name: name, column_type: type } of columns)
      expect(TYPES[type as string], `${name}`).toContain(name);
    expect(columns.map(({ column_name }) => column_name)).toEqual(['question', ...OUR_COLUMNS]);
    expect(Object.fromEntries((await io.readMetadata(path)).keys)).toMatchObject(METADATA);
    const pairs = await io.queryDuckdb(
      `select decode(key) as key, decode(value) as value from parquet_kv_metadata('${path}')`,
    );
    expect(Object.fromEntries(pairs.map(({ key, value }) => [key, value]))).toMatchObject(METADATA);
  });

  it('come back from Arrow, file and stream', async () => {
    const folder = await temporaryFolder();
    for (const name of ['out.arrow', 'out.arrows']) {
      await write(join(folder, name), [FULL, BARE]);
      const bytes = await readFile(join(folder, name));
      expect(bytes.subarray(0, 6).toString() === 'ARROW1').toBe(name === 'out.arrow');
      const table = arrow.tableFromIPC(bytes);
      expect(table.toArray().map(plain)).toEqual(EXPECTED);
      const { [FACTS_KEY]: facts, ...others } = Object.fromEntries(table.schema.metadata);
      expect(others).toEqual(METADATA);
      expect(parseFacts(facts)).toMatchObject(FACTS);
      expect(await bytesFault(join(folder, name))).toBeNull();
      expect(table.schema.fields.every(({ nullable }) => nullable)).toBe(true);
      // the file's footer holds the batches' positions: read through it, not front to back
      expect([...arrow.RecordBatchReader.from(bytes)].map(({ numRows }) => numRows)).toEqual([2]);
    }
  });

  it('come back from JSONL, absent keys absent', async () => {
    const path = join(await temporaryFolder(), 'out.jsonl');
    await write(path, [FULL, BARE]);
    const text = await readFile(path, 'utf8');
    expect(text).toContain('"sigma":[0.2,-0.1,0.9]');
    expect(text).toContain('"entropies":[1.5,0,3e-20]');
    const [full, bare] = await readJsonl(path);
    const float32 = JSON.parse(JSON.stringify(full), (_, value) =>
      typeof value === 'number' && !Number.isInteger(value) ? r(value) : value,
    );
    expect(float32).toEqual({ ...FULL_EXPECTED, source_row: 3 });
    const { question, ...expected } = { ...BARE_EXPECTED, source_row: 4 } as Record<string, unknown>;
    expect(question).toBeNull();
    expect(bare).toEqual(expected);
  });

  it.each(['parquet', 'arrow', 'arrows', 'jsonl'])('make a %s file without any row', async (extension) => {
    const path = join(await temporaryFolder(), `out.${extension}`);
    await write(path, []);
    if (extension === 'jsonl') expect(await readFile(path, 'utf8')).toBe('');
    else if (extension === 'parquet') {
      expect(await io.readMetadata(path)).toMatchObject({ rows: 0 });
      const counts = `select count(*) as n, count(sigma) as s from '${path}'`;
      expect(await io.queryDuckdb(counts)).toEqual([{ n: 0n, s: 0n }]);
    } else {
      const table = arrow.tableFromIPC(await readFile(path));
      expect([table.numRows, table.numCols]).toEqual([0, 1 + OUR_COLUMNS.length]);
    }
  });
});

describe('names', () => {
  const infer = (row: Record<string, unknown>) => {
    const inference = inferColumns();
    inference.add(row);
    return inference.finish();
  };
  const resolve = (row: Record<string, unknown>, spec?: string, rewardAsIs = true) => {
    const columns = resolveColumnNames(infer(row), OUR_COLUMNS, parseFieldMap(spec), rewardAsIs);
    return [
      columns.map(({ name, as }) => (name === as ? name : `${name}→${as}`)),
      columns.filter(({ name, as }) => name !== as).length,
    ];
  };

  it('of the input give way to ours, and what ours repeats is left out', () => {
    expect(resolve({ q: 1, id: 'a', group: 'g', prompt_ids: [1], completion_ids: [2] })).toEqual([['q'], 0]);
    expect(resolve({ id: 1, group: 2, reward: 0.5, sigma: 'x' })).toEqual([
      ['id→input_id', 'group→input_group', 'reward→input_reward', 'sigma→input_sigma'],
      4,
    ]);
    expect(resolve({ reward: 1 })).toEqual([[], 0]);
    expect(resolve({ reward: 1 }, undefined, false)).toEqual([['reward→input_reward'], 1]);
    expect(resolve({ id: 'a', x: 'b' }, 'id=x')).toEqual([['id→input_id', 'x'], 1]);
    expect(resolve({ id: 'a', c: ['x'] }, 'completion=c[]')).toEqual([['id→input_id', 'c'], 1]);
    expect(resolve({ status: 'a', input_status: 'b' })).toEqual([
      ['status→input_input_status', 'input_status'],
      1,
    ]);
  });

  it('leave out a reward that Arrow holds as float32, as we do, and keep one whose digits may be more', () => {
    const reward = (type: arrow.DataType, kind: 'double' | 'bool') => {
      const own = new arrow.Field('reward', type, true);
      const column = { name: 'reward', as: 'reward', type: { kind }, arrow: own };
      return (rewardAsIs: boolean) =>
        resolveColumnNames([column], OUR_COLUMNS, parseFieldMap(undefined), rewardAsIs).length;
    };
    for (const type of [new arrow.Float32(), new arrow.Float16()])
      expect([true, false].map(reward(type, 'double')), `${type}`).toEqual([0, 1]);
    expect(reward(new arrow.Float64(), 'double')(true)).toBe(1);
    expect(reward(new arrow.Bool(), 'bool')(true)).toBe(1);
  });

  it('tell the format', async () => {
    const formats = ['a.parquet', 'a.b.ARROW', 'a.arrows', 'a.jsonl', 'a.ndjson'].map(namedFormat);
    expect(formats).toEqual(['parquet', 'arrow', 'arrow', 'jsonl', 'jsonl']);
    await expect(resolveTarget('out.csv', undefined, [])).rejects.toThrowError(
      expect.objectContaining({ exitCode: 2, hint: expect.stringContaining('--format') }),
    );
    expect((await resolveTarget('out.csv', 'arrow', [])).format).toBe('arrow');
  });
});

describe('files', () => {
  it.each(['parquet', 'arrow', 'jsonl'])(
    'of %s appear when published, and never at abort',
    async (extension) => {
      const folder = await temporaryFolder();
      const path = join(folder, `out.${extension}`);
      await writeFile(path, 'an older file');
      const aborted = await open(path);
      await aborted.write(FULL);
      expect(await readdir(folder)).toHaveLength(2);
      await aborted.abort();
      await aborted.abort();
      expect(await readdir(folder)).toEqual([`out.${extension}`]);
      expect(await readFile(path, 'utf8')).toBe('an older file');

      const closed = await open(path);
      await closed.write(FULL);
      await closed.finish();
      await closed.publish();
      await closed.abort();
      expect(await readdir(folder)).toEqual([`out.${extension}`]);
      expect(await readFile(path, 'utf8')).not.toBe('an older file');
    },
  );

  it('are refused where they cannot be made', async () => {
    const folder = await temporaryFolder();
    for (const [path, format, message] of [
      [join(folder, 'none', 'a.jsonl'), 'jsonl', 'no such file or folder'],
      [folder, 'jsonl', 'a folder'],
      ['/dev/null', 'parquet', 'no regular file'],
      ['-', 'parquet', 'cannot be written to stdout'],
    ] as const) {
      const refusal = { exitCode: 2, message: expect.stringContaining(message) };
      await expect(open(path, { format })).rejects.toMatchObject(refusal);
    }
  });
});

describe('rejects', () => {
  const raw = '{"a": "é\u2028';
  const bad = (row: number, code: string, id?: string) =>
    rejectRow({ ...io.inputRow({}, row), raw, byteOffset: 10 * row }, { code, reason: 'because' }, id);

  it('are written with place, code, reason and raw line', async () => {
    const folder = await temporaryFolder();
    const path = join(folder, 'out.rejects.jsonl');
    const rejects = await openRejects(path);
    for (const item of [bad(1, 'json'), bad(2, 'map', 'a:2'), bad(3, 'json')]) await rejects.add(item);
    await rejects.finish();
    await rejects.publish();
    expect(await readdir(folder)).toEqual(['out.rejects.jsonl']);
    const common = { file: 'data/traces.jsonl', reason: 'because', raw };
    expect(await readJsonl(path)).toEqual([
      { ...common, row: 1, byte_offset: 10, code: 'json' },
      { ...common, row: 2, byte_offset: 20, code: 'map', id: 'a:2' },
      { ...common, row: 3, byte_offset: 30, code: 'json' },
    ]);
  });

  it('make no file without a reject, and remove a stale one', async () => {
    const folder = await temporaryFolder();
    const path = join(folder, 'out.rejects.jsonl');
    await writeFile(path, 'stale');
    const rejects = await openRejects(path);
    // it may be the input of this very run: nothing is touched before the end
    expect(await readdir(folder)).toEqual(['out.rejects.jsonl']);
    await rejects.finish();
    await rejects.publish();
    expect(await readdir(folder)).toEqual([]);

    const aborted = await openRejects(path);
    await aborted.add(bad(1, 'json'));
    await aborted.abort();
    expect(await readdir(folder)).toEqual([]);
  });
});
