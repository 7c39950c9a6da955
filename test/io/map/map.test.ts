// Rows into traces: the forms of `--map`, the defaults, and every way in which a row can fail to fit.

import { describe, expect, it } from 'vitest';
import { parseFieldMap } from '../../../dist/io/map/fields.js';
import { mapRow } from '../../../dist/io/map/map.js';
import { inputRow } from '../../support/io-helpers.js';

const ALL = { prompt: true, references: true };
const NONE = { prompt: false, references: false };

function map(columns: Record<string, unknown>, spec?: string, needs = ALL) {
  return [...mapRow(inputRow(columns, 7), parseFieldMap(spec), needs)];
}
const outcome = (columns: Record<string, unknown>, spec?: string, needs = ALL) =>
  map(columns, spec, needs).map((item) => ('kind' in item ? item.rejection : item));
/** Code and reason of the one reject that a row comes to. */
function refusal(columns: Record<string, unknown>, spec?: string, needs = ALL): string {
  const found = outcome(columns, spec, needs);
  return found.map((item) => ('code' in item ? `${item.code}: ${item.reason}` : 'a trace')).join();
}

it('a prompt that nobody reads may be what it likes, and hold the completion', () => {
  const [asked, completion] = ['How many legs has a hen, in all?', 'A hen has two legs, so: 2'];
  const held = { prompt: `${asked}${completion}`, completion };
  expect(outcome(held)).toMatchObject([{ code: 'prompt_holds_completion' }]);
  const begun = { prompt: asked, completion: `${asked}${completion}`, answer: '2' };
  expect(outcome(begun)).toMatchObject([{ status: ['completion:has-prompt'] }]);
  for (const row of [held, begun]) {
    const [trace] = outcome(row, undefined, NONE);
    expect([trace && 'completion' in trace, trace && 'status' in trace]).toEqual([true, false]);
  }
});

const plain = { prompt: 'p', completion: 'c', answer: '1' };
const MESSAGE = { role: 'assistant', content: '\\boxed{2}', reasoning_content: 'One and one.' };

it.each([
  // a message by itself, and a verdict as Python writes it
  [
    { prompt: { role: 'user', content: 'p' }, completion: MESSAGE },
    { completion: '<think>\nOne and one.\n</think>\n\n\\boxed{2}' },
  ],
  // a thought that has its tags already
  [
    {
      prompt: 'p',
      completion: { ...MESSAGE, reasoning_content: '\n<think>\nOne and one.\n</think>\n' },
    },
    { completion: '<think>\nOne and one.\n</think>\n\n\\boxed{2}' },
  ],
  [
    { ...plain, reward: 'True' },
    { reward: 1, isVerdict: true },
  ],
  [
    { ...plain, reward: ' false ' },
    { reward: 0, isVerdict: true },
  ],
  // ids beside texts, which stay; a count is none, nor is a mask of anything else
  [
    { ...plain, prompt_token_ids: [1, 2], response_ids: [3, 4], response_mask: [1, 0] },
    {
      promptIds: Int32Array.of(1, 2),
      completionIds: Int32Array.of(3, 4),
      completionMask: Uint8Array.of(1, 0),
      completion: 'c',
    },
  ],
  [{ ...plain, response_tokens: 7, loss_mask: [1, 1] }, { completion: 'c' }],
])('%j', (columns, expected) => {
  expect(outcome(columns, undefined, NONE)).toMatchObject([expected]);
});

it('a path goes on in the JSON of a text', () => {
  const row = { prompt: 'p', completion: 'c', info: '{"a": [{"b": "8"}]}', other: '{not JSON' };
  expect(outcome(row, 'reference=info.a[0].b')).toMatchObject([{ references: [{ answer: '8' }] }]);
  expect(refusal(row, 'reference=other.a')).toContain('no "other.a" in the row');
});

