// A command's inputs as it is told of them: how much is still to come.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { Run } from '../../../dist/commands/job/open-run.js';
import { openSource } from '../../../dist/commands/job/source.js';
import { WHOLE } from '../../../dist/io/layout/chunks.js';
import { resolveInputs } from '../../../dist/io/read/inputs.js';
import type { ReadRows } from '../../../dist/io/read/peek.js';
import type { Log } from '../../../dist/report/log.js';
import { inputRow, temporaryFolder } from '../../support/io-helpers.js';

it('counts what a resumed run skips as neither done nor to come', async () => {
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
      run: { before: { traces, rejects: 0 }, wanted: () => true, shard: WHOLE } as unknown as Run,
      read,
      map: { mapped: new Map(), defaults: new Map() },
      needs: { prompt: false, references: false },
      limit: undefined,
      maxLineBytes: undefined,
      typed: false,
      columnar: null,
      assertUnchanged: async () => {},
      log: {} as Log,
    });
    const found: (number | undefined)[] = [];
    for await (const _ of source.traces()) found.push(source.expected.share());
    return found;
  }
  expect(await shares(0)).toEqual([0.6, 0.7]);
  expect(await shares(2)).toEqual([0, 0.25]);
});
