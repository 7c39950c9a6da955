// `segment --no-policy` in blocks: the rows of a block are the file's, and any number of threads makes the same bytes.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { appendFile, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { tableFromIPC } from 'apache-arrow';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import type { BlockJob } from '../dist/commands/segment-block.js';
import { segmentBlocks } from '../dist/commands/segment-blocks.js';
import { RredcotError } from '../dist/errors.js';
import { firstOrdinalOf, type RowBlock, readBlocks, rowsOfBlock } from '../dist/io/blocks.js';
import type { EncodedBlock } from '../dist/io/encoded-block.js';
import { guessColumns, TypesChangedError } from '../dist/io/guess.js';
import { type Input, readRows, resolveInputs } from '../dist/io/inputs.js';
import type { OutputFormat } from '../dist/io/output.js';
import { type BadRow, isBad } from '../dist/io/rows.js';
import { collect, queryDuckdb } from './io-helpers.js';
import { ROOT, rredcot, temporaryFolder } from './program.js';

const MIB = 2 ** 20;
let cwd: string;

beforeAll(async () => {
  cwd = await temporaryFolder();
});

describe('the rows of blocks', () => {
  const line = fc.oneof(
    fc.constantFrom(
      '',
      '  ',
      '\r',
      '{"a": 1}',
      '{"a": "é"}\r',
      '[1]',
      '{"a": ',
      `{"a": "${'x'.repeat(80)}"}`,
    ),
    fc.json().map((text) => `{"a": ${text.replaceAll('\n', ' ')}}`),
  );
  const element = fc.oneof(
    { arbitrary: line.filter((text) => /^\{.*\}$/.test(text)), weight: 5 },
    fc.constant(''),
  );

  it('are those of the files, in order, whatever the chunks and whatever is wanted', async () => {
    const cases = fc.record({
      files: fc.array(fc.array(line, { maxLength: 12 }), { minLength: 1, maxLength: 3 }),
      elements: fc.array(element, { maxLength: 12 }),
      rowsPerChunk: fc.integer({ min: 1, max: 8 }),
      unwanted: fc.integer({ min: 2, max: 9 }),
      isList: fc.boolean(),
    });
    let n = 0;
    await fc.assert(
      fc.asyncProperty(cases, async ({ files, elements, rowsPerChunk, unwanted, isList }) => {
        const paths: string[] = [];
        for (const lines of files) {
          const path = join(cwd, `${n++}.${isList ? 'json' : 'jsonl'}`);
          await writeFile(path, isList ? `[${elements.join(',\n')}]` : lines.join('\n'));
          paths.push(path);
        }
        const inputs = await resolveInputs(paths);
        const opts = { maxLineBytes: 64, wanted: (ordinal: number) => ordinal % unwanted !== 1 };
        const chunkOf = (ordinal: number): number => Math.floor(ordinal / rowsPerChunk);
        const expected = await collect(readRows(inputs, opts));
        const blocks = await collect(readBlocks(inputs, { ...opts, chunkOf }));
        for (const block of blocks) {
          if (isBad(block)) continue;
          const chunks = new Set([...rowsOfBlock(block, 64)].map(({ ordinal }) => chunkOf(ordinal)));
          expect([...chunks]).toEqual([chunkOf(firstOrdinalOf(block))]);
        }
        // blocks go over the ends of files
        expect(blocks.length).toBeLessThanOrEqual(1 + chunkOf(expected.at(-1)?.ordinal ?? 0));
        const found = blocks.flatMap((block) => (isBad(block) ? [block] : [...rowsOfBlock(block, 64)]));
        expect(found).toEqual(expected);
      }),
      { numRuns: 200 },
    );
  });

  it('of a packed file that was cut off end with the row that is not whole', async () => {
    const path = join(cwd, 'cut.jsonl.gz');
    const lines = Array.from({ length: 2000 }, (_, row) => JSON.stringify({ row, noise: Math.sin(row) }));
    await writeFile(path, gzipSync(lines.join('\n')).subarray(0, -2000));
    const blocks = await collect(readBlocks(await resolveInputs([path]), { chunkOf: () => 0 }));
    const last = blocks.at(-1) as BadRow;
    expect(last).toMatchObject({ kind: 'bad', rejection: { code: 'truncated' } });
    const rows = blocks.slice(0, -1).flatMap((block) => [...rowsOfBlock(block as RowBlock, undefined)]);
    expect(rows.length).toBe(last.row);
    expect(rows.length).toBeGreaterThan(100);
  });
});

