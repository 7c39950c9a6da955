// The first pass over the inputs: what it counts, which types it finds, and what does not fit them later.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { assertFits, describeType, inferColumns, inferFromWindow } from '../../dist/io/arrow/schema.js';
import { parseFieldMap } from '../../dist/io/map/fields.js';
import { resolveInputs } from '../../dist/io/read/inputs.js';
import { readJsonRows } from '../../dist/io/read/jsonl.js';
import { type PrescanOptions, prescanInputs } from '../../dist/run/prescan.js';
import { chunksOf, collect, inputRow, temporaryFolder } from '../support/io-helpers.js';

const LOG = { info() {}, text() {}, warn() {}, record() {}, progress() {} };

/** The first pass over a file with these rows. */
async function surveyOf(
  rows: string | Uint8Array,
  { map, ...more }: { readonly map: string } & Partial<Omit<PrescanOptions, 'map'>>,
) {
  const isText = typeof rows === 'string';
  const path = join(await temporaryFolder(), isText ? 'traces.jsonl' : 'traces.arrow');
  await writeFile(path, rows);
  return prescanInputs(await resolveInputs([path]), {
    ...{ map: parseFieldMap(map), needs: { prompt: false, references: false }, typed: true, log: LOG },
    ...{
      limit: undefined,
      partition: undefined,
      maxLineBytes: undefined,
      signal: new AbortController().signal,
    },
    ...more,
  });
}

describe('prescan', () => {
  it('counts rows, traces and rewards, and types only rows that hold a trace', async () => {
    const text = [
      '{"c":["x","y"],"reward":1,"n":1}',
      '{"c":["x","z"],"reward":0,"n":0.5,"group":"g"}',
      '{"c":["x"],"reward":null,"group":"g"}',
      '{"c":"no list","n":"text"}',
      'no json',
    ].join('\n');
    const prescan = await surveyOf(text, { map: 'completion=c[]', reward: (trace) => trace.reward });
    expect(prescan).toMatchObject({ rows: 5, traces: 5, rejects: 2 });
    expect(prescan.columns.map(({ name, type }) => `${name}: ${describeType(type)}`)).toEqual([
      'c: list<string>',
      'reward: int64',
      'n: double',
      'group: string',
    ]);
    expect([...prescan.groupRewards]).toEqual([
      ['traces:0', { sum: 2, squares: 2, count: 2 }],
      ['g', { sum: 0, squares: 0, count: 2 }],
    ]);
  });

  it('turns down rows of a stream that do not fit its first window', async () => {
    const window = Array.from({ length: 1024 }, (_, n) => JSON.stringify({ n, s: { a: 1 }, e: null }));
    const later = [
      ['{"n":2}', 'row'],
      ['{"n":"x"}', 'column_type'],
      ['{"s":{"a":1,"b":2}}', 'column_type'],
      ['{"s":{"a":0.5}}', 'column_type'],
      ['{"new":1}', 'column_type'],
      ['{"new":null,"e":[1]}', 'row'],
      ['x', 'json'],
    ];
    const bytes = chunksOf(Buffer.from([...window, ...later.map(([line]) => line)].join('\n')));
    const { columns, rows } = await inferFromWindow(readJsonRows(bytes, { file: '-', stem: 'stdin' }), true);
    expect(columns.map(({ name }) => name)).toEqual(['n', 's', 'e']);
    const all = await collect(rows);
    expect(all).toHaveLength(1024 + later.length);
    expect(all.slice(0, 1024).every(({ kind }) => kind === 'row')).toBe(true);
    const found = all.slice(1024).map((row) => (row.kind === 'bad' ? row.rejection.code : 'row'));
    expect(found).toEqual(later.map(([, code]) => code));
    expect(all[1025]).toMatchObject({
      rejection: { reason: expect.stringMatching(/column n is the text "x", the first rows had int64/) },
    });
    expect(all[1026]).toMatchObject({ rejection: { reason: expect.stringContaining('s.b') } });
  });

  it('ends a run whose file holds another value than the prescan has seen', () => {
    const inference = inferColumns();
    inference.add({ question: 'x' });
    const columns = inference.finish();
    expect(() => assertFits(inputRow({ question: null }, 8), columns)).not.toThrow();
    expect(() => assertFits(inputRow({ question: 1 }, 9), columns)).toThrow(
      expect.objectContaining({
        exitCode: 65,
        message: 'data/traces.jsonl:9: column question is the number 1, expected string',
      }),
    );
  });
});
