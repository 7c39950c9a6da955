// `--references group`: a group's correct completions are the references of their peers, never of themselves.
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { GroupReferences, referenceSetMaker, referencesOf } from '../../dist/estimate/references.js';
import type { Reference, Trace } from '../../dist/trace.js';
import { named } from '../support/estimators.js';
import { traceOf } from '../support/io-helpers.js';
import type { FixtureRow } from '../support/program.js';
import { fixtureRows, jsonLines, openScene } from '../support/scene.js';

const TEMPLATE = { close: '</think>\n', open: 'answer: ', closer: '\n' };
const text = (answer: string, thought = 'hm') => `<think>\n${thought}\n</think>\nanswer: ${answer}\n`;
const trace = (group: string, completion: string): Trace => ({ ...traceOf({}), group, completion });

/** The references of groups, of which traces are named by group and completion. */
function groupsOf(
  estimator: string,
  { template = TEMPLATE, limit }: { template?: object; limit?: number } = {},
) {
  const textOf = ({ completion }: Trace) => completion;
  const all = new GroupReferences(template as typeof TEMPLATE, named(estimator), textOf, limit);
  return {
    all,
    add: (completion: string, reward: number | null, group = 'g') =>
      all.add(trace(group, completion), reward),
    peers: (completion: string, reward: number | null, group = 'g') =>
      all.peers(trace(group, completion), reward),
  };
}

describe('GroupReferences', () => {
  it('snis: has the wrong answers too, at utility 0, and not the own one', () => {
    const { all, add, peers } = groupsOf('snis');
    for (const [answer, reward] of [
      ['7', 1],
      ['8', 0],
      ['8', 0.25],
      ['9', 0],
      ['5', null],
    ] as const)
      add(text(answer), reward);
    const of = (answer: string, reward: number) =>
      peers(text(answer), reward).map((peer) => [peer.answer, peer.utility]);
    expect(of('7', 1)).toEqual([
      ['8', 0],
      ['9', 0],
    ]);
    expect(of('9', 0)).toEqual([
      ['7', 1],
      ['8', 0],
    ]);
    expect(of('8', 0).length).toBe(3);
    // no peer is right: the row's own references stand against the wrong ones
    const own = { ...trace('g', text('7')), references: [{ answer: '7.0', utility: 1 }] };
    expect(referencesOf(own, 1, all)).toEqual({
      references: [
        { answer: '7.0', utility: 1 },
        { answer: '8', utility: 0 },
        { answer: '9', utility: 0 },
      ],
      referenceStatus: ['references:row'],
    });
    expect(referencesOf({ ...own, references: [] }, 1, all).referenceStatus).toEqual([
      'uniform:no-references',
    ]);
    // many wrong answers do not crowd out a right one
    for (let n = 0; n < 100; n++) add(text(`wrong ${n}`), 0, 'many');
    add(text('7'), 1, 'many');
    expect(peers(text('8'), 0, 'many').filter(({ utility }) => utility === 1)).toHaveLength(1);
    expect(peers(text('8'), 0, 'many')).toHaveLength(65);
  });

  it('keeps the thoughts where the estimator reads them', () => {
    const { add, peers } = groupsOf('joint');
    add(text('7', 'one way'), 1);
    add(text('7', 'another'), 1);
    add('Then 3+4.\nA: 7', 1);
    expect(peers(text('7', 'one way'), 1)).toEqual([
      { answer: '7', solution: 'another\n', utility: 1 },
      { answer: '7', solution: 'Then 3+4.\n', utility: 1 },
    ]);
  });

  it.each([
    ['3+4 is 7.\nSo: The answer is 7', '3+4 is 7.\n'],
    ['3+4.\nThus we have \\boxed{7}, as said', '3+4.\n'],
    ['A: 6?\nNo.\nA: 7', 'A: 6?\nNo.\n'],
    ['It is 3+4, so \\boxed{7}', ''],
    ['It is 3+4.\n Final Answer: The final answer is $7$. I hope it is correct.', 'It is 3+4.\n'],
  ])('leaves the whole line out in whose middle the answer stands: %j', (completion, solution) => {
    const { add, peers } = groupsOf('joint');
    add(completion, 1);
    expect(peers(text('8'), 0)).toEqual([{ answer: '7', solution, utility: 1 }]);
  });

  it('keeps a thought as it was sampled, line breaks at its end included', () => {
    for (const thought of ['a: 1\nb: 2\n', 'a: 1\nb: 2', 'a: 1 \n\n'])
      for (const [before, close] of [
        ['<think>\n', '</think>'],
        [' <think>', '</think>'],
        ['', '</think>'],
        ['<reasoning>\n\n', '</reasoning>'],
        ['[[', ']]'],
      ]) {
        const { add, peers } = groupsOf('joint', { template: { ...TEMPLATE, thoughtTags: ['[[', ']]'] } });
        add(`${before}${thought}${close}\nanswer: 7\n`, 1);
        expect(peers(text('8'), 0)).toEqual([{ answer: '7', solution: thought, utility: 1 }]);
      }
  });

  it('agrees with looking at all peers one by one', () => {
    const completion = fc.record({
      answer: fc.constantFrom('1', '2', '2.0', '3'),
      reward: fc.constantFrom(0, 0.25, 0.75, 1, null),
    });
    fc.assert(
      fc.property(fc.array(completion, { minLength: 1, maxLength: 12 }), (group) => {
        const { add, peers } = groupsOf('pr');
        for (const { answer, reward } of group) add(text(answer), reward);
        for (const [i, own] of group.entries()) {
          const expected = new Map<string, number>();
          for (const [j, { answer, reward }] of group.entries())
            if (i !== j && reward !== null && reward > 0.5)
              expected.set(answer, Math.max(reward, expected.get(answer) ?? 0));
          const found = peers(text(own.answer), own.reward);
          expect(new Map(found.map((peer) => [peer.answer, peer.utility]))).toEqual(expected);
          expect(found.length).toBe(expected.size);
        }
      }),
      { numRuns: 300 },
    );
  });

  it('is bounded: 64 entries a group, and memory in all', () => {
    const { all, add, peers } = groupsOf('pr', { limit: 1000 });
    for (let n = 0; n < 70; n++) add(text(String(n)), 1);
    expect(peers(text('x'), 0).length).toBe(64);
    all.reach('g');
    all.reach('h');
    expect(() => add(text('1'.repeat(2000)), 1, 'h')).toThrow(/over 1000 characters/);
  });
});

