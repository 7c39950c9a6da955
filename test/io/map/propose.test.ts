// What is proposed for a row that nobody has mapped: paths by the names of its columns.
import { describe, expect, it } from 'vitest';
import { didYouMean } from '../../../dist/flag-values.js';
import { FIELDS, parseFieldMap } from '../../../dist/io/map/fields.js';
import { mapRow } from '../../../dist/io/map/map.js';
import { mapText, proposePaths } from '../../../dist/io/map/propose.js';
import { cureOf } from '../../../dist/report/reject-limits.js';
import { inputRow } from '../../support/io-helpers.js';

const ALL = { prompt: true, references: true };
const proposed = (columns: Record<string, unknown>) => mapText(proposePaths(columns, FIELDS));

/** Why a row is rejected. */
function reason(columns: Record<string, unknown>, map?: string): string {
  const [found] = mapRow(inputRow(columns), parseFieldMap(map), ALL);
  return found !== undefined && 'kind' in found ? found.rejection.reason : 'none';
}

describe('proposed paths', () => {
  it.each([
    [
      { question: 'q', full_response: 'r', ground_truth: '4', is_correct: true },
      'prompt=question,completion=full_response,reference=ground_truth,reward=is_correct',
    ],
    [
      {
        problem: 'q',
        generations: [
          { text: 'a', correct: true },
          { text: 'b', correct: false },
        ],
        gold_answer: 4,
      },
      'prompt=problem,completion=generations[].text,reference=gold_answer,reward=generations[].correct',
    ],
    [
      { instruction: 'q', responses: ['a', 'b'], scores: [1, 0], target: 'x' },
      'prompt=instruction,completion=responses[],reference=target,reward=scores[]',
    ],
    [{ meta: { question: 'q' }, output: 'o' }, 'prompt=meta.question,completion=output'],
    // a list in a list, JSON in a text, a reward of parts that nobody knows
    [{ doc: { question: 'q' }, resps: [['a', 'b']] }, 'prompt=doc.question,completion=resps[0][]'],
    [{ prompt: 'p', info: '{"answer": "8"}' }, 'prompt=prompt,reference=info.answer'],
    [{ prompt: 'p', reward: { format: 1 } }, 'prompt=prompt,reward=reward.format'],
    // lists of other lengths are of other things
    [{ outputs: ['a', 'b'], scores: [1, 0, 1] }, 'completion=outputs[]'],
    // values decide too
    [{ response: 7, score: 'high', ground_truth: null }, undefined],
    [{ 'full=response': 'x', n: 3 }, undefined],
  ])('%j', (columns, expected) => {
    expect(proposed(columns)).toBe(expected === undefined ? undefined : `--map ${expected}`);
  });

  it('are one word of a shell, whatever the columns are called', () => {
    const columns = { 'model response': 'r', "it's": '', 'ground truth': '4', prompt: 'q' };
    expect(proposed(columns)).toBe("--map 'prompt=prompt,completion=model response,reference=ground truth'");
    expect(cureOf(`in.jsonl:0: ${reason(columns)}`)).toBe(
      "--map 'completion=model response,reference=ground truth'",
    );
  });
});

describe('reasons', () => {
  it('propose a whole map for a row without known names', () => {
    const found = reason({ question: 'q', full_response: 'r', ground_truth: '4' });
    expect(cureOf(found)).toBe('--map prompt=question,completion=full_response,reference=ground_truth');
  });

  it('propose a path in the place of one that leads nowhere', () => {
    const columns = { prompt: 'p', answer: '1', generations: [{ text: 'a' }] };
    const found = reason(columns, 'completion=generation[].text');
    expect(cureOf(found)).toBe('--map completion=generations[].text');
  });

  it('propose nothing that does not help the row', () => {
    const row = { prompt: [{ role: 'user', content: '1+1?' }], completion: [1, 2], answer: '2' };
    expect(reason(row)).toMatch(/: use --map completion=<path>$/);
    expect(reason({ prompt: 'p', completion: 'c', answer: '1', reward: { accuracy: 1, format: 0 } })).toMatch(
      /: use --map reward=reward\.accuracy$/,
    );
  });

  it('propose --references group where rewards are there and answers are not', () => {
    const row = { prompt: 'p', completion: 'c', reward: 1 };
    expect(reason({ ...row, group: 'g' })).toContain(': use --references group (');
    // a reference set needs a group, and a column with answers is better
    expect(reason(row)).toMatch(/: use --map reference=<path>, or --join <file>$/);
    expect(reason({ ...row, group: 'g', gold: '4' })).toMatch(/: use --map reference=gold$/);
  });
});

it.each([
  // near in letters, whatever their case; a swap is one change
  ['Compeltion', ['prompt', 'completion'], 'completion'],
  ['ab', ['ba', 'abc'], 'abc'],
  ['xyz', ['completion'], undefined],
  // or the one name that begins with the word
  ['VERL', ['trl-completions', 'verl-rollout'], 'verl-rollout'],
  ['open', ['openmathreasoning', 'openthoughts'], undefined],
  ['tr', ['trl-completions'], undefined],
])('%s, of %j, was meant to be %s', (word, names, meant) => expect(didYouMean(word, names)).toBe(meant));
