// A run that is interrupted keeps its traces; one of rejects alone leaves its place free for the mended command.
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import { runPaths } from '../../dist/io/files/run-paths.js';
import { resolveInputs } from '../../dist/io/read/inputs.js';
import type { Log } from '../../dist/report/log.js';
import { interruption, openRun } from '../../dist/run/open-run.js';
import { temporaryFolder } from '../support/temporary-folder.js';

it.each([
  ['folder', 0, []],
  ['folder', 3, ['out']],
  ['file', 0, []],
  ['file', 3, [expect.stringMatching(/^\.out\.[0-9a-f]{16}$/)]],
] as const)('a %s with %d traces in its first chunk, interrupted', async (kind, traces, left) => {
  const work = await temporaryFolder();
  const input = join(work, 'in.jsonl');
  await writeFile(input, '{}\n{}\n{}\n{}\n');
  const path = join(work, 'out');
  const stop = new AbortController();
  const run = await openRun(
    { kind, path, format: 'jsonl', rejects: join(work, 'rejects') },
    await resolveInputs([input]),
    {
      ...{ command: 'segment', config: { columns: undefined }, policy: null, vocab: null, passes: null },
      files: undefined,
    },
    { shard: undefined, rowsPerChunk: 4, overwrite: false, limit: undefined, signal: stop.signal },
    {
      isNeeded: false,
      make: async () => ({ rows: 4, traces, rejects: 4, columns: [], groupRewards: new Map(), warnings: [] }),
    },
    {} as Log,
  );
  const hash = 'a'.repeat(64);
  const counts = { rows: 4, traces, rejects: 4 - traces, tokens: 0 };
  const record = {
    ...{ run: hash, chunk: 0, ...counts, traces_per_row: null, figures: {} as never },
    ...{ sha256: hash, rejects_sha256: hash },
  };
  run.chunks.set(0, record);
  const file = runPaths(run.folder as string).record(run.shard, 0);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, JSON.stringify(record));
  stop.abort();
  const said = interruption(run).message;
  await run[Symbol.asyncDispose]();
  expect((await readdir(work)).filter((name) => name !== 'in.jsonl')).toEqual(left);
  expect(said).toMatch(traces === 0 ? /nothing was kept$/ : /1 chunk of 4 rows is kept in/);
});
