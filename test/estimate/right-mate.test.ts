// `posterior --hint mate`: which right completion is told, wherever the group lies, and what becomes of a trace that has none.
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { TraceRejected } from '../../dist/errors.js';
import { candidateOf, type Related } from '../../dist/estimate/far-mates.js';
import { type Window, windowsOf } from '../../dist/estimate/windows.js';
import { withRightMate } from '../../dist/estimate/with-mates.js';
import { isBad } from '../../dist/rows.js';
import { jobOf } from '../support/fake-policy.js';
import { type ScoredRow, storedValues } from '../support/program.js';
import { fixtureRows, openScene } from '../support/scene.js';
import { collect, streamOf, traceAt } from '../support/streams.js';

const { done, fails, rows, write } = await openScene();
type Row = ScoredRow & { readonly hint_logprobs: number[] };

/** A trace of so many tokens of text, and end tokens behind it. */
function related(
  row: number,
  shape: { tokens: number; hidden: number; reward: number | null; name: number },
) {
  const job = jobOf({
    ...shape,
    prompt: 2,
    tokens: shape.tokens + shape.hidden,
    piece: 3,
    maxSegments: 9,
    continuations: [],
  });
  return {
    trace: traceAt(row, { group: 'g', reward: shape.reward }),
    reward: { reward: shape.reward },
    promptIds: Int32Array.of(1, 2),
    completionIds: job.ids.subarray(2),
    ...{ pieces: job.pieces, continuations: [] },
  } satisfies Related;
}

const shapes = fc.array(
  fc.record({
    tokens: fc.integer({ min: 1, max: 6 }),
    hidden: fc.integer({ min: 0, max: 1 }),
    reward: fc.constantFrom(null, 0, 0.5, 0.75, 1),
    name: fc.integer({ min: 1, max: 5 }),
  }),
  { minLength: 1, maxLength: 7 },
);

describe('withRightMate', () => {
  const told = (_: Related, mate: Int32Array) => Int32Array.of(7, ...mate);

  it('tells the shortest right completion that is another one, the first that follows of equal ones, near or far', async () => {
    await fc.assert(
      fc.asyncProperty(shapes, fc.boolean(), async (all, isApart) => {
        const items = all.map((shape, row) => related(row, shape));
        const candidates = items
          .filter(({ reward }) => reward.reward !== null)
          .map((item) => candidateOf<Related>(item, async () => item));
        const windows = windowsOf(streamOf(items), (row) => (isApart ? row : 0));
        const found = (
          await collect(
            withRightMate(windows, isApart ? new Map([['g', candidates]]) : undefined, 'shortest', told),
          )
        ).flatMap(({ items: some }) => some);
        const text = ({ completionIds }: Related, n: number) => completionIds.subarray(0, all[n]?.tokens);
        for (const n of items.keys()) {
          const spelled = (k: number) => items[k]?.completionIds.join();
          // those that follow, the first ones after the last; all in their order for a trace that is no candidate itself
          const known = [...items.keys()].filter((k) => all[k]?.reward !== null);
          const others = [...known.filter((k) => k > n), ...known.filter((k) => k < n)];
          const asked = all[n]?.reward === null ? known : others;
          const mates = asked.filter(
            (k, at) =>
              spelled(k) !== spelled(n) &&
              asked.findIndex((m) => spelled(m) === spelled(k)) === at &&
              (all[k]?.reward as number) > 0.5,
          );
          const least = Math.min(...mates.map((k) => all[k]?.tokens as number));
          const mate = mates.find((k) => all[k]?.tokens === least);
          expect((found[n] as Related).again).toEqual(
            mate === undefined
              ? { hasHint: false }
              : { promptIds: Int32Array.of(7, ...text(items[mate] as Related, mate)) },
          );
        }
      }),
    );
  });

  it('turns a trace down whose prompt has no room for it', async () => {
    const shape = { tokens: 3, hidden: 0, reward: 1 };
    const items = [1, 2].map((name) => related(name - 1, { ...shape, name }));
    const windows = streamOf<Window<Related>>([{ items, guests: [] }]);
    const full = () => {
      throw new TraceRejected('hint_too_long', 'too long');
    };
    const [window] = await collect(withRightMate(windows, undefined, 'similar', full));
    expect(window?.items.map(isBad)).toEqual([true, true]);
  });
});

describe('a file of it', () => {
  const score = 'score bare.jsonl --estimator posterior --hint mate --hint-template mate.json';
  beforeAll(async () => {
    const [wrong, right, ...others] = (await fixtureRows(7, 11)).reverse();
    // one group of two, both right; a wrong trace whose mate is wrong; a trace without a group
    const all = [
      ...others.map((row, n) => ({ ...row, group: `g${n}` })),
      ...[right, wrong].map((row) => ({ ...row, prompt_ids: right?.prompt_ids, group: 'pair', reward: 1 })),
      { ...right, id: 'alone', group: undefined },
    ];
    await write('mate.json', '{"text": "hint {mate}\\n"}');
    await write(
      'bare.jsonl',
      all.map(({ answer: _, solution: __, ...row }) => row),
    );
    await done(`${score} -o mates.jsonl`);
  });

  it('says of a trace without a right mate that it has none, and shares its reward out evenly', async () => {
    const all = await rows<Row>('mates.jsonl');
    expect(all.map(({ status }) => status)).toEqual([
      ...['hint:no-mate;uniform:flat-values', 'hint:no-mate;uniform:flat-values', 'uniform:small-return'],
      ...['uniform:small-return', 'hint:no-mate;uniform:no-baseline'],
    ]);
    for (const row of all.filter(({ status }) => status.includes('hint:no-mate'))) {
      expect(storedValues(row)).toEqual(storedValues(row).map(() => 0.5));
      expect(row.hint_logprobs).toEqual(row.logprobs);
    }
    await done('verify mates.jsonl');
    await done('redistribute mates.jsonl --estimator surprise -o surprise.jsonl');
    expect((await rows('surprise.jsonl')).some(({ status }) => status.includes('hint:'))).toBe(false);
  });

  it('is the same wherever the group lies', async () => {
    await done(`${score} --rows-per-chunk 1 -o apart/ --format jsonl`);
    await done('merge apart/ -o apart.jsonl');
    const [apart, together] = await Promise.all(
      ['apart.jsonl', 'mates.jsonl'].map((name) => rows<Row>(name)),
    );
    for (const [n, row] of (together as Row[]).entries()) {
      // in other company the last bits differ
      const found = apart?.[n] as Row;
      for (const [t, lp] of row.hint_logprobs.entries()) expect(found.hint_logprobs[t]).toBeCloseTo(lp, 4);
    }
    await fails(
      'score - --estimator posterior --hint mate --hint-template mate.json -o no.jsonl',
      2,
      'stdin gives once',
    );
  });
});
