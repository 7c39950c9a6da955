// Runs that end early: nothing but rejects, and --limit.
import { readdir } from 'node:fs/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { goodLine } from '../support/program.js';
import { fixtureRows, GIVEN, openScene, valued } from '../support/scene.js';

const { done, fails, folder, rows, run, text, write } = await openScene();
/** What lies beside an output. */
const beside = async (name: string) => (await readdir(folder)).filter((each) => each.includes(name)).sort();

beforeAll(async () => {
  const lines = Array.from({ length: 1100 }, (_, n) =>
    goodLine({ prompt: 'p', completion: `c${n}`, answer: undefined, truth: '7' }),
  );
  await write('bare.jsonl', lines.join(''));
  await write('later.jsonl', `${lines.slice(0, 999).join('')}${goodLine()}`);
});

const score = (input: string, more: string) => `score ${input}.jsonl --estimator pr --baseline 0 -o ${more}`;

it('more columns than Parquet files are written with end the run before its first pass', async () => {
  const wide = Object.fromEntries(Array.from({ length: 1001 }, (_, n) => [`c${n}`, n]));
  await write('wide.jsonl', goodLine(wide));
  const { stderr } = await fails(
    score('wide', 'wide.parquet'),
    2,
    /wide\.parquet: 1,0\d\d columns .*written with 1,000 at most/,
  );
  expect(stderr).toContain('-o <file>.arrow');
  expect(await beside('wide.parquet')).toEqual([]);
  await done(score('wide', 'wide.arrow'));
  // nobody is asked before that
  await fails('score wide.jsonl -o asked.parquet', 2, /asked\.parquet: 1,0\d\d columns/);
  expect(await beside('asked.parquet')).toEqual([]);
});

describe('1,000 rejects and no trace', () => {
  it('stop the first pass, before anything is written', async () => {
    const { stderr } = await fails(
      score('bare', 'prescan.parquet'),
      65,
      /all of the first 1,000 traces were rejected \(no_reference 1,000, first \S*bare\.jsonl:0: /,
    );
    expect(stderr).toContain('try: --map reference=truth;');
    expect(await beside('prescan.parquet')).toEqual([]);
  });

  it('stop the run of a stream, which has no first pass, and leave the reasons and nothing in the way', async () => {
    await fails(
      'score - --baseline 0 -o many.jsonl',
      65,
      'in many.jsonl.rejects.jsonl',
      await text('bare.jsonl'),
    );
    expect(await beside('many')).toEqual(['many.jsonl.rejects.jsonl']);
    expect(await rows('many.jsonl.rejects.jsonl')).toHaveLength(1000);
    // the mended command
    await done(score('bare', 'many.jsonl --limit 2 --map reference=truth'));
  });

  it('do not stop a run with a trace among them, nor one that may reject all', async () => {
    await done(score('later', 'scored-later.jsonl --quiet'));
    const why = 'every one of 1,100 traces was rejected (no_reference 1,100';
    await fails(score('bare', 'all.jsonl --max-rejects 100%'), 65, why);
    expect(await beside('all.jsonl')).toEqual(['all.jsonl.rejects.jsonl']);
  });
});

it('inspect proposes a --map for what a row lacks', async () => {
  const { code, stdout } = await run('inspect bare.jsonl');
  expect([code, stdout]).toEqual([65, expect.stringMatching(/^try +--map reference=truth$/m)]);
});

describe('--limit', () => {
  it.each([
    ['of a file that is read as far as it goes', '--baseline value'],
    ['of a file whose groups are read whole', '--baseline group'],
  ])('ends with what the whole input would take, %s', async (_, flags) => {
    await write('short.jsonl', (await fixtureRows(0, 32)).map(valued));
    const line = `score short.jsonl ${GIVEN} ${flags} -o made.jsonl --overwrite --limit`;
    const [, traces] =
      /^the whole input, about (\d+) traces, would take about [\d.]+ s$/m.exec(
        (await done(`${line} 16`)).stderr,
      ) ?? [];
    expect(Math.abs(Number(traces) - 32)).toBeLessThan(flags.includes('group') ? 1 : 4);
    expect((await done(`${line} 32`)).stderr).not.toContain('the whole input');
  });
});