const encode = (written: string) => Int32Array.from(Buffer.from(written));

describe('the reference set', () => {
  it('turns a trace down whose reference has no token to score; another failure is told as it is', async () => {
    const bare = await referenceSetMaker({ ...TEMPLATE, closer: '' }, named('pr'), encode);
    await expect(bare([{ answer: '', utility: 1 }])).rejects.toMatchObject({
      code: 'no_reference',
      message: expect.stringContaining('no token to score') as string,
    });
    const broken = await referenceSetMaker(TEMPLATE, named('pr'), (written) => {
      if (written.includes('broken')) throw new Error('the tokenizer is gone');
      return encode(written);
    });
    await expect(broken([{ answer: 'broken', utility: 1 }])).rejects.toThrow('the tokenizer is gone');
  });
});

describe('the reference set of joint', () => {
  const ours = async (estimator: 'joint' | 'pr', ...references: Reference[]) =>
    (await referenceSetMaker(TEMPLATE, named(estimator), encode))(references);
  const whole: Reference = { answer: '7', solution: 'a: 3+4=7\n', utility: 1 };

  it('leaves out, with a status, who has no solution: u = "" would outweigh the others', async () => {
    for (const bare of [
      { answer: '7', utility: 1 },
      { answer: '7', solution: ' \n', utility: 1 },
    ]) {
      expect(await ours('joint', bare, whole)).toMatchObject({
        referenceSet: [whole],
        status: ['references:no-solution'],
      });
      expect((await ours('joint', bare, whole)).continuations).toHaveLength(1);
      await expect(ours('joint', bare)).rejects.toThrow(/no reference has a solution/);
      // what does not read u takes them as they are
      expect(await ours('pr', bare)).toMatchObject({ referenceSet: [bare], status: [] });
    }
    expect((await ours('joint', whole)).status).toEqual([]);
    await expect(ours('joint', { ...whole, utility: 0 })).rejects.toThrow(/utility above 0/);
  });
});