describe('--map', () => {
  it.each([
    ['color=x', '"color" is no field of a trace'],
    ['rewrad=score', '"rewrad" is no field of a trace, did you mean reward?'],
    ['prompt', 'not field=path'],
    ['prompt=', 'not field=path'],
    ['prompt=a,,id=b', 'not field=path'],
    ['prompt=a,prompt=b', 'mapped twice'],
    ['prompt=a..b', 'malformed'],
    ['prompt=a[x]', 'malformed'],
    ['prompt=a[].b[].c', 'more than one []'],
    ['prompt=a[]b', 'malformed'],
  ])('refuses %s', (spec, message) => {
    expect(() => parseFieldMap(spec)).toThrowError(
      expect.objectContaining({
        exitCode: 2,
        message: expect.stringContaining(message),
        hint: expect.stringContaining('segment_char_ends'),
      }),
    );
  });

  it('follows keys, nested keys and list indices', () => {
    const columns = { q: 'p', s: { t: [{ text: 'c0' }, { text: 'c1' }] }, a: [['x', 'y']] };
    expect(outcome(columns, ' prompt = q , completion=s.t[1].text,reference=a[0][1]')).toMatchObject([
      { id: 'traces:7', prompt: 'p', completion: 'c1', references: [{ answer: 'y', utility: 1 }] },
    ]);
  });

  it('prefers a literal key that holds dots or brackets', () => {
    const nested = { 'a.b': { 'c.d': 'literal' }, a: { b: { 'c.d': 'nested' } } };
    const columns = { ...nested, 'x[0]': 'bracket', x: ['index'] };
    const found = outcome(columns, 'prompt=x[0],completion=a.b.c.d', NONE);
    expect(found).toMatchObject([{ prompt: 'bracket', completion: 'literal' }]);
    const listed = outcome({ 'g[].t': 'c', g: [{ t: 'no' }] }, 'completion=g[].t', NONE);
    expect(listed).toMatchObject([{ completion: 'c' }]);
  });

  it('explodes a list into traces and zips several', () => {
    const columns = { q: 'p', g: [{ t: 'c0' }, { t: 'c1' }], r: [true, 0.25], answer: 5 };
    expect(outcome(columns, 'prompt=q,completion=g[].t,reward=r[]')).toMatchObject([
      { id: 'traces:7/0', group: 'traces:7', completion: 'c0', reward: 1, references: [{ answer: '5' }] },
      { id: 'traces:7/1', group: 'traces:7', completion: 'c1', reward: 0.25 },
    ]);
    const listed = outcome({ c: ['a', 'b'] }, 'completion=c[]', NONE);
    expect(listed).toMatchObject([{ completion: 'a' }, { completion: 'b' }]);
  });

  it('names exploded traces after the row, or as their own ids say', () => {
    const c = ['x', 'y'].map((id) => ({ t: 'a', id }));
    const columns = { id: 12, group: 'g', c };
    const numbered = ['12/0', '12/1'].map((id) => ({ id, group: 'g' }));
    expect(outcome(columns, 'completion=c[].t', NONE)).toMatchObject(numbered);
    expect(outcome(columns, 'completion=c[].t,id=c[].id', NONE)).toMatchObject([{ id: 'x' }, { id: 'y' }]);
  });

  it.each<[columns: Record<string, unknown>, spec: string | undefined, reason: string | RegExp]>([
    [{ a: ['x'], b: [1, 2] }, 'completion=a[],reward=b[]', 'a[] has 1 item and b[] 2'],
    [{ a: [], b: [] }, 'completion=a[],reward=b[]', 'empty list'],
    [
      { a: 'x', b: [1] },
      'completion=a[],reward=b[]',
      'completion: a[] leads to the text "x", expected a list: use --map completion=a',
    ],
    [{ a: ['x', 'y'] }, 'completion=a', /a is a list of 2, .*: use --map completion=a\[\]$/],
    [{ p: ['x'], completion: 'c' }, 'prompt=p', /use --map prompt=p\[\]$/],
    [
      { question: 'q', answer: 1 },
      'completion=text',
      'completion: no "text" in the row (keys question, answer): use --map completion=<path>',
    ],
    [{ completion: null }, undefined, 'completion: completion is null, expected text'],
    [
      Object.fromEntries(Array.from({ length: 40 }, (_, n) => [`k${n}`, 1])),
      undefined,
      /^.{0,200}\(40 in all\)/,
    ],
    // inherited keys are none
    [{}, 'completion=toString', 'no "toString" in the row'],
    [{ a: [] }, 'completion=a.length', ''],
    // what is mapped has to be there
    ...['id', 'group', 'reward', 'solution', 'segment_ends', 'prompt_ids'].map(
      (field): [typeof plain, string, string] => [plain, `${field}=nowhere`, `${field}: no "nowhere"`],
    ),
  ])('rejects %j with %s', (columns, spec, reason) => {
    expect(refusal(columns, spec)).toMatch(/^map: .{0,199}$/);
    expect(refusal(columns, spec)).toMatch(reason);
  });

  it('rejects only the traces of a row that do not fit', () => {
    const columns = { c: [{ t: 'a' }, {}, { t: '' }, { t: 3 }, { t: 'z' }] };
    const items = map(columns, 'completion=c[].t', NONE);
    expect(items.map(({ id }) => id)).toEqual([0, 1, 2, 3, 4].map((n) => `traces:7/${n}`));
    const codes = items.map((item) => ('kind' in item ? item.rejection.code : 'trace'));
    expect(codes).toEqual(['trace', 'map', 'empty_completion', 'map', 'trace']);
  });
});

