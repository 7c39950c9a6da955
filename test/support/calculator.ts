// What the tests of the policy that calls a tool share: its traces, and exact values beside those of a scored file.
import { resolve } from 'node:path';
import { expect } from 'vitest';
import { type State, statesOf } from '../oracle/calculator.js';
import { ROOT, type ScoredRow, storedValues } from './program.js';
import type { Scene } from './scene.js';

export interface Played extends ScoredRow {
  readonly completion_mask: number[];
  readonly answer: string;
}
export type Message = { readonly role: string; readonly content: string };

export const CALCULATOR = resolve(ROOT, 'examples/calculator.mjs');

/** A trace with a state at every exit, as the task's odds have it, and the file's values there. */
export interface Compared {
  readonly row: Played;
  readonly states: readonly State[];
  readonly values: readonly number[];
}

/** Builds the policy and lets it play 8 completions of each prompt: `played.jsonl`. */
export async function play({ done, rows }: Scene): Promise<Played[]> {
  await done(`policy build ${resolve(ROOT, 'models/calculator')} -o policy`);
  const prompts = resolve(ROOT, 'fixtures/calculator.jsonl');
  await done(`sample ${prompts} --policy policy --environment ${CALCULATOR} -n 8 --seed 1 -o played.jsonl`);
  return rows<Played>('played.jsonl');
}

/** The traces of a scored file that keep to the task; their exits have to be its states. */
export function comparedOf(scored: readonly Played[], played: readonly Played[]): Compared[] {
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

export const changes = (values: readonly number[]) =>
  values.slice(1).map((value, k) => value - (values[k] as number));

export const meanOf = (list: readonly number[]) => list.reduce((sum, x) => sum + x, 0) / list.length;

/** Pearson's correlation of the changes of the values with the exact ones, inside traces. */
export function within(traces: readonly Compared[]): number {
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
