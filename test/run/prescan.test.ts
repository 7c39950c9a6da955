// The first pass over the inputs: what it counts, which types it finds, and what does not fit them later.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Table, tableToIPC, Utf8, vectorFromArray } from 'apache-arrow';
import { describe, expect, it } from 'vitest';
import { describeType, inferColumns } from '../../dist/io/arrow/schema.js';
import { parseFieldMap } from '../../dist/io/map/fields.js';
import { resolveInputs } from '../../dist/io/read/inputs.js';
import { readJsonRows } from '../../dist/io/read/jsonl.js';
import { assertFits, inferFromWindow } from '../../dist/io/read/typed-rows.js';
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
    ...{ limit: undefined, maxLineBytes: undefined, signal: new AbortController().signal },
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
    let progress: unknown;
    const prescan = await surveyOf(text, {
      map: 'completion=c[]',
      reward: (trace) => trace.reward,
      log: {
        ...LOG,
        progress(_: string, fields: unknown) {
          progress = fields;
        },
      },
    });
    expect(prescan).toMatchObject({ rows: 5, traces: 5, rejects: 2 });
    expect(progress).toEqual({ bytes: text.length });
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

  it('tells between which rows a group lies, whatever its rewards, and where a limit ends', async () => {
    const rows = [
      '"g","reward":null',
      '"h","reward":1',
      '"g","reward":1',
      '"u","reward":null',
      '"g","reward":null',
    ];
    const text = ['no json', ...rows.map((row) => `{"c":"x","group":${row}}`)].join('\n');
    const prescan = (limit: number | undefined) =>
      surveyOf(text, {
        map: 'completion=c,group=group,reward=reward',
        reward: (trace) => trace.reward,
        ...{ typed: false, readsPeers: true, limit },
      });
    const { groupRewards, lastRow } = await prescan(3);
    expect(lastRow).toBe(2);
    expect([...groupRewards]).toEqual([
      ['g', { sum: 1, squares: 1, count: 1, span: [1, 5] }],
      ['h', { sum: 1, squares: 1, count: 1, span: [2, 2] }],
      ['u', { sum: 0, squares: 0, count: 0, span: [4, 4] }],
    ]);
    expect((await prescan(undefined)).lastRow).toBeUndefined();
  });

  it('tells whether a limit cuts something, also inside of a row, and reads no further where no group counts', async () => {
    const prescan = async (text: string, limit: number, reward?: () => number) => {
      const { part, rows } = await surveyOf(text, { map: 'completion=c[]', reward, limit });
      return [part, rows];
    };
    const part = (limit: number) => ({ by: 'limit', limit });
    const two = '{"c":["x","y"]}\n{"c":["x","y","z"]}\nno json\n';
    expect(await prescan(two, 2)).toEqual([part(2), 1]);
    expect(await prescan(two, 2, () => 1)).toEqual([part(2), 3]);
    expect(await prescan(two, 4)).toEqual([part(4), 2]);
    expect(await prescan(two, 5)).toEqual([part(5), 2]);
    expect(await prescan(two, 6)).toEqual([undefined, 3]);
    const one = '{"c":["x","y"]}\n';
    expect(await prescan(one, 1, () => 1)).toEqual([part(1), 1]);
    expect(await prescan(one, 2, () => 1)).toEqual([undefined, 1]);
  });

  it('counts rows of columns alone where nothing else is wanted', async () => {
    const bytes = tableToIPC(new Table({ c: vectorFromArray(['x', null, 'y'], new Utf8()) }), 'file');
    const prescan = await surveyOf(bytes, { map: 'completion=c', typed: false });
    const none = { columns: [], groupRewards: new Map(), rowBytes: 145, warnings: [] };
    expect(prescan).toEqual({ rows: 3, traces: null, rejects: null, ...none });
  });

  it('turns down rows of a stream that do not fit its first window', async () => {
    const window = Array.from({ length: 1024 }, (_, n) => JSON.stringify({ n, s: { a: 1 }, e: null }));
    const later = [
      '{"n":2}',
      '{"n":"x"}',
      '{"s":{"a":1,"b":2}}',
      '{"s":{"a":0.5}}',
      '{"new":1}',
      '{"new":null,"e":[1]}',
      'x',
    ];
    const bytes = chunksOf(Buffer.from([...window, ...later].join('\n')));
    const { columns, rows } = await inferFromWindow(readJsonRows(bytes, { file: '-', stem: 'stdin' }), true);
    expect(columns.map(({ name }) => name)).toEqual(['n', 's', 'e']);
    const all = await collect(rows);
    expect(all).toHaveLength(1024 + later.length);
    expect(all.slice(0, 1024).every(({ kind }) => kind === 'row')).toBe(true);
    expect(all.slice(1024).map((row) => (row.kind === 'bad' ? row.rejection.code : 'row'))).toEqual([
      'row',
      'column_type',
      'column_type',
      'column_type',
      'column_type',
      'row',
      'json',
    ]);
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
