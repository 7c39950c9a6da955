// Whatever a JSON row holds comes out again: as it was in JSONL, by its inferred type in Parquet.
import { execFile } from 'node:child_process';
import { cp, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseJson, stringifyJson } from '../../../dist/io/arrow/json.js';
import { type ColumnType, inferColumns } from '../../../dist/io/arrow/schema.js';
import { readRows, resolveInputs } from '../../../dist/io/read/inputs.js';
import { rredcotHere } from '../../support/in-process.js';
import { collect, temporaryFolder } from '../../support/io-helpers.js';
import { ROOT } from '../../support/program.js';

const folder = await temporaryFolder();

async function segmented(input: string, output: string): Promise<void> {
  const flags = ['--no-policy', '--preset', 'none', '--overwrite'];
  const run = await rredcotHere(['segment', input, '-o', output, ...flags]);
  expect(run.code, run.stderr).toBe(0);
}

type Row = Record<string, unknown>;
const rowsOf = async (path: string): Promise<Row[]> =>
  (await collect(readRows(await resolveInputs([path])))).map((row) => {
    if (row.kind === 'bad') throw new Error(row.rejection.reason);
    return row.columns;
  });

/** A value as its column's type lets it be read: JSON text as what it says, missing keys as null. */
function asWritten(type: ColumnType, value: unknown): unknown {
  if (value === null || value === undefined) return null;
  if (type.kind === 'json') return stringifyJson(value);
  if (type.kind === 'list') return (value as unknown[]).map((item) => asWritten(type.element, item));
  if (type.kind === 'struct')
    return Object.fromEntries(
      type.fields.map(({ name, type: field }) => [
        name,
        asWritten(field, Object.hasOwn(value, name) ? (value as Row)[name] : null),
      ]),
    );
  return value;
}

describe('any JSON value in a column that passes through', () => {
  // one run of the program for many rows: each column has values of one kind, or of any
  const anything = fc.jsonValue({ maxDepth: 4 });
  const tidy = fc.record(
    {
      text: fc.string({ unit: 'grapheme' }),
      number: fc.double({ noNaN: true, noDefaultInfinity: true }),
      whole: fc.maxSafeInteger(),
      flag: fc.boolean(),
      list: fc.array(fc.option(fc.string())),
      floats: fc.array(fc.double({ noNaN: true, noDefaultInfinity: true })),
      messages: fc.array(fc.record({ role: fc.constantFrom('user', 'assistant'), content: fc.string() })),
      nested: fc.record(
        { a: fc.integer(), b: fc.option(fc.array(fc.array(fc.integer()))) },
        { requiredKeys: [] },
      ),
    },
    { requiredKeys: [] },
  );
  const rows = fc.array(fc.tuple(tidy, fc.record({ anything, toString: anything }, { requiredKeys: [] })), {
    minLength: 1,
    maxLength: 60,
  });

  async function check(extension: string, compare: (original: Row[], path: string) => Promise<void>) {
    await fc.assert(
      fc.asyncProperty(rows, async (pairs) => {
        const original = pairs.map(([one, other], n): Row => ({ completion: `a\nb${n}`, ...one, ...other }));
        // as JSON has it: no -0
        const text = original.map((row) => JSON.stringify(row)).join('\n');
        const input = join(folder, `any-${extension}.jsonl`);
        await writeFile(input, text);
        const output = join(folder, `any-out.${extension}`);
        await segmented(input, output);
        await compare(
          // as the program reads it: integers beyond 2^53 with all their digits
          text.split('\n').map((line) => parseJson(line) as Row),
          output,
        );
      }),
      // random values through Parquet are io-schema.test.ts's, these are the whole command's
      { numRuns: extension === 'parquet' ? 3 : 15, endOnFailure: true },
    );
  }

  it('JSONL to JSONL: equal', () =>
    check('jsonl', async (original, path) => {
      const lines = (await readFile(path, 'utf8')).trimEnd().split('\n');
      for (const [n, row] of original.entries()) expect(parseJson(lines[n] as string)).toMatchObject(row);
    }));

  it.each(['parquet', 'arrow'])('JSONL to %s: equal, what has no one type as JSON text', (extension) =>
    check(extension, async (original, path) => {
      const inference = inferColumns();
      for (const row of original) inference.add(row);
      const columns = inference.finish();
      const found = await rowsOf(path);
      expect(found).toHaveLength(original.length);
      for (const [n, row] of original.entries())
        for (const { name, type } of columns) {
          const value = Object.hasOwn(row, name) ? row[name] : null;
          expect(found[n]?.[name], name).toEqual(asWritten(type, value));
        }
    }),
  );
});

it('--no-policy: runs where neither ONNX Runtime nor a tokenizer is installed', async () => {
  const bare = join(folder, 'bare');
  await mkdir(join(bare, 'node_modules'), { recursive: true });
  for (const name of ['bin', 'dist', 'package.json'])
    await cp(join(ROOT, name), join(bare, name), { recursive: true });
  for (const name of await readdir(join(ROOT, 'node_modules')))
    if (!name.startsWith('.') && !['onnxruntime-node', 'onnxruntime-common', '@huggingface'].includes(name))
      await symlink(join(ROOT, 'node_modules', name), join(bare, 'node_modules', name));
  await writeFile(join(bare, 'in.jsonl'), '{"completion":"a\\nb"}\n');
  const line = `${join(bare, 'bin/rredcot.js')} segment --no-policy in.jsonl -o out`;
  for (const extension of ['jsonl', 'arrow', 'parquet']) {
    const args = `${line}.${extension}`.split(' ');
    const { stderr } = await promisify(execFile)(process.execPath, args, { cwd: bare });
    expect(stderr).toMatch(/^1 trace in/m);
  }
});

it('names that every object of the language has are names of a row like others', () => {
  const text = '{"constructor":{"caller":1e0,"arguments":[2.0]},"toString":{"x":12345678901234567890}}';
  expect(stringifyJson(parseJson(text))).toBe(
    '{"constructor":{"caller":1,"arguments":[2]},"toString":{"x":12345678901234567890}}',
  );
});