describe('fields', () => {
  it('have their own names by default, and optional ones may be absent', () => {
    const [trace] = map(plain);
    expect(trace).toMatchObject({ id: 'traces:7', prompt: 'p', completion: 'c', reward: null });
    expect(trace).not.toHaveProperty('group');
    expect(trace).not.toHaveProperty('completionIds');
    expect(outcome({ completion: 'c' }, undefined, NONE)).toMatchObject([{ prompt: '', references: [] }]);
  });

  it.each([
    ['ok', 'ok'],
    [3, '3'],
    [9007199254740993n, '9007199254740993'],
    [null, 'traces:7'],
    ['', 'traces:7'],
  ])('id %s', (id, expected) => {
    expect(outcome({ ...plain, id })).toMatchObject([{ id: expected }]);
  });

  it('looks for references under three names', () => {
    const row = { prompt: 'p', completion: 'c' };
    for (const [columns, answer] of [
      [{ answer: 'a', references: ['r'] }, 'r'],
      [{ answer: 'a', reference: null }, 'a'],
      [{ reference: 12345678901234567890n }, '12345678901234567890'],
    ] as const)
      expect(outcome({ ...row, ...columns })).toMatchObject([{ references: [{ answer }] }]);
    expect(refusal(row)).toMatch(/^no_reference: .*--map reference=/);
    for (const nothing of [[], '']) expect(refusal({ ...row, reference: nothing })).toMatch('no_reference: ');
    // nobody needs it: whatever it is, it is no reason to lose the trace
    expect(outcome({ ...row, answer: { x: 1 } }, undefined, NONE)).toMatchObject([{ references: [] }]);
    expect(outcome({ ...row, a: { x: 1 } }, 'reference=a', NONE)).toMatchObject([{ code: 'map' }]);
  });

  it('gives a solution to a single reference', () => {
    const row = { ...plain, solution: 's' };
    expect(outcome(row)).toMatchObject([{ references: [{ answer: '1', solution: 's' }] }]);
    expect(outcome({ ...row, answer: ['1', '2'] })).toMatchObject([
      { references: [{ answer: '1' }, { answer: '2' }] },
    ]);
    expect(outcome({ ...row, answer: ['1', '2'] }, 'solution=solution')).toMatchObject([{ code: 'map' }]);
  });

  it.each([
    [1, 1],
    [-0.5, -0.5],
    [true, 1],
    [false, 0],
    // a decimal of Arrow or Parquet
    ['0.50', 0.5],
    ['-1', -1],
    [null, null],
    [Number.NaN, null],
  ])('reward %s', (reward, expected) => {
    expect(outcome({ ...plain, reward })).toMatchObject([{ reward: expected }]);
  });

  it.each(['', 'good', '1e0', '.5', [1], {}, Number.POSITIVE_INFINITY])(
    'reward %j is turned down',
    (reward) => {
      expect(outcome({ ...plain, reward })).toMatchObject([{ code: 'reward' }]);
    },
  );

  it('takes token ids in the place of text', () => {
    const [trace] = map({ prompt_ids: [], completion_ids: [0, 2147483647], answer: 'a' });
    expect(trace).toMatchObject({ prompt: '', completion: '' });
    expect(trace).toHaveProperty('completionIds', Int32Array.of(0, 2147483647));
    expect(trace).toHaveProperty('promptIds', new Int32Array(0));
    expect(outcome({ ...plain, segment_ends: [1, 2], segment_char_ends: [3] })).toMatchObject([
      { segmentEnds: Int32Array.of(1, 2), segmentCharEnds: Int32Array.of(3) },
    ]);
  });

  it.each([[[1.5]], [[-1]], [[2147483648]], [[null]], ['12'], [[1, '2']], [{ 0: 1 }], [[NaN]]])(
    'completion_ids %j are turned down',
    (completion_ids) => {
      expect(outcome({ ...plain, completion_ids })).toMatchObject([{ code: 'ids' }]);
    },
  );

  it('rejects an empty completion, however it is empty', () => {
    const empty = [{ role: 'assistant', content: '' }];
    for (const none of [{ completion: '' }, { completion_ids: [] }, { completion: empty }])
      expect(refusal({ ...plain, ...none })).toMatch('empty_completion: ');
    expect(refusal({ ...plain, completion: null })).toMatch('map: ');
  });

  it("takes the assistant's one message as a completion", () => {
    const user = { role: 'user', content: 'q' };
    const row = { ...plain, completion: [{ role: 'assistant', content: 'x' }] };
    expect(outcome(row)).toMatchObject([{ completion: 'x' }]);
    const why = /^map: .*a list of 1, expected text or one message/;
    expect(refusal({ ...row, completion: [user] })).toMatch(why);
  });

  it('looks at alternatives in turn', () => {
    const rewards = (row: object) => outcome({ ...plain, ...row }, 'reward=acc|score');
    expect(rewards({ acc: 0, score: 1 })).toMatchObject([{ reward: 0 }]);
    expect(rewards({ acc: null, score: 1 })).toMatchObject([{ reward: 1 }]);
    expect(rewards({ score: null })).toMatchObject([{ reward: null }]);
    expect(rewards({})).toMatchObject([{ code: 'map', reason: expect.stringContaining('no "acc|score"') }]);
    // true, false and an acc between 0 and 1 are verdicts, wherever they stand
    const isVerdict = (path: string, row: object) => {
      const [trace] = outcome({ ...plain, ...row }, `reward=${path}`) as object[];
      return 'isVerdict' in (trace as object);
    };
    for (const [path, row, expected] of [
      ['ok', { ok: false }, true],
      ['acc', { acc: 0 }, true],
      ['info.acc', { info: { acc: 0.5 } }, true],
      ['acc|score', { acc: 1 }, true],
      ['score', { score: 1 }, false],
      ...[5, -1, null].map((acc) => ['acc', { acc }, false] as const),
      ['acc|score', { score: 1 }, false],
      ['vacc', { vacc: 1 }, false],
    ] as const)
      expect(isVerdict(path, row), path).toBe(expected);
    const found = outcome({ ...plain, b: ['x', 'y'] }, 'completion=a[]|b[]');
    expect(found).toMatchObject([{ completion: 'x' }, { completion: 'y' }]);
  });
});
