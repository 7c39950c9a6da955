// `requests` and `score --answers`: the rows that the policy's graph gives, from whoever answers, in any order and in rounds.
import { beforeAll, describe, expect, it } from 'vitest';
import { loadOracleModel } from '../../oracle/llama.js';
import { type AnswerLine, type AskedLine, answersOf, linesOf } from '../../support/oracle-engine.js';
import { EMBEDDED, type ScoredRow } from '../../support/program.js';
import { fixtureRows, openScene, type Scene } from '../../support/scene.js';

const model = loadOracleModel(EMBEDDED);
let scene: Scene;
beforeAll(async () => {
  scene = await openScene();
  await scene.write('t.jsonl', await fixtureRows(0, 4));
});

const answer = async (round: string, edit = (lines: AnswerLine[]) => lines): Promise<void> => {
  const lines = answersOf(await scene.text(`${round}.req.jsonl`), model);
  // an order of its own
  await scene.write(`${round}.jsonl`, edit(lines.sort((a, b) => (a.id.slice(-9) < b.id.slice(-9) ? -1 : 1))));
};
const numbers = (row: ScoredRow) => [
  ...[...row.logprobs, ...row.sigma, ...row.reference_logprobs.flat(), row.value_start],
  ...row.segments.map(({ value }) => value ?? 0),
];
async function expectAlike(made: string, own: string): Promise<void> {
  const [a, b] = [await scene.rows(made), await scene.rows(own)];
  expect(a.map(({ id }) => id)).toEqual(b.map(({ id }) => id));
  for (const [n, row] of a.entries()) {
    const theirs = b[n] as ScoredRow;
    expect(row.segments.map(({ end }) => end)).toEqual(theirs.segments.map(({ end }) => end));
    const off = numbers(row).map((each, i) => Math.abs(each - (numbers(theirs)[i] as number)));
    expect(Math.max(...off)).toBeLessThan(1e-4);
  }
}