describe('threads', () => {
  const COLUMNS = ['id', 'group', 'segments', 'source_row', 'status'] as const;
  let input: Input;

  /** 7 MiB in blocks of 2 MiB; every 50th row is no trace, every 99th no JSON. */
  beforeAll(async () => {
    const path = join(cwd, 'rows.jsonl');
    const rows = Array.from({ length: 1500 }, (_, row) => {
      if (row % 99 === 98) return '{"completion": broken';
      const steps = Array.from(
        { length: 120 },
        (_, n) => `Step ${n}: ${row * n} is what we need.\nBut wait.`,
      );
      return JSON.stringify({
        completion: row % 50 === 49 ? '' : `<think>\n${steps.join('\n')}\n</think>\n7`,
        row,
      });
    });
    await writeFile(path, rows.join('\n'));
    [input] = (await resolveInputs([path])) as [Input];
  });

  const blocksOf = (from: Input) => readBlocks([from], { chunkOf: (ordinal) => Math.floor(ordinal / 1000) });
  async function job(format: OutputFormat): Promise<BlockJob> {
    const { columns, seen } = await guessColumns(readRows([input]), () => 1);
    return {
      recipe: { asked: undefined, preset: undefined },
      segments: { segmenter: 'hybrid', maxSegments: 40, fixedLength: 256 },
      format,
      ourColumns: COLUMNS,
      passThrough: columns,
      guessed: seen,
      maxLineBytes: undefined,
    };
  }
  /** As if the file had so many bytes: small ones are not worth threads. */
  const work = (size: number, of: BlockJob, from = input): AsyncGenerator<EncodedBlock> =>
    segmentBlocks({ blocks: () => blocksOf(from), blockDone() {} }, [{ ...from, size }], of);
  const MANY = 1000 * MIB;
  const comparable = ({ parts, codes, ...block }: EncodedBlock) => ({
    ...block,
    codes: [...codes],
    parts: parts.map(({ traces, bytes }) => [traces, createHash('sha256').update(bytes).digest('hex')]),
  });

  it.each(['arrow', 'jsonl'] as const)(
    'make the same blocks of %s as one thread, in order',
    async (format) => {
      const alone = await collect(work(1, await job(format)));
      const many = await collect(work(MANY, await job(format)));
      expect(many.map(comparable)).toEqual(alone.map(comparable));
      expect(alone.length).toBeGreaterThan(3);
      const rows = alone.reduce((sum, { counts }) => sum + counts.length, 0);
      const rejects = alone.flatMap((block) => block.rejects.map(({ rejection }) => rejection.code));
      expect(rows).toBe(1500);
      expect(rejects.filter((code) => code === 'json')).toHaveLength(15);
      expect(rejects.filter((code) => code === 'empty_completion')).toHaveLength(30);
    },
  );

  it('make parts of a block that many segments make large', async () => {
    const segments = { segmenter: 'fixed', fixedLength: 4 } as const;
    const blocks = await collect(work(1, { ...(await job('arrow')), segments }));
    expect(blocks.some(({ parts }) => parts.length > 2)).toBe(true);
    for (const { parts, counts } of blocks) {
      const rows = parts.map(({ bytes }) => tableFromIPC(bytes).numRows);
      expect(rows).toEqual(parts.map(({ traces }) => traces));
      expect(rows.reduce((sum, n) => sum + n, 0)).toBe(counts.reduce((sum, n) => sum + n, 0));
    }
  });

  it.each([
    ['a guess that falls', true, TypesChangedError],
    ['a value that was another one when first read', false, RredcotError],
  ])('tell %s in its place, as one thread does, and end', async (_, isGuess, kind) => {
    const path = join(cwd, 'odd.jsonl');
    const lines = (await readFile(join(cwd, 'rows.jsonl'), 'utf8')).split('\n');
    lines[1200] = '{"completion": "a", "row": "odd"}';
    await writeFile(path, lines.join('\n'));
    const [odd] = (await resolveInputs([path])) as [Input];
    const told: unknown[] = [];
    for (const size of [1, MANY]) {
      const { guessed, ...known } = await job('arrow');
      let blocks = 0;
      try {
        for await (const _ of work(size, { ...known, guessed: isGuess ? guessed : undefined }, odd)) blocks++;
      } catch (error) {
        expect(error).toBeInstanceOf(kind);
        const { message, exitCode, hint } = error as RredcotError;
        told.push({ blocks, message, exitCode, hint });
      }
    }
    expect(told).toHaveLength(2);
    expect(told[0]).toEqual(told[1]);
    expect(told[0]).toMatchObject({ blocks: 3, message: expect.stringContaining('odd.jsonl:1200') });
  });

  it('end when nobody wants more', async () => {
    for await (const block of work(MANY, await job('arrow'))) {
      expect(block.ordinal).toBe(0);
      break;
    }
    // vitest would hang on a thread that is left
  });
});

