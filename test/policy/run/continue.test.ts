// Rows that are written in waves: an interruption ends them, and what was begun is ended in any case.
import { expect, it } from 'vitest';
import {
  type ContinueOptions,
  continueTraces,
  type PolicyWrites,
} from '../../../dist/policy/run/continue.js';

/** Writes one token a call and never ends; tells what was begun and ended. */
function endless(onAdvance: (calls: number) => void) {
  const [begun, ended]: [number[], number[]] = [[], []];
  let calls = 0;
  const session = {
    keepTrunks: async () => {},
    release: async () => {},
    beginRows: async (id: number) => void begun.push(id),
    advanceRows: async () => {
      onAdvance(++calls);
      if (calls > 50) throw new Error('nobody has ended it');
      return { ended: [], tokens: 1, isDone: false };
    },
    endRows: async (id: number) => void ended.push(id),
  } as unknown as PolicyWrites;
  return { session, begun, ended };
}

it('an interruption ends what is being written, and frees its rows', async () => {
  const interruption = new AbortController();
  const { session, begun, ended } = endless((calls) => {
    if (calls === 3) interruption.abort();
  });
  const opts: ContinueOptions = {
    ...{ temperature: 1, topP: 1, stops: [], batch: 4 },
    signal: interruption.signal,
  };
  const trace = { ids: Int32Array.of(1, 2, 3), starts: [{ exit: 2, key: 1n, most: 1000 }] };
  await expect(continueTraces(session, [trace as never], opts)).rejects.toThrow('interrupted');
  expect(begun).toHaveLength(1);
  expect(ended).toEqual(begun);
});
