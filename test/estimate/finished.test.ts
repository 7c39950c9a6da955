// Which completions of text were finished, so that they get their end token back: by their row, their reward, or an answer that closes.
import { expect, it } from 'vitest';
import { finished } from '../../dist/estimate/finished.js';
import { traceOf } from '../support/io-helpers.js';

const marks = { close: '</think>\n', open: 'answer: ', closer: '\n' };
const ANSWERED = '<think>\na\n</think>\nanswer: 8\n';
const CUT = '<think>\na';

it.each<
  [completion: string, columns: Record<string, unknown>, reward: number | null, is: boolean | undefined]
>([
  // the row says so
  [CUT, { finish_reason: 'stop' }, null, true],
  [CUT, { finish_reason: 'FinishReason.STOP' }, 0, true],
  [CUT, { is_truncated: false }, null, true],
  [CUT, { status: 'completed' }, null, true],
  [ANSWERED, { finish_reason: 'length' }, 1, false],
  [ANSWERED, { meta_info: { finish_reason: { type: 'length', length: 9 } } }, 1, false],
  [ANSWERED, { choices: [{ finish_reason: 'length' }] }, 1, false],
  [ANSWERED, { truncated: true, finish_reason: 'stop' }, 1, false],
  [ANSWERED, { status: 'Status.TRUNCATED' }, null, false],
  [ANSWERED, { finish_reasons: ['length', 'stop'] }, null, false],
  // what says nothing
  [CUT, { finish_reason: null, status: 'ok', stop_reason: 151645, completion: 'stop' }, null, undefined],
  // its reward
  [CUT, {}, 1, true],
  [CUT, {}, 0, undefined],
  // its answer
  [ANSWERED, {}, 0, true],
  ['so \\boxed{8}.', {}, 0, true],
  ['\\[ \\boxed{\\frac{1}{2}} \\]', {}, null, true],
  ['so \\boxed{8}, and now', {}, 0, undefined],
  ['x</think> so \\boxed{8', {}, 0, undefined],
  ['hm <answer>8</answer>', {}, 0, true],
  ['x</think><answer>8', {}, 0, undefined],
  ['4+4\n#### 8', {}, 0, true],
  ['4+4\nFinal Answer: The final answer is $8$. I hope it is correct.', {}, 0, true],
  ['The answer is', {}, 0, undefined],
  ['x</think>\n\n8', {}, 0, true],
  ['x</think>\n\nIt is large.', {}, 0, true],
  ['x</think>\n\nTo solve this we', {}, 0, undefined],
  ['x</think>', {}, 0, undefined],
  // it shows an end token
  ['x</think>\nanswer: 8<|im_end|>', {}, 1, undefined],
])('%j with %j and the reward %j: %j', (completion, columns, reward, is) => {
  expect(finished({ ...traceOf(columns), completion, reward }, reward, marks)).toBe(is);
});

it('of several completions in a row each has its own mark', () => {
  const trace = { ...traceOf({ finish_reasons: ['length', 'stop'] }), completion: CUT };
  expect([0, 1].map((item) => finished({ ...trace, item }, null, marks))).toEqual([false, true]);
});

it.each([
  ['<think>\nIt says', false],
  ['<think>\nIt says\n</think>\nso', undefined],
  ['It says', undefined],
])('a last turn of %j: %j', (content, is) => {
  const turns = ['', content].map((each) => ({ role: 'assistant', content: each }));
  const trace = { ...traceOf({}), completion: turns.map((turn) => turn.content).join('\n'), turns };
  expect(finished(trace, 0, marks)).toBe(is);
  expect(finished({ ...trace, reward: 1 }, 1, marks)).toBe(true);
});