describe('segment --no-policy', () => {
  it('tells no more rejects than --max-rejects allows, and the one too many', async () => {
    await writeFile(join(cwd, 'bad.jsonl'), '{"completion": broken\n'.repeat(20));
    const args = ['segment', '--no-policy', 'bad.jsonl', '-o', 'bad.arrow', '--max-rejects', '5'];
    const run = await rredcot(args, { cwd });
    expect(run.code, run.stderr).toBe(65);
    expect(run.stderr).toMatch(/6 traces rejected, --max-rejects allows 5/);
    expect((await readFile(join(cwd, 'bad.arrow.rejects.jsonl'), 'utf8')).trim().split('\n')).toHaveLength(6);
  });

  it('does not hold the traces of a row together, each of which has the whole row', async () => {
    const gens = Array.from({ length: 200 }, (_, n) => ({ text: `${n}: ${'now we add. '.repeat(250)}` }));
    const lines = Array.from({ length: 2 }, (_, row) => JSON.stringify({ row, gens }));
    await writeFile(join(cwd, 'gens.jsonl'), lines.join('\n'));
    const program = ['--max-old-space-size=96', join(ROOT, 'bin/rredcot.js'), 'segment', '--no-policy'];
    const args = [
      'gens.jsonl',
      '--map',
      'completion=gens[].text',
      '-o',
      'gens.jsonl.out/',
      '--format',
      'jsonl',
    ];
    const { status, stderr } = spawnSync(process.execPath, [...program, ...args], { cwd, encoding: 'utf8' });
    expect(status, stderr).toBe(0);
    expect(stderr).toContain('400 traces');
    await rm(join(cwd, 'gens.jsonl.out'), { recursive: true });
  });
});

describe('segment --no-policy of a large file', () => {
  const SEGMENT = ['segment', '--no-policy', '--quiet'];
  const rows = 9000;

  beforeAll(async () => {
    const path = join(cwd, 'large.jsonl');
    const text = `<think>\n${'Now we add 1 to it, and see.\n'.repeat(75)}</think>\n`;
    for (let row = 0; row < rows; row += 1000) {
      const lines = Array.from({ length: 1000 }, (_, n) =>
        JSON.stringify({ completion: `${text}${row + n}`, number: row + n }),
      );
      await appendFile(path, `${lines.join('\n')}\n`);
    }
    expect((await stat(path)).size).toBeGreaterThan(17 * MIB);
  });

  it('begins anew where a late row changes the types: the column holds all of it', async () => {
    const path = join(cwd, 'late.jsonl');
    await writeFile(path, await readFile(join(cwd, 'large.jsonl')));
    await appendFile(path, '{"completion": "a", "number": "late"}\n');
    const run = await rredcot([...SEGMENT.slice(0, 2), path, '-o', 'late.parquet'], { cwd });
    expect(run.code, run.stderr).toBe(0);
    expect(run.stderr).toContain(`late.jsonl:${rows} changes the column types of the first rows`);
    const found = await queryDuckdb(
      `select typeof(number) as type, count(*)::int as n from '${join(cwd, 'late.parquet')}' group by 1`,
    );
    expect(found).toEqual([{ type: 'VARCHAR', n: rows + 1 }]);
  });

  it.each(['arrow', 'parquet', 'jsonl'] as const)(
    'to %s: killed and signalled, then the same command, it makes the same bytes',
    async (format) => {
      const args = [...SEGMENT, 'large.jsonl', '--rows-per-chunk', '2000', '--format', format];
      const whole = join(cwd, `whole-${format}`);
      const resumed = join(cwd, `resumed-${format}`);
      expect((await rredcot([...args, '-o', `${whole}/`], { cwd })).code).toBe(0);
      await mkdir(resumed);
      for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
        const child = spawn(process.execPath, [join(ROOT, 'bin/rredcot.js'), ...args, '-o', `${resumed}/`], {
          cwd,
        });
        const end = new Promise<number | null>((resolve) => child.on('close', resolve));
        const done = signal === 'SIGTERM' ? 1 : 2;
        while (child.exitCode === null && (await chunksOf(resumed, format)).length < done)
          await new Promise((resolve) => setTimeout(resolve, 5));
        child.kill(signal);
        const code = await end;
        // a machine may be too fast for the signal
        expect([0, signal === 'SIGTERM' ? 75 : null]).toContain(code);
      }
      const run = await rredcot([...args, '-o', `${resumed}/`], { cwd });
      expect(run.code, run.stderr).toBe(0);
      const names = await chunksOf(whole, format);
      expect(names).toHaveLength(5);
      expect(await chunksOf(resumed, format)).toEqual(names);
      for (const name of names)
        expect((await readFile(join(resumed, name))).equals(await readFile(join(whole, name))), name).toBe(
          true,
        );
      await rm(whole, { recursive: true });
      await rm(resumed, { recursive: true });
    },
  );

  async function chunksOf(folder: string, format: string): Promise<string[]> {
    const names = await readdir(folder, { recursive: true }).catch(() => []);
    return names.filter((name) => new RegExp(`chunks/.*/\\d+\\.${format}$`).test(name)).sort();
  }
});
