// Damaged input in number, in this process: no crash, no hang, and every row is in the output or in the rejects. damage.long.test.ts has more.
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { tableFromIPC } from 'apache-arrow';
import { beforeAll, describe, expect, it } from 'vitest';
import { TraceRejected } from '../../dist/errors.js';
import { parseFieldMap } from '../../dist/io/map/fields.js';
import { mapRow } from '../../dist/io/map/map.js';
import { readRows, resolveInputs } from '../../dist/io/read/inputs.js';
import { openPolicyFolder } from '../../dist/model/onnx/folder.js';
import { encodeTrace } from '../../dist/model/text/encode.js';
import { loadTokenizer } from '../../dist/model/text/tokenizer.js';
import { allEnds, cutTrace, mergeSegments } from '../../dist/segment/segment.js';
import { SEGMENTERS } from '../../dist/segment/segmenters.js';
import { seeded } from '../oracle/toy.js';
import { rredcotHere } from '../support/in-process.js';
import { EMBEDDED, FIXTURES, readJsonl, temporaryFolder } from '../support/program.js';
import { mutateBytes, mutateRow } from './mutate.js';

const SEED = Number(process.env.RREDCOT_TORTURE_SEED ?? 1);
/** of each format */
const FILES = Number(process.env.RREDCOT_TORTURE ?? 15);
/** of each kind */
const ROWS = FILES > 15 ? 5000 : 1000;
let work: string;
let lines: string[];

beforeAll(async () => {
  process.setMaxListeners(0);
  process.stderr.setMaxListeners(0);
  process.stdout.setMaxListeners(0);
  work = await temporaryFolder();
  const fixtures = (await readFile(FIXTURES, 'utf8')).split('\n').slice(0, 24);
  const several = {
    prompt: 'p',
    question: ['q'],
    g: [{ text: 'a\nb. So c' }, { text: 'd\n\ne' }],
    answer: '7',
  };
  lines = [...fixtures, JSON.stringify(several), JSON.stringify({ ...several, segment_char_ends: [1, 3] })];
});

/** Lines without line ends: half of them damaged as bytes, half as values. */
function mutatedLines(count: number, seed: number): Buffer[] {
  const random = seeded(seed);
  return Array.from({ length: count }, (_, n) => {
    const line = lines[n % lines.length] as string;
    const bytes =
      random() < 0.5
        ? mutateBytes(Buffer.from(line), random)
        : Buffer.from(JSON.stringify(mutateRow(JSON.parse(line), random)));
    return bytes.map((byte) => (byte === 10 ? 32 : byte)) as Buffer;
  });
}

const SEGMENT = ['segment', '--no-policy', '--quiet'];

