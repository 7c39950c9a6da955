// Windows with mates: each trace gets those most like it, tails are scored at every exit in one run and in two, and guests run along.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  candidateOf,
  type FarMates,
  groupsApart,
  keepFarMates,
  type Related,
  type WindowLayout,
} from '../../dist/estimate/far-mates.js';
import { chooseMates } from '../../dist/estimate/mates.js';
import { type PassJob, scoreWindows, type Window, windowsOf } from '../../dist/estimate/windows.js';
import { withMates } from '../../dist/estimate/with-mates.js';
import { isBad } from '../../dist/rows.js';
import { openSpill } from '../../dist/scored/scratch.js';
import { candidateExits } from '../../dist/segment/segment.js';
import { expectedResult, FakePolicy, fakeStats, type JobShape, jobOf } from '../support/fake-policy.js';
import { collect, streamOf, traceAt } from '../support/streams.js';
import { temporaryFolder } from '../support/temporary-folder.js';

type Shaped = Related & { readonly shape: JobShape };

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
  const { ids, promptLength, pieces, continuations } = jobHere(shape);
  return {
    shape,
    trace: traceAt(row, { ...(group !== undefined && { group }), reward }),
    reward: { reward },
    promptIds: ids.subarray(0, promptLength),
    completionIds: ids.subarray(promptLength),
    ...{ pieces, continuations },
  };
}

/** One window, whole, all of it this process's. */
const layout = (change: Partial<WindowLayout>): WindowLayout => ({
  windowOf: () => 0,
  isOwn: () => true,
  explodes: false,
  lastRow: undefined,
  ...change,
});

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

type Windows = Parameters<typeof withMates>;

/** Traces of one window with their mates. */
const inOne = (
  items: readonly Shaped[],
  opts: Windows[2] = { mates: 9, mateTokens: 4 },
  { far, room = ROOM }: { far?: Windows[1]; room?: number } = {},
) =>
  withMates(
    windowsOf(streamOf(items), () => 0),
    far,
    opts,
    room,
  );
const matesIn = (window: Awaited<ReturnType<typeof windowIn>>) =>
  window.items.map((item) => (isBad(item) ? [] : item.needs?.map(({ id }) => id)));
const windowIn = async (...args: Parameters<typeof inOne>) => {
  const [window, ...others] = await collect(inOne(...args));
  if (window === undefined || others.length > 0) throw new Error('expected one window');
  return window;
};

