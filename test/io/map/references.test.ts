// References as rows have them: text, numbers, lists, objects, and solutions that mark their answer.
import { describe, expect, it } from 'vitest';
import { parseFieldMap } from '../../../dist/io/map/fields.js';
import { mapRow } from '../../../dist/io/map/map.js';
import { parseReferences } from '../../../dist/io/map/messages.js';
import type { Trace } from '../../../dist/trace.js';
import { inputRow } from '../../support/io-helpers.js';

const SOLUTION = 'We have $x = 3$, so the answer is $\\boxed{\\frac{3}{2}}.$';

describe('parseReferences', () => {
  const EXPECTED = 'expected an answer (text, number or {answer, solution?, utility?})';
  const NO_ANSWER = 'answer: found nothing, expected text or a number';

  it.each([
    ['7', [{ answer: '7', utility: 1 }]],
    [7, [{ answer: '7', utility: 1 }]],
    [['7', 7.5, { answer: 8 }], ['7', '7.5', '8'].map((answer) => ({ answer, utility: 1 }))],
    ['$\\boxed{7}$.', [{ answer: '7', utility: 1 }]],
    ['\\fbox{7}', [{ answer: '7', utility: 1 }]],
    [SOLUTION, [{ answer: '\\frac{3}{2}', solution: SOLUTION, utility: 1 }]],
    ['2+3\n#### 5', [{ answer: '5', solution: '2+3\n#### 5', utility: 1 }]],
    [{ answer: '7', solution: SOLUTION }, [{ answer: '7', solution: SOLUTION, utility: 1 }]],
    [{ answer: 'a', utility: 0 }, [{ answer: 'a', utility: 0 }]],
    [{ solution: SOLUTION, utility: 0.5 }, [{ answer: '\\frac{3}{2}', solution: SOLUTION, utility: 0.5 }]],
    [{ answer: '\\boxed{7}' }, [{ answer: '7', utility: 1 }]],
    // a solution cut inside its box marks nothing: the text stands as it is
    ['so \\boxed{7', [{ answer: 'so \\boxed{7', utility: 1 }]],
    // of Arrow and Parquet: a struct has all its fields, a decimal is text
    [{ answer: '7', solution: null, utility: null }, [{ answer: '7', utility: 1 }]],
    [{ answer: '7', utility: '0.50' }, [{ answer: '7', utility: 0.5 }]],
    [null, []],
    ['', []],
    [[], []],
  ])('%j', (value, references) => expect(parseReferences(value)).toEqual(references));

  it.each([
    [{ solution: 'no box' }, `${NO_ANSWER}, or a solution that boxes its answer`],
    [{ utility: 1 }, NO_ANSWER],
    [{ answer: null }, 'answer: found null, expected text or a number'],
    [true, `found true, ${EXPECTED}`],
    [['a', ''], `[1]: found an empty text, ${EXPECTED}`],
    [' \n', `found the text " \\n", ${EXPECTED}`],
    ['$$', `found the text "$$", ${EXPECTED}`],
    ['$\\boxed{ }$', `found the text "$\\\\boxed{ }$", ${EXPECTED}`],
    [{ answer: '7', utility: 2 }, 'utility: found the number 2, expected a number from 0 to 1'],
    [{ answer: '7', utility: Number.NaN }, 'utility: found the number NaN, expected a number from 0 to 1'],
    [{ answer: '7', utility: 'much' }, 'utility: found the text "much", expected a number from 0 to 1'],
    [{ answer: '7', utility: '1.50' }, 'utility: found the text "1.50", expected a number from 0 to 1'],
    [{ solution: 7, answer: '7' }, 'solution: found the number 7, expected text'],
  ])('%j is refused', (value, problem) =>
    expect(parseReferences(value)).toEqual({ problem: problem.replace(/^(?!\[)/, ': ') }),
  );
});

const NEEDS = { prompt: true, references: true };
const traceOf = (columns: Record<string, unknown>) =>
  [...mapRow(inputRow({ prompt: 'p', completion: 'c', ...columns }), parseFieldMap(undefined), NEEDS)][0];

describe('a row', () => {
  it.each([
    ['without an answer has the one that its solution marks', {}, '\\frac{3}{2}'],
    ['with an answer keeps it, and the solution beside it', { answer: '1.5' }, '1.5'],
  ])('%s', (_, columns, answer) => {
    const { references } = traceOf({ solution: SOLUTION, ...columns }) as Trace;
    expect(references).toEqual([{ answer, solution: SOLUTION, utility: 1 }]);
  });

  it('whose solution marks none is rejected', () => {
    const rejected = { kind: 'bad', rejection: { code: 'no_reference' } };
    expect(traceOf({ solution: 'long talk' })).toMatchObject(rejected);
  });

  it('may have messages as its prompt', () => {
    const content = ['Be ', 'brief.'].map((text) => ({ type: 'text', text }));
    const messages = [
      { role: 'system', content },
      { role: 'user', content: 'Hi', name: 'Ann' },
      { role: 'assistant', content: null, tool_calls: [{}] },
      { role: 'tool', content: '4' },
    ];
    const { prompt } = traceOf({ prompt: messages, answer: '1' }) as Trace;
    expect(prompt).toEqual([
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hi', name: 'Ann' },
      { role: 'assistant', content: '', tool_calls: [{}] },
      { role: 'tool', content: '4' },
    ]);
  });

  it.each([
    [[], 'prompt: prompt is an empty list, expected messages {role, content}'],
    [['Hi'], 'prompt: prompt[0] is the text "Hi", expected a message {role, content}'],
    [
      [{ role: 'user', content: 'q' }, { content: 'c' }],
      'prompt: prompt[1] is an object with keys content, expected a message',
    ],
    [[{ role: 'user', content: 7 }], 'prompt: prompt[0].content is the number 7, expected text'],
    [
      [{ role: 'user', content: [{ type: 'image' }] }],
      'prompt: prompt[0].content is a list of 1, expected text',
    ],
  ])('with %j as its prompt is rejected', (prompt, reason) => {
    const found = traceOf({ prompt, answer: '1' });
    const rejection = { code: 'map', reason: expect.stringContaining(reason) };
    expect(found).toMatchObject({ kind: 'bad', rejection });
  });
});

describe('a row with pictures', () => {
  const row = { prompt: '<image>How many?', completion: 'Two.', answer: '2' };

  it.each([
    { images: ['a.png'] },
    { image: { bytes: null, path: 'a.png' } },
    { videos: [{ bytes: 'AA==' }] },
    { image: 'coco/1.jpg' },
    { images: '["a.png"]' },
    { image_path: 'coco/1.jpg' },
    { prompt: 'How many?', image: '/9j/4AAQSkZJRg==' },
    { prompt: 'How many?', image_url: 'data:image/png;base64,iVBORw0KGgo=' },
    { multi_modal_data: { image: ['a.png'] } },
    { extra_info: { index: 1, images: [{ bytes: 'AA==' }] } },
  ])('such as %j is rejected: the policy was asked with them', (beside) => {
    const rejection = { code: 'ids', reason: expect.stringContaining(Object.keys(beside).at(-1) as string) };
    expect(traceOf({ ...row, ...beside })).toMatchObject({ kind: 'bad', rejection });
  });

  it('and a name of another kind is none where the prompt has no place for it', () => {
    expect(traceOf({ ...row, prompt: 'p', image: 'registry/swe:1' })).not.toMatchObject({ kind: 'bad' });
  });

  it.each([
    ...[{ images: [] }, { images: null }, { video: 'a.mp4' }, { image: { tag: 'x' } }],
    ...[
      { multi_modal_data: null },
      { extra_info: { images: null, index: 1 } },
      { extra_info: '{}' },
      { metadata: { images: ['of the page'] } },
    ],
  ])('and one with %j, which has none, is not', (beside) => {
    expect(traceOf({ ...row, ...beside })).not.toMatchObject({ kind: 'bad' });
  });
});