describe('rredcot score --references group', async () => {
  const { done, rows: rowsOf, write } = await openScene();
  type Out = {
    id: string;
    status: string;
    sigma: number[];
    value_start: number;
    reference_logprobs: number[][];
    reference_utilities: number[];
  };
  let rows: FixtureRow[];
  const made = new Set<string>();
  /** Scored once for all that look at it. */
  const score = async (name: string, flags: string): Promise<Out[]> => {
    const out = `${name}.${flags.length}.out.jsonl`;
    if (!made.has(out)) await done(`score ${name}.jsonl -o ${out} ${flags}`);
    made.add(out);
    return rowsOf<Out>(out);
  };
  const bare = (all: readonly FixtureRow[]) => all.map(({ answer, solution, ...row }) => row);
  beforeAll(async () => {
    const all = await fixtureRows(0, 512);
    // two groups with both rewards
    const mixed = [...new Set(all.map((row) => row.group))].filter((group) => {
      const rewards = all.filter((row) => row.group === group).map((row) => row.reward);
      return rewards.includes(0) && rewards.filter((reward) => reward === 1).length > 1;
    });
    rows = all.filter((row) => mixed.slice(0, 2).includes(row.group));
    await write('all.jsonl', rows);
    await write('bare.jsonl', bare(rows));
  });

  it('needs no references in the rows, and scores what their answer would have scored', async () => {
    const [byRow, byGroup] = [
      await score('all', '--references row'),
      await score('bare', '--references group'),
    ];
    expect(
      byGroup.map(({ sigma, reference_logprobs, status }) => ({ sigma, reference_logprobs, status })),
    ).toEqual(byRow.map(({ sigma, reference_logprobs, status }) => ({ sigma, reference_logprobs, status })));
  });

  it('gives the same from a stream whose groups come in one piece', async () => {
    await done('score - -o stream.jsonl --references group', jsonLines(bare(rows)));
    const fromFile = await score('bare', '--references group');
    expect((await rowsOf<Out>('stream.jsonl')).map((row) => row.sigma)).toEqual(
      fromFile.map((row) => row.sigma),
    );
  });

  it('joint takes the thoughts of peers as solutions, and turns down who has none', async () => {
    // long continuations: four traces are enough
    const [wrong] = rows.filter((row) => row.reward === 0);
    const correct = rows.filter((row) => row.group === wrong?.group && row.reward === 1).slice(0, 3);
    const few = [wrong, ...correct] as FixtureRow[];
    await write('few.jsonl', bare(few));
    const found = await score('few', '--references group --estimator joint --baseline group');
    expect(found.length).toBe(few.length);
    expect(found[0]?.reference_utilities.length).toBe(new Set(correct.map((row) => row.completion)).size);
  });

  it('gives every shard the whole groups', async () => {
    for (const shard of ['0/2', '1/2'])
      await done(`score bare.jsonl -o shards/ --shard ${shard} --rows-per-part 64 --references group`);
    const byId = (a: Out, b: Out) => (a.id < b.id ? -1 : 1);
    const found = (await rowsOf<Out>('shards/*.parquet')).sort(byId);
    const whole = (await score('bare', '--references group')).sort(byId);
    expect(found.length).toBe(rows.length);
    for (const [i, { id, sigma }] of whole.entries()) {
      expect(found[i]?.id).toBe(id);
      for (const [t, value] of sigma.entries()) expect(found[i]?.sigma[t]).toBeCloseTo(value, 4);
    }
  });
});
