// Traces of several turns through the whole program: masks of token ids, what is written of them, and what is rejected.
import { copyFile } from 'node:fs/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { continuationLogprobs, extend, loadOracleModel, start } from '../oracle/llama.js';
import { valueAt } from '../oracle/rredcot.js';
import { exitTemplate, TOLERANCE, tokenIds } from '../support/oracle-comparison.js';
import { EMBEDDED, type FixtureRow, type ScoredRow } from '../support/program.js';
import { fixtureRows, openScene } from '../support/scene.js';

interface TurnRow extends ScoredRow {
  readonly completion_mask: number[];
  readonly completion_ids: number[];
}

const TOOL = '[tool: </think> answer: 9]\n';
const { at, done, fails, rows, run, write } = await openScene();

/** The trace with what a tool says after its second line, of every second one behind its end too. */
function ofTurns({ completion: _, completion_ids: ids, ...row }: FixtureRow, n: number) {
  const cut = ids.flatMap((id, t) => (id === 10 ? [t + 1] : []))[1] as number;
  const shown = tokenIds(TOOL);
  const parts = [ids.slice(0, cut), shown, ids.slice(cut), n % 2 === 1 ? shown : []];
  const bits = parts.map((part, k) => part.map(() => (k % 2 === 0 ? 1 : 0)));
  return { ...row, completion_ids: parts.flat(), completion_mask: bits.flat() };
}

type Given = ReturnType<typeof ofTurns>;
let given: Given[];
beforeAll(async () => {
  const fixtures = await fixtureRows(0, 4);
  given = fixtures.map(ofTurns);
  await write('turns.jsonl', given);
  await write('plain.jsonl', fixtures);
  const ones = fixtures.map((row) => ({ ...row, completion_mask: row.completion_ids.map(() => true) }));
  await write('ones.jsonl', ones);
  await done('score turns.jsonl --sigma share,surprise --quiet -o turns.out.jsonl');
});

