// The policy that calls a tool: its credit and values against exact ones, and its masks against dumps made by trainers' own rules.
import { resolve } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { type State, statesOf } from '../oracle/calculator.js';
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
