// The peers that a trace is shown, wherever its group lies; which of them it is told of, and what of them is asked.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { mostSimilar } from '../../dist/estimate/alignment.js';
import { answererOf, windowsOf } from '../../dist/estimate/answerer/windows.js';
import type { ValueJob } from '../../dist/estimate/estimator.js';
import {
  candidateOf,
  type FarPeers,
  type Peers,
  type Related,
  withPeers,
} from '../../dist/estimate/peers.js';
import { askSiblings } from '../../dist/estimate/siblings.js';
import { eachTrace, isBad } from '../../dist/rows.js';
import { expectedResult, FakePolicy, fakeStats, type JobShape, jobOf } from '../support/fake-policy.js';
import { collect, streamOf, traceAt } from '../support/streams.js';

type Shaped = Related & { readonly shape: JobShape } & Pick<ValueJob, 'continuations'>;

const SHAPE: JobShape = { name: 1, prompt: 3, tokens: 12, piece: 3, maxSegments: 40, continuations: [] };

/** tokens that the policy takes, more than any trace needs */
const ROOM = 1000;

/** All of one prompt. */
function jobHere(shape: JobShape) {
  const job = jobOf(shape);
  const ids = Int32Array.from(job.ids);
  ids.set(jobOf(SHAPE).ids.subarray(0, SHAPE.prompt));
  return { ...job, ids };
}

function related(
  row: number,
  group: string | undefined,
  shape: JobShape,
  reward: number | null = row % 2,
): Shaped {
  const { ids, promptLength, pieces, asked } = jobHere(shape);
  return {
    shape,
    trace: traceAt(row, { ...(group !== undefined && { group }), reward }),
    reward: { reward },
    promptIds: ids.subarray(0, promptLength),
    completionIds: ids.subarray(promptLength),
    ...{ pieces, continuations: asked.atExits },
  };
}

const named = (names: readonly number[], group = 'g') =>
  names.map((name, n) => related(n, group, { ...SHAPE, name }));

/** Traces with their peers, each window as it is. */
const shown = (
  items: readonly Shaped[],
  {
    far,
    most = 15,
    window = () => 0,
  }: { far?: FarPeers; most?: number; window?: (row: number) => number } = {},
) => withPeers(windowsOf(streamOf(items), window), far, most);
const flat = async (windows: ReturnType<typeof shown>) =>
  (await collect(windows)).flat().filter((item): item is Shaped & Peers => !isBad(item));
const idsOf = ({ peers }: Peers) => peers.map(({ trace }) => trace.id);

/** What `siblings` asks of them. */
async function* asking(windows: ReturnType<typeof shown>, peers: number, peerTokens: number, room = ROOM) {
  for await (const window of windows)
    yield await collect(
      eachTrace(window, (item) => ({
        ...item,
        asked: askSiblings(item as unknown as ValueJob, { peers, peerTokens }, room),
      })),
    );
}
const answered = (windows: ReturnType<typeof asking>) =>
  collect(answererOf(new FakePolicy() as never, undefined, () => 0)(windows));

const shapes = fc.array(
  fc.record({
    name: fc.integer({ min: 1, max: 250 }),
    prompt: fc.constant(3),
    tokens: fc.integer({ min: 1, max: 30 }),
    piece: fc.integer({ min: 2, max: 9 }),
    maxSegments: fc.integer({ min: 1, max: 4 }),
    continuations: fc.array(fc.record({ length: fc.constant(3), scoredFrom: fc.constant(1) }), {
      maxLength: 2,
    }),
  }),
  { minLength: 2, maxLength: 6 },
);

describe('siblings asks', () => {
  it('for the tails of the most similar peers at every exit, and for their own tokens', () =>
    fc.assert(
      fc.asyncProperty(shapes, fc.integer({ min: 1, max: 5 }), async (all, peerTokens) => {
        const items = all.map((shape, n) => related(n, 'g', shape));
        const found = await answered(asking(shown(items), 2, peerTokens));
        expect(found).toHaveLength(items.length);
        for (const item of found) {
          if (isBad(item)) throw new Error('set aside');
          const { job, result } = item;
          const { peers } = job.asked;
          const whole = jobHere(job.shape);
          expect(result).toMatchObject(expectedResult(job.shape, whole));
          // two shapes may make one completion, which is one peer, and none of its own
          const distinct = new Set(items.map(({ completionIds }) => completionIds.join()));
          expect(peers).toHaveLength(Math.min(2, distinct.size - 1));
          for (const [k, exit] of result.segmentation.exits.entries()) {
            const before = whole.ids.subarray(0, whole.promptLength + exit);
            const place = [...job.pieces.ends].indexOf(exit) + 1;
            const tails = peers.flatMap(({ completionIds, at }) => {
              const tail = completionIds.subarray(at[place], (at[place] as number) + peerTokens);
              return tail.length === 0 ? [] : [fakeStats([...before, ...tail], before.length).logprobs];
            });
            expect(result.tails?.[k]).toEqual(tails);
          }
          for (const [n, { promptIds, completionIds }] of peers.entries())
            expect(result.peers?.[n]).toEqual(
              fakeStats([...promptIds, ...completionIds], promptIds.length).logprobs,
            );
        }
      }),
      { numRuns: 40 },
    ));

  it('nobody whose thought has so many pieces that aligning the two would not fit into memory', () => {
    const { pieces } = jobOf({ ...SHAPE, tokens: 2 });
    const thought = (P: number) => ({
      completionIds: new Int32Array(P),
      pieces: { ...pieces, ends: Int32Array.from({ length: P }, (_, k) => k + 1) },
    });
    expect(mostSimilar(thought(5000), [thought(4000)], 1)).toEqual([]);
    expect(mostSimilar(thought(2), [thought(2)], 1)).toHaveLength(1);
  });
});

