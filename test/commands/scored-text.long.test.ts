// A scored file is enough by itself, for every preset: the texts that its offsets refer to are in it, and inspect shows them.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { PRESET_NAMES } from '../../dist/io/map/presets.js';
import { readOutput } from '../support/io-helpers.js';
import { ROOT } from '../support/program.js';
import { openScene } from '../support/scene.js';

const DUMPS = join(ROOT, 'test/io/map/dumps');

/** A trace as the fixtures of the presets spell it. */
interface Expected {
  readonly id: string;
  readonly completion: string;
  readonly prompt: string | readonly object[];
  readonly item?: number;
  readonly turns?: readonly { readonly role: string; readonly content: string }[];
}

/** What the bundled policy's chat template makes of several turns: a message is its text, of others it ends its line. */
function rendered({ completion, turns }: Expected): string {
  const texts = turns?.map(({ role, content }) => (role === 'assistant' ? content : `${content}\n`));
  return texts?.join('') ?? completion;
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

const scene = await openScene();

describe('every preset', () => {
  it.each(PRESET_NAMES)('%s: a scored file has its texts, and inspect shows them', async (name) => {
    const expected: Expected[] = JSON.parse(await readFile(join(DUMPS, `${name}.json`), 'utf8'));
    const byId = new Map(expected.map((trace) => [trace.id, trace]));
    // not every row of a fixture has an answer, or a reward from 0 to 1
    const lines = (await readFile(join(DUMPS, `${name}.jsonl`), 'utf8')).trimEnd().split('\n');
    await scene.write(
      `${name}.jsonl`,
      lines.map((line) => ({ ...JSON.parse(line), extra_answer: '7', extra_reward: 1 })),
    );
    const output = `${name}.scored.${PRESET_NAMES.indexOf(name) % 2 === 0 ? 'parquet' : 'jsonl'}`;
    const flags = '--map reference=extra_answer,reward=extra_reward --quiet --baseline 0';
    await scene.done(`score ${name}.jsonl --preset ${name} ${flags} -o ${output}`);
    const { rows, texts } = await readOutput(scene.at(output));
    expect(rows.length).toBeGreaterThan(0);
    for (const row of rows) {
      const id = String(row.id);
      const trace = byId.get(id) as Expected;
      const completion = row[texts.completion ?? 'completion'] as string;
      if (trace.completion !== '') expect(completion, id).toBe(rendered(trace));
      expect(completion, id).not.toBe('');
      expect(row[texts.prompt ?? 'prompt'], id).toBeTruthy();
      expect(row.source_item, id).toBe(trace.item ?? null);
      const { stdout } = await scene.done(['inspect', output, '--row', id]);
      for (const part of shown(row, completion)) expect(stdout, id).toContain(part);
    }
  });
});