describe('a mask of token ids', () => {
  it('is in the output to the token; σ, log p and entropy are 0 where it is 0, and the segments end there', async () => {
    const scored = await rows<TurnRow>('turns.out.jsonl');
    expect(scored.map(({ completion_mask: mask }) => mask)).toEqual(given.map((row) => row.completion_mask));
    for (const row of scored) {
      const { completion_mask: mask, segments } = row;
      for (const list of [row.sigma, row.logprobs, row.entropies])
        expect(list.filter((x, t) => mask[t] === 0 && x !== 0)).toEqual([]);
      expect(row.sigma.reduce((sum, s) => sum + s, 0)).toBeCloseTo(1, 5);
      const shown = segments.filter(({ kind }) => kind === 'shown');
      const zeros = shown.reduce((sum, { start, end }) => sum + (end as number) - (start as number), 0);
      expect(zeros).toBe(mask.filter((bit) => bit === 0).length);
    }
  });

  it('has the numbers of the float64 oracle: log p behind what was shown, and the value where the policy goes on', async () => {
    const [row] = await rows<TurnRow>('turns.out.jsonl');
    const { prompt_ids: prompt, answer, completion_ids: ids } = given[0] as (typeof given)[number];
    const model = loadOracleModel(EMBEDDED);
    const state = start(model);
    extend(model, state, prompt);
    const logprobs = continuationLogprobs(model, state, ids);
    const off = row?.completion_mask.filter(
      (bit, t) => bit === 1 && !(Math.abs((row.logprobs[t] ?? 9) - (logprobs[t] as number)) < TOLERANCE),
    );
    expect(off).toEqual([]);
    const at = row?.segments.findIndex(({ kind }) => kind === 'shown') ?? 0;
    const exit = start(model);
    extend(model, exit, [...prompt, ...ids.slice(0, row?.segments[at]?.end as number)]);
    const value = valueAt(model, exit, 'pr', [{ answerIds: tokenIds(answer) }], await exitTemplate());
    expect(row?.segments[at - 1]?.value).toBeCloseTo(value, 4);
  });

  it('of nothing but ones is a column of the input, and changes no number', async () => {
    await done('score plain.jsonl --quiet -o plain.out.jsonl');
    await done('score ones.jsonl --quiet --drop completion_mask -o ones.out.jsonl');
    const [plain, ones] = await Promise.all(['plain', 'ones'].map((name) => rows(`${name}.out.jsonl`)));
    const unnamed = (row: object) => ({ ...row, source_file: null });
    expect(ones?.map(unnamed)).toEqual(plain?.map(unnamed));
    expect(Object.keys(plain?.[0] ?? {})).not.toContain('completion_mask');
  });

  it('is verified, and found where it was edited', async () => {
    await done('verify turns.out.jsonl');
    const [first, ...others] = await rows<TurnRow>('turns.out.jsonl');
    await copyFile(at('turns.out.jsonl.summary.json'), at('edited.jsonl.summary.json'));
    const edited = (change: Partial<TurnRow>) =>
      write('edited.jsonl', [{ ...(first as TurnRow), ...change }, ...others]);
    const { completion_mask: mask, sigma } = first as TurnRow;
    const flipped = mask.indexOf(0);
    await edited({ completion_mask: mask.with(flipped, 1) });
    await fails(
      'verify edited.jsonl',
      65,
      `completion_mask[${flipped}] is 1, expected 0: segments[1] is shown`,
    );
    await edited({ sigma: sigma.with(flipped, 0.25) });
    await fails('verify edited.jsonl', 65, `sigma[${flipped}] is 0.25, expected 0: segments[1] is shown`);
  });

  it('goes through redistribute and filter, which count the policy’s tokens', async () => {
    await done('score turns.jsonl --quiet -o turns.parquet');
    await done('redistribute turns.parquet --sigma rudder -o again.parquet');
    await done('verify again.parquet');
    const scored = await rows<TurnRow>('again.parquet');
    const own = scored.map(({ completion_mask: mask }) => mask.reduce((sum, bit) => sum + bit, 0));
    const few = Math.min(...own);
    await done(`filter turns.parquet --where 'tokens == ${few}' -o few.parquet`);
    expect(await rows('few.parquet')).toHaveLength(own.filter((n) => n === few).length);
  });
});

describe('messages', () => {
  it('of several turns score as their ids with a mask do, and of one turn as text does', async () => {
    const [one, two] = await fixtureRows(0, 2);
    const said = (row: FixtureRow | undefined, cut: number) => {
      const { prompt, completion, answer, id, group, reward } = row as FixtureRow;
      const own = { answer, id, group, reward };
      const at = completion.split('\n').slice(0, cut).join('\n').length + 1;
      const texts = [completion.slice(0, at), TOOL, completion.slice(at)];
      const asked = [{ role: 'user', content: prompt }];
      const spoken = (content: string, n = 0) => ({ role: n === 1 ? 'tool' : 'assistant', content });
      return {
        messages: { prompt: asked, completion: texts.map(spoken), ...own },
        ids: {
          ...{ prompt, ...own, completion_ids: texts.flatMap(tokenIds) },
          completion_mask: texts.flatMap((part, n) => tokenIds(part).map(() => 1 - (n % 2))),
        },
        plain: { prompt, completion, ...own },
        whole: { prompt: asked, completion: [spoken(completion)], ...own },
      };
    };
    const both = [said(one, 3), said(two, 2)];
    const numbers = async (form: keyof (typeof both)[number]) => {
      await write(
        `as-${form}.jsonl`,
        both.map((each) => each[form]),
      );
      await done(`score as-${form}.jsonl --end-token none --quiet -o as-${form}.out.jsonl`);
      const scored = await rows<TurnRow>(`as-${form}.out.jsonl`);
      const texts = ['prompt', 'completion', 'input_completion', 'input_prompt', 'source_file'];
      return scored.map((row) =>
        Object.fromEntries(Object.entries(row).filter(([name]) => !texts.includes(name))),
      );
    };
    expect(await numbers('messages')).toEqual(await numbers('ids'));
    expect(await numbers('whole')).toEqual(await numbers('plain'));
  });
});