describe('withMates', () => {
  it.each(['one-run', 'two-run', 'auto'] as const)(
    '%s: scores the tails of the mates at every exit',
    async (strategy) => {
      await fc.assert(
        fc.asyncProperty(shapes, fc.integer({ min: 1, max: 5 }), async (all, mateTokens) => {
          const items = all.map((shape, n) => related(n, 'g', shape));
          const opts = { mates: 2, mateTokens };
          const scored = await collect(scoreWindows(inOne(items, opts), new FakePolicy(), { strategy }));
          expect(scored).toHaveLength(items.length);
          for (const item of scored) {
            if (isBad(item)) throw new Error('set aside');
            const { job, result, needed } = item;
            const whole = jobHere(job.shape);
            expect(result).toMatchObject(expectedResult(job.shape, whole));
            // two shapes may make one completion, which is one mate, and none of its own
            const distinct = new Set(items.map(({ completionIds }) => completionIds.join()));
            expect(job.mates).toHaveLength(Math.min(2, distinct.size - 1));
            for (const [k, exit] of result.segmentation.exits.entries()) {
              const before = whole.ids.subarray(0, whole.promptLength + exit);
              const place = [...job.pieces.ends].indexOf(exit) + 1;
              const tails = job.mates.flatMap(({ mate, at }) => {
                const tail = mate.completionIds.subarray(at[place], (at[place] as number) + mateTokens);
                return tail.length === 0 ? [] : [fakeStats([...before, ...tail], before.length).logprobs];
              });
              expect(result.tails?.[k]).toEqual(tails);
            }
            for (const [n, { mate }] of job.mates.entries()) {
              const other = items.find(({ completionIds }) => completionIds === mate.completionIds) as Shaped;
              const { ids, promptLength } = jobHere(other.shape);
              expect(needed[n]).toEqual(fakeStats([...ids], promptLength).logprobs);
            }
          }
        }),
        { numRuns: 40 },
      );
    },
  );

  it('takes no mate of another group or prompt, of unknown reward, nor the trace itself; without a group there is none', async () => {
    const items = [
      related(0, 'a', SHAPE),
      related(1, 'a', { ...SHAPE, name: 2 }),
      related(2, 'a', { ...SHAPE, name: 3 }, null),
      related(3, 'b', SHAPE),
      related(4, undefined, SHAPE),
      { ...related(5, 'a', SHAPE), promptIds: Int32Array.of(1, 2, 3) },
      { ...related(6, 'a', SHAPE), promptIds: Int32Array.of(1, 2) },
    ];
    const window = await windowIn(items);
    expect(matesIn(window)).toEqual([['1'], ['0'], ['0', '1'], [], [], [], []]);
    expect(window.guests).toEqual([]);
  });

  it('turns a trace down where a tail has no room behind it, and lets it be a mate all the same', async () => {
    const far = { mates: 2, mateTokens: 6 };
    const rejected: number[] = [];
    await fc.assert(
      fc.asyncProperty(shapes, fc.integer({ min: 33, max: 40 }), async (all, room) => {
        // the first one has no mate, however long it is
        const items = all.map((shape, n) => related(n, n === 0 ? undefined : 'g', shape));
        const windowsFor = (room: number) => inOne(items, far, { room });
        const [free] = await collect(windowsFor(ROOM));
        const scored = await collect(scoreWindows(windowsFor(room), new FakePolicy()));
        expect(scored).toHaveLength(items.length);
        for (const [n, item] of scored.entries()) {
          const { promptIds, pieces, tails, needs } = (free as Window<PassJob>).items[n] as PassJob;
          const most = Math.max(
            0,
            ...[...candidateExits(pieces)].flatMap((exit) =>
              (tails?.(exit) ?? []).map(({ length }) => promptIds.length + exit + length),
            ),
          );
          expect(isBad(item)).toBe(most > room);
          if (!isBad(item)) expect(item.needed.map((own) => own?.length)).toEqual(needs?.map(lengthOf));
          else {
            rejected.push(most - room);
            const { code, reason } = item.rejection;
            const fits = far.mateTokens - (most - room);
            expect(code).toBe('too_long');
            expect(reason).toMatch(fits > 0 ? `: --mate-tokens ${fits}, or --policy` : ': --policy');
          }
        }
        function lengthOf({ id }: { readonly id: string }): number | undefined {
          return items[Number(id)]?.completionIds.length;
        }
      }),
    );
    expect(rejected.length).toBeGreaterThan(0);
  });

  it('takes one mate of a completion that has several ids, near or far, and none of its own', async () => {
    // two traces, each twice, and a third one
    const items = [1, 2, 1, 2, 3].map((name, n) => related(n, 'g', { ...SHAPE, name }));
    const candidates = items.map((item) => candidateOf(item, async () => item));
    for (const far of [undefined, new Map([['g', candidates]])]) {
      const near = far === undefined ? items : items.slice(0, 2);
      const window = await windowIn(near, undefined, far === undefined ? {} : { far });
      const ids = window.items.map((item) => (isBad(item) ? [] : item.needs?.map(({ id }) => id).sort()));
      const [first, second] = [
        ['1', '4'],
        ['2', '4'],
      ];
      expect(ids?.slice(0, 2)).toEqual([first, second]);
      // both of a completion were drawn
      for (const item of window.items ?? []) {
        if (isBad(item)) throw new Error('set aside');
        const nth = Number(item.trace.id);
        expect(item.draws).toBe(nth === 4 ? 1 : 2);
        for (const [k, { id }] of (item.needs ?? []).entries())
          expect(item.mates[k]?.draws).toBe(id === '4' ? 1 : 2);
      }
      if (far === undefined)
        expect(ids?.slice(2)).toEqual([
          ['3', '4'],
          ['0', '4'],
          ['0', '1'],
        ]);
    }
  });

  it('takes no second row of the same id, near or far: it is the trace itself again', async () => {
    const shapes = [1, 2, 3].map((name) => ({ ...SHAPE, name }));
    const items = shapes.map((shape, n) => related(n, 'g', shape));
    const [first, , other] = items as [Shaped, Shaped, Shaped];
    const twice = [
      first,
      { ...items[1], trace: { ...(items[1] as Shaped).trace, id: first.trace.id } } as Shaped,
      other,
    ];
    const window = await windowIn(twice);
    expect(matesIn(window)).toEqual([['2'], ['2'], ['0']]);
  });

  it('brings guests from other windows, which run along and are not passed on', async () => {
    const path = `${await temporaryFolder()}/spill`;
    const items = Array.from({ length: 6 }, (_, n) =>
      related(n, n % 2 === 0 ? 'even' : `odd ${n}`, { ...SHAPE, name: n + 1 }),
    );
    const rewards = new Map([
      ['even', { squares: 0, sum: 0, count: 3, span: [0, 4] as const }],
      ['odd 1', { squares: 0, sum: 1, count: 1, span: [1, 1] as const }],
    ]);
    const windowOf = (row: number) => Math.floor(row / 2);
    const apart = groupsApart(rewards, layout({ windowOf }));
    expect([...apart.groups]).toEqual(['even']);
    expect([0, 1, 4, 5].map((row) => apart.wanted(row))).toEqual([true, true, true, false]);
    const spill = await openSpill(path);
    const far: FarMates = await keepFarMates(streamOf(items), apart.groups, spill);
    const asked = withMates(windowsOf(streamOf(items), windowOf), far, { mates: 1, mateTokens: 4 }, ROOM);
    const windows: Window<Shaped & { readonly needs?: readonly { readonly id: string }[] }>[] =
      await collect(asked);
    expect(windows.map(({ guests }) => guests.length)).toEqual([1, 1, 1]);
    const policy = new FakePolicy();
    const scored = await collect(scoreWindows(streamOf(windows), policy));
    expect(scored.map((item) => (isBad(item) ? null : item.trace.id))).toEqual([
      '0',
      '1',
      '2',
      '3',
      '4',
      '5',
    ]);
    for (const item of scored) {
      if (isBad(item) || item.job.needs?.length !== 1) continue;
      const mate = items.find(({ trace }) => trace.id === item.job.needs?.[0]?.id) as Shaped;
      const { ids, promptLength } = jobHere(mate.shape);
      expect(item.needed).toEqual([fakeStats([...ids], promptLength).logprobs]);
    }
    await spill.close();
  });

  it('leaves groups out that no row of this process has a part in', () => {
    const rewards = new Map([['g', { squares: 0, sum: 0, count: 2, span: [0, 9] as const }]]);
    const windowOf = (row: number) => row;
    expect(groupsApart(rewards, layout({ windowOf, isOwn: () => false })).groups.size).toBe(0);
    expect(groupsApart(rewards, layout({})).groups.size).toBe(0);
  });

  it('keeps groups that a limit cuts or a window of many traces may part, and no row behind a limit', () => {
    const rewards = new Map([
      ['one row', { squares: 0, sum: 0, count: 8, span: [0, 0] as const }],
      ['before', { squares: 0, sum: 0, count: 2, span: [1, 2] as const }],
      ['cut', { squares: 0, sum: 0, count: 1, span: [2, 5] as const }],
      ['unknown', { squares: 0, sum: 0, count: 0, span: [2, 5] as const }],
      ['behind', { squares: 0, sum: 0, count: 2, span: [3, 90] as const }],
    ]);
    const apart = (change: Partial<WindowLayout>) => [...groupsApart(rewards, layout(change)).groups];
    expect(apart({})).toEqual([]);
    expect(apart({ lastRow: 2 })).toEqual(['cut']);
    expect(apart({ lastRow: 0, explodes: true })).toEqual(['one row']);
    expect(apart({ explodes: true })).toEqual(['before', 'cut', 'behind']);
    expect(apart({ lastRow: 2, windowOf: (row) => row })).toEqual(['before', 'cut']);
  });

  it('finds far mates for a trace of unknown reward that no other of its group stands beside', async () => {
    const items = [0, 1, 2].map((n) => related(n, 'g', { ...SHAPE, name: n + 1 }, n === 0 ? null : 1));
    const far: FarMates = new Map([['g', items.slice(1).map((item) => candidateOf(item, async () => item))]]);
    const windows = await collect(
      withMates(
        windowsOf(streamOf(items), (row) => row),
        far,
        { mates: 9, mateTokens: 4 },
        ROOM,
      ),
    );
    const [first] = windows[0]?.items ?? [];
    expect(first && !isBad(first) && first.needs?.map(({ id }) => id)).toEqual(['1', '2']);
  });

  it('reads no more of a far-flung group than a trace is compared with, each once a window', async () => {
    const items = Array.from({ length: 100 }, (_, n) => related(n, 'g', { ...SHAPE, name: n + 1 }));
    const read: string[] = [];
    const candidates = items.map((item) =>
      candidateOf(item, async () => {
        read.push(item.trace.id);
        return item;
      }),
    );
    const far: FarMates = new Map([['g', candidates]]);
    const window = await windowIn(items.slice(90, 92), { mates: 3, mateTokens: 4 }, { far });
    // 90 is compared with 91 and fourteen more, 91 with these and one more; behind the last comes the first
    const expected = ['92', '93', '94', '95', '96', '97', '98', '99', '0', '1', '2', '3', '4', '5', '6'];
    expect(read).toEqual(expected);
    expect(window.guests.every(({ trace }) => expected.includes(trace.id))).toBe(true);
  });

  it('compares as many others as a trace may have mates', async () => {
    const items = Array.from({ length: 30 }, (_, n) => related(n, 'g', { ...SHAPE, name: n + 1 }));
    const given = async (mates: number) => {
      const { items: all } = await windowIn(items, { mates, mateTokens: 4 });
      return all.map((item) => (isBad(item) ? 0 : item.mates.length));
    };
    expect(new Set(await given(20))).toEqual(new Set([20]));
    expect(new Set(await given(40))).toEqual(new Set([29]));
  });
});