describe('traces that are cut without entropies', () => {
  beforeAll(async () => {
    await scene.done('requests t.jsonl -o one.req.jsonl');
    await answer('one');
  });

  it('are asked about in one round, and have the rows of the policy itself', async () => {
    const { said } = await scene.done('score t.jsonl --answers one.jsonl -o one.parquet');
    await scene.done('score t.jsonl -o own.parquet');
    await expectAlike('one.parquet', 'own.parquet');
    // a vocabulary of 259, of which 20 are told
    expect(said).toMatch(/likeliest tokens: the middles of intervals that are [\d.e-]+ nats wide/);
    const [row] = await scene.rows('one.parquet');
    const [own] = await scene.rows('own.parquet');
    const off = row?.entropies.map((h, t) => Math.abs(h - (own?.entropies[t] as number))) ?? [];
    expect(Math.max(...off)).toBeLessThan(0.2);
  });

  it('name trace, exit and question, and repeat no prefix', async () => {
    const [header, ...lines] = linesOf<AskedLine>(await scene.text('one.req.jsonl'));
    expect(header).toEqual({ rredcot: 'requests', vocab: 259 });
    const [whole, first] = lines.filter(({ id }) => id.startsWith('top-')) as [AskedLine, AskedLine];
    expect(whole.id).toMatch(/^top-0000\/0#[0-9a-f]{16}$/);
    expect(first.id).toMatch(/^top-0000\/0@\d+:0#[0-9a-f]{16}$/);
    expect(first.prefix?.of).toBe(whole.id);
    // the questions that are to be computed anew are those that were asked
    const fresh = lines.filter((line) => line.fresh);
    expect(fresh.length).toBeGreaterThan(10);
    for (const { id } of fresh) expect(lines.some((line) => line.id === id.slice(0, -1))).toBe(true);
  });

  it('are one run with these answers: others, or the graph itself, are another', async () => {
    await scene.write('other.jsonl', [...linesOf<AnswerLine>(await scene.text('one.jsonl')), { id: 'none' }]);
    await scene.fails('score t.jsonl --answers other.jsonl -o one.parquet', 2, '--answers');
    await scene.fails('score t.jsonl -o one.parquet', 2, '--answers');
    const { config } = await scene.json('one.parquet.summary.json');
    expect(config.answers).toEqual([expect.stringMatching(/^[0-9a-f]{64}$/)]);
  });

  it('lose no row to an answer that is missing, broken or a lie: each says which', async () => {
    const spoil: readonly ((line: AnswerLine) => object)[] = [
      () => ({ id: 'elsewhere', logprobs: [] }),
      (line) => ({ ...line, logprobs: line.logprobs.map(() => 0.5) }),
      ({ id }) => ({ id, error: 'prompt too long' }),
    ];
    const rows = await fixtureRows(0, 4);
    await answer('one', (lines) =>
      lines.map((line) => {
        const n = rows.findIndex(({ id }) => line.id.startsWith(`${id}@`));
        return (spoil[n]?.(line) ?? line) as AnswerLine;
      }),
    );
    await scene.done('score t.jsonl --answers one.jsonl -o spoilt.jsonl');
    expect((await scene.rows('spoilt.jsonl')).map(({ id }) => id)).toEqual([rows[3]?.id]);
    const rejects = await scene.rows<{ code: string; reason: string }>('spoilt.jsonl.rejects.jsonl');
    expect(rejects.map(({ code }) => code)).toEqual(Array(3).fill('unanswered'));
    const whys = ['has no answer', 'is 0.5, expected', 'says: prompt too long'];
    for (const [n, why] of whys.entries()) expect(rejects[n]?.reason).toContain(why);
    // what is left is asked again, and nothing else
    const { said } = await scene.done('requests t.jsonl --answers one.jsonl -o left.req.jsonl');
    await answer('left');
    expect(said).toContain('0 whole traces');
    await scene.done('score t.jsonl --answers one.jsonl,left.jsonl -o mended.parquet');
    await expectAlike('mended.parquet', 'own.parquet');
  });

  it('are refused where they are of another model, by the canary among them, or of two; of nobody knows whom, with a warning', async () => {
    await scene.write('few.jsonl', await fixtureRows(0, 2));
    await scene.done('requests few.jsonl -o whose.req.jsonl');
    await answer('whose');
    const lines = linesOf<AnswerLine>(await scene.text('whose.jsonl'));
    const another = lines.map((line) => ({ ...line, logprobs: line.logprobs.map((lp) => lp - 2) }));
    await scene.write('another.jsonl', another);
    await scene.fails(
      'score few.jsonl --answers another.jsonl -o x.jsonl',
      69,
      "another model than the policy's",
    );
    const by = (model: string) => ({ rredcot: 'answers', engine: 'e', model });
    await scene.write('two.jsonl', [by('a'), ...lines, by('b')]);
    await scene.fails('score few.jsonl --answers two.jsonl -o x.jsonl', 2, 'are of several: e, a; e, b');
    await scene.write(
      'bare.jsonl',
      lines.filter(({ id }) => id.startsWith('top-')),
    );
    const { said } = await scene.done('score few.jsonl --answers bare.jsonl -o bare.parquet');
    expect(said).toContain("are the policy's nobody knows");
    await scene.fails('requests few.jsonl --answers bare.jsonl -o bare.jsonl', 2, 'in a file of their own');
    await scene.fails('requests few.jsonl -o whose.req.jsonl', 2, 'is there already');
    await scene.fails('requests few.jsonl -o x.parquet', 2, 'questions are JSON lines');
    await scene.fails('requests few.jsonl -o folder/', 2, 'questions are JSON lines');
  });

  it('refuse answers of something else before they refuse every trace', async () => {
    const strange = Array.from({ length: 40 }, (_, n) => ({ id: `${n}#0`, logprobs: [-1] }));
    await scene.write('strange.jsonl', strange);
    await scene.write('many.jsonl', await fixtureRows(0, 40));
    await scene.fails(
      'score many.jsonl --answers strange.jsonl -o x.jsonl',
      2,
      'answers none of the first 32',
    );
    await scene.write('empty.jsonl', []);
    await scene.fails('score t.jsonl --answers empty.jsonl -o x.jsonl', 2, 'has no line with an id');
    await scene.fails('score t.jsonl --answers nowhere.jsonl -o x.jsonl', 2, 'nowhere.jsonl: cannot be read');
  });
});

it('traces whose cut needs entropies are asked about in rounds, peers and left-out segments among the questions', async () => {
  await scene.write('few.jsonl', await fixtureRows(0, 2));
  for (const [name, flags, rounds] of [
    ['merged', '--max-segments 3', 2],
    ['siblings', '--max-segments 3 --estimator siblings --calibration none', 2],
    ['loo', '--max-segments 3 --estimator loo', 3],
  ] as const) {
    const answers: string[] = [];
    for (let isLeft = true; isLeft; ) {
      const known = answers.length === 0 ? '' : `--answers ${answers}`;
      const { said } = await scene.done(
        `requests few.jsonl ${flags} ${known} -o a${answers.length}.req.jsonl --overwrite`,
      );
      isLeft = !said.includes('nothing is left');
      if (isLeft) await answer(`a${answers.length}`);
      if (isLeft) answers.push(`a${answers.length}.jsonl`);
    }
    expect(answers.length).toBe(rounds);
    await scene.done(`score few.jsonl ${flags} --answers ${answers} -o ${name}.jsonl`);
    await scene.done(`score few.jsonl ${flags} -o own-${name}.jsonl`);
    await expectAlike(`${name}.jsonl`, `own-${name}.jsonl`);
  }
  const masked = 'score few.jsonl --max-segments 3 --estimator loo --loo masked --answers a0.jsonl,a1.jsonl';
  await scene.fails(`${masked} -o x.jsonl`, 2, '--loo deleted');
});