describe('what is shown of turns', () => {
  it('inspect marks what the policy was shown, in the trace and in the row', async () => {
    const { stdout } = await done('inspect turns.out.jsonl --row 0');
    expect(stdout).toMatch(/│ +\(shown\) \[tool: /);
    expect(stdout).toContain('[2, shown] [tool: ');
    const { stdout: row } = await done('inspect turns.jsonl --row 1');
    const own = given[1]?.completion_mask.filter((bit) => bit === 1).length;
    expect(row).toContain(`2 turns, ${own} tokens of the policy's, from completion_mask`);
  });
});

describe('a mask of token ids', () => {
  it.each(['completion_mask', 'response_mask', 'loss_mask', 'action_mask', 'env_mask', 'tool_mask'])(
    'that a trainer calls %s is taken, and is written once',
    async (name) => {
      const row = { prompt_ids: [97], completion_ids: [98, 99, 100, 101], answer: '7', reward: 1 };
      await write(`${name}.jsonl`, [{ ...row, [name]: [1, 0, 0, 1] }]);
      const { said } = await done(`score ${name}.jsonl --estimator surprise -o ${name}.out.jsonl`);
      expect(said).not.toContain('has the name of an output column');
      const [scored] = await rows<Record<string, unknown>>(`${name}.out.jsonl`);
      expect(scored?.completion_mask).toEqual([1, 0, 0, 1]);
      expect(Object.keys(scored ?? {})).not.toContain('input_completion_mask');
    },
  );
});

describe('a mask that is none', () => {
  it('is rejected by row: another length or value, no list, no token of the policy, no ids', async () => {
    const [own] = given;
    const bad = [
      [{ completion_mask: [1] }, 'completion_mask has 1 entry, completion_ids'],
      [{ completion_mask: 'ab' }, 'expected a list of 0 and 1'],
      [{ completion_ids: [97], completion_mask: [0] }, 'has no 1'],
      [
        { completion_ids: [97, 98], completion_mask: [1, 2] },
        'completion_mask[1] is the number 2, expected 0 or 1',
      ],
      [{ completion_ids: null, completion: 'a', completion_mask: [1] }, 'has no completion_ids'],
    ] as const;
    await write('bad.jsonl', [own as object, ...bad.map(([change]) => ({ ...own, ...change }))]);
    await done('score bad.jsonl --max-rejects 9 --quiet -o bad.out.jsonl');
    const rejects = await rows<{ code: string; reason: string }>('bad.out.jsonl.rejects.jsonl');
    expect(rejects.map(({ code, reason }) => [code, reason])).toEqual(
      bad.map(([, why]) => ['completion_mask', expect.stringContaining(why)]),
    );
  });

  it('segment ends among what was shown, and characters without tokens are rejected', async () => {
    const codes = async (line: string) => {
      await run(`${line} --max-rejects 9 --overwrite -o down.jsonl`);
      return (await rows<{ code: string }>('down.jsonl.rejects.jsonl')).map(({ code }) => code);
    };
    const inside = (given[0]?.completion_mask.indexOf(0) as number) + 2;
    await write('inside.jsonl', [{ ...given[0], segment_ends: [inside] }]);
    expect(await codes('score inside.jsonl --segmenter given')).toEqual(['segments']);
    expect(await codes('segment turns.jsonl --no-policy --limit 1')).toEqual(['turns']);
  });

  it('turns behind a first row of one turn have their mask, of a stream too', async () => {
    const [first] = await fixtureRows(0, 1);
    const mixed = [first, given[1]].map((row) => `${JSON.stringify(row)}\n`).join('');
    await done('segment - -o stream.jsonl', mixed);
    await write('mixed.jsonl', mixed);
    await done('score mixed.jsonl --baseline value -o mixed.out.jsonl');
    for (const name of ['stream.jsonl', 'mixed.out.jsonl']) {
      const masks = (await rows<TurnRow>(name)).map(({ completion_mask: mask }) => mask.includes(0));
      expect(masks, name).toEqual([false, true]);
    }
  });
});
