// Completions of text get the policy's end token back, and a template that opens the thought is known where a prompt is messages.
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { EMBEDDED, type ScoredRow } from '../support/program.js';
import { openScene } from '../support/scene.js';

/** Turns end with a token, and the policy's begin in a thought. */
const TEMPLATE = `{% for m in messages %}<{{ m.role }}>
{% if m.role == 'assistant' %}<think>
{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}<|end|>
{% endfor %}{% if add_generation_prompt %}<assistant>
<think>
{% endif %}`;
const END = 258;

const { at, done, fails, rows, write } = await openScene();
const user = (content: string) => ({ role: 'user', content });
const scored = async (name: string, given: readonly object[], flags = '') => {
  await write(`${name}.jsonl`, given);
  await done(
    `score ${name}.jsonl ${flags} --policy thinks --baseline value --overwrite -o ${name}.out.jsonl`,
  );
  return rows<ScoredRow & { completion_ids: number[]; completion: string }>(`${name}.out.jsonl`);
};

beforeAll(async () => {
  for (const name of ['config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json'])
    await cp(join(EMBEDDED, name), at(`checkpoint/${name}`));
  await write('checkpoint/chat_template.jinja', TEMPLATE);
  await done('policy build checkpoint -o thinks');
});

const TEXTS = [
  { prompt: [user('1+1?')], completion: 'One</think>\n\n\\boxed{2}', answer: '2' },
  { prompt: [user('1+1?')], completion: 'One and one.\n\nSo 2, no wait', answer: '2' },
  { prompt: [user('1+1?')], completion: 'One</think>\n\n\\boxed{2}', finish_reason: 'length', answer: '2' },
  { prompt: [user('1+1?')], completion_ids: [97, 98], finish_reason: 'stop', answer: '2', reward: 1 },
];

it('what was finished gets it, in the last segment; what was cut, and ids, stay as they are', async () => {
  const found = await scored('texts', TEXTS);
  const ends = (all: typeof found) => all.map(({ completion_ids: ids }) => ids.at(-1) === END);
  expect(ends(found)).toEqual([true, false, false, false]);
  expect(found[0]?.segments.at(-1)).toMatchObject({ kind: 'answer', end: found[0]?.completion_ids.length });
  expect(found.map(({ status }) => status.includes('completion:end-token'))).toEqual(ends(found));
  await done('verify texts.out.jsonl');
  expect(ends(await scored('texts', TEXTS, '--end-token add'))).toEqual([true, true, true, false]);
  expect(ends(await scored('texts', TEXTS, '--end-token none'))).toEqual([false, false, false, false]);
  await fails('segment texts.jsonl --no-policy --end-token add', 2, '--end-token has no meaning');
});

it('the thought that the template opens is known: a cut one is truncated, one of a column of its own is opened once', async () => {
  const apart = [{ role: 'assistant', reasoning_content: 'One and one.', content: '\\boxed{2}' }];
  const found = await scored('thoughts', [
    ...TEXTS.slice(0, 2).map((row) => ({ ...row, reward: null })),
    { prompt: [user('1+1?')], completion: apart, answer: '2', reward: 1 },
  ]);
  expect(found.map(({ reward }) => reward)).toEqual([1, 0, 1]);
  expect(found[1]?.status).toContain('truncated');
  const [OPEN, CLOSE] = [256, 257];
  const ids = found[2]?.completion_ids as number[];
  expect(Buffer.from(ids.slice(0, ids.indexOf(CLOSE))).toString()).toBe('One and one.\n');
  expect(ids).not.toContain(OPEN);
  expect(found[2]?.status).not.toContain('thought:reopened');
});

it('turns that were cut lose the token that their template has put behind them', async () => {
  const turns = [
    { role: 'assistant', reasoning_content: 'hm', content: 'call' },
    { role: 'tool', content: '4' },
    { role: 'assistant', reasoning_content: 'so', content: 'it is' },
  ];
  const row = { prompt: [user('2+2?')], completion: turns, answer: '4', reward: 0 };
  const found = await scored('turns', [{ ...row }, { ...row, is_truncated: true }]);
  expect(found.map(({ completion_ids: ids }) => ids.at(-1) === END)).toEqual([true, false]);
  expect(found[1]?.completion_ids).toEqual(found[0]?.completion_ids.slice(0, -1));
  // the state behind the tool's answer is in the thought that the template opens, and the call is one segment
  const ends = found[0]?.segments.map(({ kind, start, end }) => [kind, (end as number) - (start as number)]);
  expect(ends).toEqual([
    ['thought', 2],
    ['thought', 6],
    ['shown', expect.any(Number)],
    ['thought', 2],
    ['answer', 7],
  ]);
  await done('verify turns.out.jsonl');
});

it('texts that were decoded with their padding are those without it, and counted; what was cut keeps no end token', async () => {
  const whole = [
    { prompt: 'p', completion: 'One</think>\n\n\\boxed{2}<|end|>', answer: '2', reward: 1 },
    { prompt: 'p', completion: 'One and one', finish_reason: 'length', answer: '2', reward: 0 },
    { prompt: 'p', completion: 'One</think>\n\n\\boxed{2}<|end|>', answer: '2', reward: 1 },
  ];
  const PADS = '<|end|>'.repeat(3);
  const [first, cut, left] = whole as [(typeof whole)[0], object, object];
  const padded = [
    { ...first, prompt: `${PADS}p`, completion: `${first.completion}${PADS}` },
    { ...cut, completion: `One and one${PADS}` },
    { ...left, completion: `${PADS}${first.completion}` },
  ];
  const expected = await scored('whole', whole);
  const found = await scored('padded', padded);
  for (const [n, row] of found.entries()) {
    expect(row.completion_ids).toEqual(expected[n]?.completion_ids);
    expect(row.sigma).toEqual(expected[n]?.sigma);
  }
  expect(found.map(({ completion_ids: ids }) => ids.filter((id) => id === END).length)).toEqual([1, 0, 1]);
  expect(found[2]?.status).toContain('ids:text-mismatch');
  await done('verify padded.out.jsonl');
  const said = `score padded.jsonl --policy thinks --baseline value --overwrite -o padded.parquet`;
  expect((await done(said)).stderr).toContain('padding was cut off 3 traces: 12 tokens');
  await done('verify padded.parquet');
  for (const n of [0, 1, 2]) await done(`inspect padded.parquet --row padded:${n}`);
});

it.each([
  ['as JSON', '[{"role": "assistant", "content": "One</think> 2"}]'],
  ['one message', '{"role": "assistant", "content": "One</think> 2"}'],
  ['as Python prints it', "[{'role': 'assistant', 'content': 'One</think> 2'}]"],
])('a completion of messages written as text says so: %s', async (_, completion) => {
  const rows = [{ prompt: 'p', completion, answer: '2', reward: 1 }];
  expect((await scored('as-text', rows))[0]?.status).toContain('completion:messages-as-text');
  const { stderr } = await done(
    'score as-text.jsonl --policy thinks --baseline value --overwrite -o a.jsonl',
  );
  expect(stderr).toContain('--map completion=<path>[0].content enters JSON');
  await done('verify a.jsonl');
  if (!completion.startsWith('[{"')) return;
  const [mended] = await scored('as-text', rows, '--map completion=completion[0].content');
  expect(mended).toMatchObject({ completion: 'One</think> 2' });
  expect(mended?.status).not.toContain('completion:messages-as-text');
});
