// A command's inputs as it is told of them: how much is still ahead.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { Run } from '../dist/commands/run.js';
import { openSource } from '../dist/commands/source.js';
import { resolveInputs } from '../dist/io/inputs.js';
import type { ReadRows } from '../dist/io/peek.js';
import type { Log } from '../dist/report/log.js';
import { inputRow, temporaryFolder } from './io-helpers.js';

it('counts what a resumed run skips as neither done nor ahead', async () => {
  const path = join(await temporaryFolder(), 'in.jsonl');
  await writeFile(path, '{}'.padEnd(1000));
  const inputs = await resolveInputs([path]);
  // two rows are an earlier attempt's; the third one comes with the bytes of all three
  const read: ReadRows = async function* ({ onBytes }) {
    onBytes?.(600);
    yield inputRow({ completion: 'c' });
    onBytes?.(100);
    yield inputRow({ completion: 'd' });
  };
  async function shares(traces: number): Promise<(number | undefined)[]> {
    const source = await openSource(inputs, {
      run: { before: { traces, rejects: 0 }, wanted: () => true, layout: {} } as unknown as Run,
      read,
      map: { mapped: new Map(), defaults: new Map() },
      needs: { prompt: false, references: false },
      limit: undefined,
      maxLineBytes: undefined,
      typed: false,
      reward: undefined,
      log: {} as Log,
      signal: new AbortController().signal,
    });
    const found: (number | undefined)[] = [];
    for await (const _ of source.traces()) found.push(source.ahead.share());
    return found;
  }
  expect(await shares(0)).toEqual([0.6, 0.7]);
  expect(await shares(2)).toEqual([0, 0.25]);
});