describe('windowsOf', () => {
  it('cuts a window of very many traces where a group ends', async () => {
    const many = (groups: readonly number[]) =>
      groups.flatMap((count, g) =>
        Array.from({ length: count }, (): PassJob => related(0, `${g}`, { ...SHAPE, tokens: 2 })),
      );
    const sizes = async (items: readonly PassJob[]) =>
      (await collect(windowsOf(streamOf(items), () => 0))).map(({ items: own }) => own.length);
    expect(await sizes(many([250, 10, 5]))).toEqual([260, 5]);
    expect(await sizes(many([100, 156, 1]))).toEqual([256, 1]);
    expect(await sizes(many([5000]))).toEqual([4096, 904]);
  });
});

it('two thoughts of so many pieces that aligning them would not fit into memory are no mates', () => {
  const piece = { ids: Int32Array.of(1), counts: Int32Array.of(1) };
  const thought = (pieces: number) => ({
    completionIds: new Int32Array(pieces),
    pieces: jobOf({ ...SHAPE, tokens: 2 }).pieces,
    bags: new Array(pieces).fill(piece),
  });
  expect(chooseMates(thought(5000), [thought(4000)], 1)).toEqual([]);
  expect(chooseMates(thought(2), [thought(2)], 1)).toHaveLength(1);
});
