// A scored file is enough by itself, for every preset: the texts that its offsets refer to are in it, and inspect shows them.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { PRESET_NAMES } from '../../dist/io/map/presets.js';
import { rredcotHere } from '../support/in-process.js';
import { readOutput } from '../support/io-helpers.js';
import { ROOT, temporaryFolder } from '../support/program.js';

const DUMPS = join(ROOT, 'test/io/map/dumps');

/** A trace as the fixtures of the presets spell it. */
interface Expected {
  readonly id: string;
  readonly completion: string;
  readonly prompt: string | readonly object[];
  readonly item?: number;
}

type Row = Readonly<Record<string, unknown>>;

/** A segment's text as the drawing shows it, of which the width may leave a part. */
function shown(row: Row, completion: string): string[] {
  const characters = [...completion];
  const segments = row.segments as { char_start: number | null; char_end: number | null }[];
  return segments.flatMap(({ char_start: from, char_end: to }) => {
    if (from === null || to === null) return [];
    const text = characters
      .slice(from, to)
      .join('')
      .replace(/(?<=[^\n])\n+$/, '');
    return [text.replaceAll('\n', '⏎').slice(0, 12)].filter((part) => !/[^ -~⏎]/.test(part));
  });
}

let folder: string;
beforeAll(async () => {
  folder = await temporaryFolder();
});

const score = (...args: string[]) => rredcotHere(['score', '--quiet', '--baseline', '0', ...args]);

describe('every preset', () => {
  it.each(PRESET_NAMES)('%s: a scored file has its texts, and inspect shows them', async (name) => {
    const expected: Expected[] = JSON.parse(await readFile(join(DUMPS, `${name}.json`), 'utf8'));
    const byId = new Map(expected.map((trace) => [trace.id, trace]));
    // each row by itself: a fixture holds variants of its preset, and not every row has an answer
    const lines = (await readFile(join(DUMPS, `${name}.jsonl`), 'utf8'))
      .split('\n')
      .filter((line) => line !== '');
    let checked = 0;
    for (const [n, line] of lines.entries()) {
      const input = join(folder, `${name}.jsonl`);
      await writeFile(input, `${JSON.stringify({ ...JSON.parse(line), extra_answer: '7' })}\n`);
      // rows in turn, where there are two: a start each
      const kinds = lines.length === 1 ? ['parquet', 'jsonl'] : [n % 2 === 0 ? 'parquet' : 'jsonl'];
      for (const output of kinds.map((kind) => join(folder, `${name}.${n}.${kind}`))) {
        await score(input, '-o', output, '--map', 'reference=extra_answer');
        const none = { rows: [], texts: {} as Record<string, string> };
        const { rows, texts } = await readOutput(output).catch(() => none);
        for (const row of rows) {
          // the fixture's ids count its rows, this file has one
          const id = String(row.id).replace(`${name}:0`, `${name}:${n}`);
          const trace = byId.get(id) as Expected;
          const completion = row[texts.completion ?? 'completion'] as string;
          if (trace.completion !== '') expect(completion, id).toBe(trace.completion);
          expect(completion, id).not.toBe('');
          expect(row[texts.prompt ?? 'prompt'], id).toBeTruthy();
          expect(row.source_item, id).toBe(trace.item ?? null);
          const drawn = await rredcotHere(['inspect', output, '--row', String(row.id)]);
          expect(drawn.code).toBe(0);
          for (const part of shown(row, completion)) expect(drawn.stdout, id).toContain(part);
          checked++;
        }
      }
    }
    expect(checked).toBeGreaterThan(0);
  });
});
