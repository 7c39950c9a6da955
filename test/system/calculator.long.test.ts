// The policy that calls a tool: its credit and values against exact ones, and its masks against dumps made by trainers' own rules.
import { resolve } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { type State, statesOf } from '../oracle/calculator.js';
import { tokenIds } from '../support/oracle-comparison.js';
import { ROOT, type ScoredRow, storedValues } from '../support/program.js';
import { openScene } from '../support/scene.js';

interface Played extends ScoredRow {
  readonly completion_mask: number[];
  readonly answer: string;
}
type Message = { readonly role: string; readonly content: string };

const CALCULATOR = resolve(ROOT, 'examples/calculator.mjs');

const { done, rows, write } = await openScene();
let played: Played[];

beforeAll(async () => {
  await done(`policy build ${resolve(ROOT, 'models/calculator')} -o policy`);
  const prompts = resolve(ROOT, 'fixtures/calculator.jsonl');
  await done(`sample ${prompts} --policy policy --environment ${CALCULATOR} -n 8 --seed 1 -o played.jsonl`);
  played = await rows<Played>('played.jsonl');
  await done('score played.jsonl --policy policy --quiet -o pr.jsonl');
  await done('calibrate pr.jsonl -o calibration.json');
  await done(
    'score played.jsonl --policy policy --estimator calibrated --calibration calibration.json --quiet -o calibrated.jsonl',
  );
});

/** A trace with a state at every exit, as the task's odds have it, and the file's values there. */
interface Compared {
  readonly row: Played;
  readonly states: readonly State[];
  readonly values: readonly number[];
}

/** The traces of a scored file that keep to the task; their exits have to be its states. */
function comparedOf(scored: readonly Played[], played: readonly Played[]): Compared[] {
  const asked = new Map(
    played.map(({ id, prompt }) => [id, (prompt as unknown as Message[])[0]?.content ?? '']),
  );
  return scored.flatMap((row) => {
    const states = statesOf(asked.get(row.id) as string, row.completion_ids);
    if (states === undefined) return [];
    const ends = row.segments.flatMap(({ kind, end }, n) => {
      const next = row.segments[n + 1];
      return kind !== 'thought' ? [] : [next?.kind === 'shown' ? next.end : end];
    });
    expect(ends, row.id).toEqual(states.slice(1).map((state) => state.end));
    return [{ row, states, values: storedValues(row) }];
  });
}

const changes = (values: readonly number[]) =>
  values.slice(1).map((value, k) => value - (values[k] as number));

const meanOf = (list: readonly number[]) => list.reduce((sum, x) => sum + x, 0) / list.length;

/** Pearson's correlation of the changes of the values with the exact ones, inside traces. */
function within(traces: readonly Compared[]): number {
  let [xy, xx, yy] = [0, 0, 0];
  for (const { states, values } of traces) {
    const [x, y] = [values, states.map(({ value }) => value)].map((list) => {
      const own = changes(list);
      return own.map((change) => change - meanOf(own));
    }) as [number[], number[]];
    for (const [k, dx] of x.entries()) {
      const dy = y[k] as number;
      [xy, xx, yy] = [xy + dx * dy, xx + dx ** 2, yy + dy ** 2];
    }
  }
  return xy / Math.sqrt(xx * yy);
}

describe('values and credit of turns', () => {
  it('by completions in turns follow the exact ones', async () => {
    await write(
      'few.jsonl',
      played.filter((_, n) => n % 12 === 0),
    );
    await done(
      `score few.jsonl --policy policy --estimator mc --mc-samples 8 --environment ${CALCULATOR} -o mc.jsonl`,
    );
    const traces = comparedOf(await rows<Played>('mc.jsonl'), played);
    expect(traces.length).toBeGreaterThan(12);
    expect(within(traces)).toBeGreaterThan(0.4);
  });

  it.each([
    ['pr', 0.3],
    ['calibrated', 0.5],
  ])('%s follows the exact values inside traces', async (name, least) => {
    const traces = comparedOf(await rows<Played>(`${name}.jsonl`), played);
    expect(traces.length).toBeGreaterThan(0.85 * played.length);
    expect(within(traces)).toBeGreaterThan(least);
  });

  it('the credit of a wrong call lies on the call: not on what the tool says, nor on the line that repeats it', async () => {
    const traces = comparedOf(await rows<Played>('calibrated.jsonl'), played);
    const lost: Record<string, number[]> = {};
    let [found, wrong, guessed] = [0, 0, 0];
    for (const { row, states, values } of traces) {
      for (const list of [row.sigma, row.logprobs])
        expect(list.filter((x, t) => row.completion_mask[t] === 0 && x !== 0)).toEqual([]);
      const [own, exact] = [changes(values), changes(states.map(({ value }) => value))];
      for (const [k, change] of own.entries()) {
        const { kind } = states[k + 1] as (typeof states)[number];
        lost[kind] ??= [];
        lost[kind].push(change);
      }
      const decisive = exact.indexOf(Math.min(...exact));
      const isCall = states[decisive + 1]?.kind === 'wrong call';
      if (row.reward !== 0 || !isCall || (exact[decisive] as number) > -0.2) continue;
      [wrong, guessed] = [wrong + 1, guessed + 1 / own.length];
      if (own.indexOf(Math.min(...own)) === decisive) found++;
    }
    expect(meanOf(lost['wrong call'] as number[])).toBeLessThan(-0.1);
    for (const kind of ['right call', 'aggregate'])
      expect(meanOf(lost[kind] as number[])).toBeGreaterThan(-0.03);
    expect(wrong).toBeGreaterThan(20);
    expect(found / wrong).toBeGreaterThan(0.6);
    expect(guessed / wrong).toBeLessThan(0.2);
  });
});

