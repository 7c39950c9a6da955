// Rows that are written in waves: an interruption ends them.
import { expect, it } from 'vitest';
import { runBatch } from '../../../dist/estimate/answerer/batch.js';
import {
  type ContinueOptions,
  continueTraces,
  type PolicyWrites,
} from '../../../dist/model/decode/continue.js';
import { rowKey } from '../../../dist/model/decode/sampling.js';
import { FakePolicy, jobOf } from '../../support/fake-policy.js';

it('an interruption ends what is being written', async () => {
  const interruption = new AbortController();
  let calls = 0;
  const session = {
    keepPrefixes: async () => {},
    release: async () => {},
    advanceRows: async () => {
      if (++calls === 3) interruption.abort();
      if (calls > 50) throw new Error('nobody has ended it');
      return { ended: [], tokens: 1, isDone: false };
    },
  } as unknown as PolicyWrites;
  const opts: ContinueOptions = {
    ...{ temperature: 1, topP: 1, stops: [], batch: 4 },
    signal: interruption.signal,
  };
  const trace = { ids: Int32Array.of(1, 2, 3), starts: [{ exit: 2, key: 1n, most: 1000 }] };
  await expect(continueTraces(session, [trace as never], opts)).rejects.toThrow('interrupted');
  expect(calls).toBe(3);
});

it('what is kept to be continued has a number that no run beside it has', async () => {
  const scoring = new FakePolicy();
  const written: number[] = [];
  const session = {
    keepPrefixes: async (kept: number) => void written.push(kept),
    release: async () => {},
    advanceRows: async () => ({ ended: [], tokens: 0, isDone: true }),
  } as unknown as PolicyWrites;
  const read: number[] = [];
  const run = scoring.run.bind(scoring);
  scoring.run = (traces, keep = 0) => {
    read.push(keep);
    return run(traces, keep);
  };
  const job = jobOf({ name: 1, prompt: 2, tokens: 8, piece: 2, maxSegments: 9, continuations: [] });
  const trace = { ids: Int32Array.of(1, 2, 3), starts: [{ exit: 2, key: rowKey('a'), most: 1 }] };
  const how = { temperature: 1, topP: 1, stops: [], batch: 4 };
  for (let n = 0; n < 3; n++)
    await Promise.all([runBatch(scoring, [job], 'two-run'), continueTraces(session, [trace], how)]);
  expect(new Set([...read, ...written]).size).toBe(6);
});