describe(`${ROWS} damaged rows`, () => {
  it.each([
    ['as they are', [], 'jsonl'],
    ['of several traces each', ['--map', 'completion=g[].text'], 'jsonl'],
    ['with types', [], 'arrow'],
  ])('%s: each is in the output or in the rejects', async (what, flags, format) => {
    const input = join(work, `rows-${what}.jsonl`);
    const output = join(work, `rows-${what}.out.${format}`);
    const bytes = mutatedLines(ROWS, SEED);
    await writeFile(input, Buffer.concat(bytes.flatMap((line) => [line, Buffer.from('\n')])));
    const { code, stderr } = await rredcotHere([...SEGMENT, input, '-o', output, ...flags]);
    expect([code, stderr]).toEqual([0, '']);
    const outRows =
      format === 'jsonl'
        ? (await readJsonl<{ source_row: number }>(output)).map((row) => row.source_row)
        : Array.from(tableFromIPC(await readFile(output)).getChild('source_row') ?? [], Number);
    const rejects = await readJsonl<{ row: number; code: string }>(`${output}.rejects.jsonl`);
    const isBlank = (line: Buffer) => line.every((byte) => byte === 32 || byte === 9 || byte === 13);
    const filled = bytes.filter((line) => !isBlank(line)).length;
    expect(new Set([...outRows, ...rejects.map(({ row }) => row)]).size).toBe(filled);
    for (const { code: why } of rejects) expect(why).toMatch(/^[a-z0-9_]+$/);
    if (flags.length === 0) {
      expect(outRows.length + rejects.length).toBe(filled);
      expect(outRows.length).toBeGreaterThan(ROWS / 10);
      expect(rejects.length).toBeGreaterThan(ROWS / 10);
    }
  });

  it('are encoded and cut by every segmenter, or rejected with a code', async () => {
    const { architecture, path } = await openPolicyFolder(EMBEDDED);
    const tokenizer = await loadTokenizer(path);
    const random = seeded(SEED + 1);
    const maps = [parseFieldMap(undefined), parseFieldMap('completion=g[].text,prompt=question[]')];
    const input = join(work, 'encoded.jsonl');
    const lineEnd = Buffer.from('\n');
    await writeFile(input, Buffer.concat(mutatedLines(ROWS, SEED + 1).flatMap((line) => [line, lineEnd])));
    const counts = { rows: 0, bad: 0, rejected: 0, cut: 0 };
    for await (const row of readRows(await resolveInputs([input]))) {
      counts.rows++;
      const map = maps[counts.rows % 2] as ReturnType<typeof parseFieldMap>;
      const found = row.kind === 'bad' ? [row] : [...mapRow(row, map, { prompt: true, references: false })];
      expect(found.length).toBeGreaterThan(0);
      for (const trace of found) {
        if ('kind' in trace) {
          counts.bad++;
          continue;
        }
        const segmenter = SEGMENTERS[Math.floor(random() * SEGMENTERS.length)] as (typeof SEGMENTERS)[number];
        try {
          const encoded = await encodeTrace(trace, tokenizer, architecture.vocab, architecture.maxTokens);
          const pieces = cutTrace(encoded, { segmenter, fixedLength: 7, maxSegments: 5 });
          const T = encoded.completionIds.length;
          const entropies = Float32Array.from({ length: T }, random);
          const logprobs = entropies.map((entropy) => -entropy);
          const ends = allEnds(mergeSegments(pieces, { entropies, logprobs }));
          expect(ends.every((end, k) => end > (ends[k - 1] ?? -1) && end <= T)).toBe(true);
          counts.cut++;
        } catch (error) {
          if (!(error instanceof TraceRejected)) throw error;
          counts.rejected++;
        }
      }
    }
    expect(counts.rows).toBeGreaterThan(ROWS * 0.99);
    expect(counts.cut).toBeGreaterThan(ROWS / 20);
    expect(counts.rejected).toBeGreaterThan(ROWS / 200);
  });
});

it.each(['parquet', 'arrow', 'jsonl.gz'])(
  `${FILES} damaged .%s files end in rows, rejects or one error`,
  async (extension) => {
    const folder = join(work, extension);
    await mkdir(folder);
    const plain = join(folder, 'rows.jsonl');
    await writeFile(plain, `${lines.slice(0, 12).join('\n')}\n`);
    const sound = join(folder, `sound.${extension}`);
    if (extension === 'jsonl.gz') await writeFile(sound, gzipSync(await readFile(plain)));
    else expect((await rredcotHere([...SEGMENT, plain, '-o', sound])).code).toBe(0);
    const output = join(folder, 'out.jsonl');
    const flags = ['--no-policy', '--quiet', '-o', output];
    const intact = await rredcotHere(['segment', sound, ...flags]);
    expect([intact.code, await readJsonl(output)]).toEqual([0, expect.objectContaining({ length: 12 })]);

    const bytes = await readFile(sound);
    const ends = new Map<number, number>();
    for (let n = 0; n < FILES; n++) {
      const random = seeded(SEED + n);
      const damaged = join(folder, `damaged-${n}.${extension}`);
      await writeFile(damaged, mutateBytes(bytes, random));
      await rm(output, { force: true });
      await rm(`${output}.rejects.jsonl`, { force: true });
      const { code, stderr } = await rredcotHere(['segment', damaged, ...flags, '--overwrite']);
      const what = `seed ${SEED + n}: exit ${code}, ${stderr}`;
      ends.set(code, (ends.get(code) ?? 0) + 1);
      expect([0, 2, 65], what).toContain(code);
      if (code !== 0) {
        expect(stderr.match(/^rredcot: /gm), what).toHaveLength(1);
        expect(stderr, what).toMatch(
          new RegExp(`damaged-${n}\\.|(every one of|the only trace) .*out\\.jsonl\\.rejects`),
        );
      }
      await rm(damaged);
    }
    console.log(
      `.${extension}: ${FILES} damaged files, exit codes ${JSON.stringify(Object.fromEntries(ends))}`,
    );
  },
  60_000 + FILES * 5000,
);
