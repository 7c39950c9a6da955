/** Leave one out against whole float64 passes without the segment, over policies of random weights. */
import { describe, expect, it } from 'vitest';
import { OutOfMemoryError } from '../../dist/errors.js';
import {
  type Ablated,
  answerLogprob,
  type KeepsTrunks,
  leaveOneOut,
  withoutSegment,
} from '../../dist/estimate/leave-one-out.js';
import { sharingRoom, sizeOf } from '../../dist/model/onnx/layout.js';
import type { ModelSession } from '../../dist/model/onnx/session.js';
import { deletedLoo, maskedLoo, type OracleTrace } from '../oracle/attribution.js';
import { seeded } from '../oracle/toy.js';
import { FAMILIES, openFamily } from '../support/family-checks.js';

const random = seeded(11);
const randomIds = (length: number) => Int32Array.from({ length }, () => Math.floor(random() * 131));

/** A trace of four segments, of which the second is one token; two references of other lengths. */
function madeTrace(scoredFrom = 2): { ablated: Ablated; oracle: OracleTrace } {
  const ablated: Ablated = {
    promptIds: randomIds(5),
    completionIds: randomIds(26),
    exits: Int32Array.of(2, 8, 9, 15, 20),
    continuations: [
      { ids: randomIds(4), scoredFrom, utility: 1 },
      { ids: randomIds(5), scoredFrom, utility: 0.5 },
    ],
  };
  return {
    ablated,
    oracle: {
      ids: [...ablated.promptIds, ...ablated.completionIds.subarray(0, 20)],
      exits: Array.from(ablated.exits, (exit) => 5 + exit),
      references: ablated.continuations.map(({ ids, utility }) => ({
        ...{ ids: [...ids], utility },
        scored: ids.length - scoredFrom,
      })),
    },
  };
}

/** log p of the references after the whole thought. */
async function logprobsOf(
  session: ModelSession,
  { promptIds, completionIds, exits, continuations }: Ablated,
) {
  const ids = Int32Array.of(...promptIds, ...completionIds);
  const exit = promptIds.length + (exits.at(-1) as number);
  const branches = continuations.map(({ ids: suffix, scoredFrom }) =>
    scoredFrom > 0
      ? { exit, ids: suffix, scoredFrom }
      : { exit: exit - 1, ids: Int32Array.of(ids[exit - 1] as number, ...suffix), scoredFrom: 1 },
  );
  const [scores] = await session.run([{ ids, promptLength: promptIds.length, branches }]);
  return scores?.branches ?? [];
}

describe('leave one out', () => {
  // Mistral's window hides keys by position: a gap has to count
  it.each([
    ['Llama', {}, 2],
    ['Llama', {}, 0],
    ['Qwen2', {}, 2],
    ['Mistral', { sliding_window: 9 }, 2],
  ] as const)(
    '%s %j, scored from %i: what whole passes say, deleted and masked',
    async (family, more, from) => {
      await using opened = await openFamily({ ...FAMILIES[family], ...more });
      const { session, model } = opened;
      const { ablated, oracle } = madeTrace(from);
      const logprobs = await logprobsOf(session, ablated);
      const expected = { deleted: deletedLoo(model, oracle), masked: maskedLoo(model, oracle) };
      for (const loo of ['deleted', 'masked'] as const) {
        const found = await leaveOneOut(session, ablated, logprobs, loo);
        // a first token that is scored follows on the hidden segment's last one in a whole pass, on what is before it in ours
        const told = expected[loo].slice(0, from === 0 && loo === 'masked' ? -1 : undefined);
        for (const [k, a] of told.entries()) expect(found[k]).toBeCloseTo(a, 4);
        // the bank is a set: its order changes nothing
        const turned = { ...ablated, continuations: [...ablated.continuations].reverse() };
        const again = await leaveOneOut(session, turned, [...logprobs].reverse(), loo);
        for (const [k, a] of found.entries()) expect(again[k]).toBeCloseTo(a, 5);
      }
      expect(Math.abs((expected.deleted[0] as number) - (expected.masked[0] as number))).toBeGreaterThan(
        0.01,
      );
    },
  );

  const nobody = () => Promise.reject(new Error('asked'));
  const asked: KeepsTrunks = { keepTrunks: nobody, branches: nobody, release: async () => {} };

  it('asks nothing where no reference earns anything, and nothing counts', async () => {
    const { ablated } = madeTrace();
    const worthless = ablated.continuations.map((each) => ({ ...each, utility: 0 }));
    const zeros = [Float32Array.of(-1, -1), Float32Array.of(-1)];
    for (const continuations of [worthless, []])
      expect([...(await leaveOneOut(asked, { ...ablated, continuations }, zeros, 'deleted'))]).toEqual([
        0, 0, 0, 0,
      ]);
    expect(answerLogprob(zeros, ablated.continuations)).toBeCloseTo(
      Math.log(Math.exp(-2) + 0.5 * Math.exp(-1)),
      6,
    );
  });

  it('a segment without a token before the exit counts for nothing, and is not read again', async () => {
    const { ablated } = madeTrace();
    const batches: number[] = [];
    const session: KeepsTrunks = {
      keepTrunks: async () => {},
      branches: async (_, [own = []]) => {
        batches.push(own.length);
        const none = new Float32Array(0);
        return [{ entropies: none, logprobs: none, branches: own.map(() => Float32Array.of(-3)) }];
      },
      release: async () => {},
    };
    const empty = { ...ablated, exits: Int32Array.of(2, 8, 20, 20) };
    const found = await leaveOneOut(session, empty, [Float32Array.of(-1), Float32Array.of(-1)], 'deleted');
    expect([...found]).toEqual([expect.closeTo(2, 6), expect.closeTo(2, 6), 0]);
    expect(batches).toEqual([4]);
  });

  it('one trace that memory does not hold is turned down alone, and what was kept is freed', async () => {
    const { ablated } = madeTrace();
    const freed: number[] = [];
    const session: KeepsTrunks = {
      keepTrunks: async () => {},
      branches: () => Promise.reject(new OutOfMemoryError('full')),
      release: async (kept) => void freed.push(kept),
    };
    const logprobs = [Float32Array.of(-1), Float32Array.of(-1)];
    await expect(leaveOneOut(session, ablated, logprobs, 'deleted')).rejects.toMatchObject({
      code: 'out_of_memory',
      message: expect.stringContaining('its 25 tokens again'),
    });
    expect(freed).toHaveLength(1);
  });

  it('runs batches of bounded rows; a longer branch is alone', () => {
    const { ablated } = madeTrace();
    const branches = [1, 2, 3, 4].flatMap((k) => withoutSegment(ablated, k, 'deleted'));
    expect(branches.map(({ ids }) => ids.length)).toEqual([16, 17, 15, 16, 9, 10, 4, 5]);
    const lengths = sharingRoom(branches, 26, sizeOf).map((batch) => batch.map(({ ids }) => ids.length));
    expect(lengths).toEqual([[16], [17], [15], [16, 9], [10, 4, 5]]);
  });
});
