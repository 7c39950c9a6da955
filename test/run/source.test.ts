// A command's inputs as it is told of them: how much is still to come.

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { parseFieldMap } from '../../dist/io/map/fields.js';
import { resolveInputs } from '../../dist/io/read/inputs.js';
import type { ReadRows } from '../../dist/io/read/peek.js';
import type { Log } from '../../dist/report/log.js';
import { isBad } from '../../dist/rows.js';
import type { Prescan } from '../../dist/run/prescan.js';
import { openSource, type Source } from '../../dist/run/source.js';
import { inputRow, temporaryFolder } from '../support/io-helpers.js';

async function* ordinals(source: Source): AsyncGenerator<{ readonly ordinal: number }> {
  for await (const item of source.traces()) yield isBad(item) ? item : item.trace.source;
}

/** A source of inputs of which so many traces are done. */
async function sourceOf(paths: readonly string[], traces: number, read: ReadRows) {
  const inputs = await resolveInputs(paths);
  return openSource(inputs, {
    run: {
      prescan: { rows: 4 } as Prescan,
      rowsPerPart: 64,
      shards: 1,
      folder: undefined,
      wanted: () => true,
    },
    done: traces,
    read,
    map: parseFieldMap(undefined),
    needs: { prompt: false, references: false },
    limit: undefined,
    maxLineBytes: undefined,
    typed: false,
    columnar: null,
    assertUnchanged: async () => {},
    log: {} as Log,
  });
}

it('counts what a resumed run skips as neither done nor to come', async () => {
  const path = join(await temporaryFolder(), 'in.jsonl');
  await writeFile(path, '{}'.padEnd(1000));
  // two rows are an earlier attempt's
  const read: ReadRows = async function* () {
    for (const ordinal of [2, 3]) yield { ...inputRow({ completion: 'c' }), ordinal };
  };
  const source = await sourceOf([path], 2, read);
  const found: (number | undefined)[] = [];
  for await (const { ordinal } of ordinals(source)) found.push(source.expected.share(ordinal));
  expect(found).toEqual([0.5, 1]);
});
