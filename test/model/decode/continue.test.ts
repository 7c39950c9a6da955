// Rows that are written in waves: an interruption ends them.
import { expect, it } from 'vitest';
import {
  type ContinueOptions,
  continueTraces,
  type PolicyWrites,
} from '../../../dist/model/decode/continue.js';

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