describe('withPeers', () => {
  it('shows none of another group or prompt, of unknown reward, nor the trace itself; without a group there is none', async () => {
    const found = await flat(
      shown([
        related(0, 'a', SHAPE),
        related(1, 'a', { ...SHAPE, name: 2 }),
        related(2, 'a', { ...SHAPE, name: 3 }, null),
        related(3, 'b', SHAPE),
        related(4, undefined, SHAPE),
        { ...related(5, 'a', SHAPE), promptIds: Int32Array.of(1, 2, 3) },
        { ...related(6, 'a', SHAPE), promptIds: Int32Array.of(1, 2) },
      ]),
    );
    expect(found.map(idsOf)).toEqual([['1'], ['0'], ['0', '1'], [], [], [], []]);
  });

  it('shows one of a completion that has several ids, near or far, and none of its own', async () => {
    // two traces, each twice, and a third one
    const items = named([1, 2, 1, 2, 3]);
    const candidates = items.map((item) => candidateOf(item, async () => item));
    const near = await flat(shown(items));
    const far = await flat(shown(items.slice(0, 2), { far: new Map([['g', candidates]]) }));
    const expected = [
      ['1', '4'],
      ['2', '4'],
      ['3', '4'],
      ['0', '4'],
      ['0', '1'],
    ];
    expect(near.map((item) => idsOf(item).sort())).toEqual(expected);
    // whichever of two rows with one completion follows first
    expect(far.map((item) => idsOf(item).sort())).toEqual([
      ['1', '4'],
      ['2', '4'],
    ]);
    // both of a completion were drawn
    for (const item of [...near, ...far]) {
      expect(item.draws).toBe(item.trace.id === '4' ? 1 : 2);
      for (const { trace, draws } of item.peers) expect(draws).toBe(trace.id === '4' ? 1 : 2);
    }
  });

  it('shows no second row of the same id: it is the trace itself again', async () => {
    const [first, second, other] = named([1, 2, 3]) as [Shaped, Shaped, Shaped];
    const twice = { ...second, trace: { ...second.trace, id: first.trace.id } };
    expect((await flat(shown([first, twice, other]))).map(idsOf)).toEqual([['2'], ['2'], ['0']]);
  });

  it('finds those that lie apart for a trace of unknown reward that no other of its group stands beside', async () => {
    const items = [0, 1, 2].map((n) => related(n, 'g', { ...SHAPE, name: n + 1 }, n === 0 ? null : 1));
    const far = new Map([['g', items.slice(1).map((item) => candidateOf(item, async () => item))]]);
    const [first] = await flat(shown(items, { far, window: (row) => row }));
    expect(first && idsOf(first)).toEqual(['1', '2']);
  });

  it('reads no more of a far-flung group than a trace is compared with, each once a window', async () => {
    const items = named(Array.from({ length: 100 }, (_, n) => n + 1));
    const read: string[] = [];
    const candidates = items.map((item) =>
      candidateOf(item, async () => {
        read.push(item.trace.id);
        return item;
      }),
    );
    await flat(shown(items.slice(90, 92), { far: new Map([['g', candidates]]) }));
    // 90 is compared with 91 and fourteen more, 91 with these and one more; behind the last comes the first
    expect(read).toEqual([...'23456789'].map((n) => `9${n}`).concat([...'0123456']));
    expect(new Set((await flat(shown(items, { most: 20 }))).map(({ peers }) => peers.length))).toEqual(
      new Set([20]),
    );
  });
});

it('a window of very many traces is cut between rows', async () => {
  const many = (counts: readonly number[]) =>
    counts.flatMap((count, row) =>
      Array.from({ length: count }, () => related(row, 'g', { ...SHAPE, tokens: 2 })),
    );
  const sizes = async (items: readonly Shaped[]) =>
    (await collect(windowsOf(streamOf(items), () => 0))).map(({ length }) => length);
  expect(await sizes(many([250, 10, 5]))).toEqual([260, 5]);
  expect(await sizes(many([100, 156, 1]))).toEqual([256, 1]);
  expect(await sizes(many([5000, 1]))).toEqual([5000, 1]);
});