/** What a rollout is made of, by the messages alone: its turns as the policy wrote them, and the text between them. */
function partsOf(row: Played) {
  const messages = row.completion as unknown as Message[];
  return messages.flatMap(({ role, content }) => {
    const isOwn = role === 'assistant';
    return [{ isOwn, ids: isOwn ? [...tokenIds(content), 258] : tokenIds(`\n${content}\n`) }];
  });
}

/** The tokens of all of them in a row, and their mask: 1 for those of the model, 0 for those of a tool's response. */
function tokensOf(row: Played) {
  const parts = partsOf(row);
  return {
    ids: parts.flatMap(({ ids }) => ids),
    mask: parts.flatMap(({ isOwn, ids }) => ids.map(() => Number(isOwn))),
  };
}

/** A rollout as each trainer's own loop makes it. */
const FORMS: Readonly<Record<string, (row: Played, n: number) => object>> = {
  // AgentLoopOutput
  'verl-agent': (row) => {
    const { ids: response_ids, mask: response_mask } = tokensOf(row);
    const { prompt_ids, reward, answer } = row;
    return { prompt_ids, response_ids, response_mask, reward_score: reward, ground_truth: answer };
  },
  // a graph of messages, a node each with the ids it adds; sampled ones are true
  'prime-rl': (row, n) => {
    const nodes = [{ isOwn: false, ids: row.prompt_ids }, ...partsOf(row)].map(({ isOwn, ids }, i) => ({
      ...(i > 0 && { parent: i - 1 }),
      ...{ token_ids: ids, mask: ids.map(() => isOwn) },
    }));
    const rewards = { correct: { score: row.reward, weight: 1 } };
    const task = { data: { answer: row.answer } };
    return { task, traces: [{ id: `t${n}`, nodes, rewards }], group: { id: row.group } };
  },
  // a list of traces a row
  skyrl: (row) => {
    const { ids, mask } = tokensOf(row);
    const lists = { response_ids: [ids], loss_masks: [mask], rewards: [row.reward] };
    return { prompt_token_ids: [row.prompt_ids], ...lists, answer: row.answer };
  },
  // rollout_func: completion_ids with env_mask
  tokens: (row) => {
    const { ids: completion_ids, mask: env_mask } = tokensOf(row);
    const { prompt_ids, reward, answer, group } = row;
    return { prompt_ids, completion_ids, env_mask, reward, answer, group };
  },
};

describe('sampled traces as a dump', () => {
  const score = (name: string) =>
    done(`score ${name}.jsonl --policy policy --baseline value -o ${name}.out.jsonl`);
  const numbers = (row: Played) => [row.completion_ids, row.completion_mask, row.sigma, row.value_start];
  let some: Played[];
  beforeAll(async () => {
    some = played.filter(({ status }) => status === 'reward:compared').slice(0, 8);
    await write('some.jsonl', some);
    await score('some');
  });

  it.each(Object.entries(FORMS))(
    'of %s have their masks to the token, and the same credit',
    async (name, form) => {
      await write(`${name}.jsonl`, some.map(form));
      expect((await score(name)).said).toContain(`preset ${name} `);
      const scored = await rows<Played>(`${name}.out.jsonl`);
      expect(scored.map((row) => [row.completion_ids, row.completion_mask])).toEqual(
        some.map((row) => [row.completion_ids, row.completion_mask]),
      );
      expect(scored.map(numbers)).toEqual((await rows<Played>('some.out.jsonl')).map(numbers));
    },
  );
});
