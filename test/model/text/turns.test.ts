// Messages of several turns as token ids with a mask, by chat templates that keep what stood before, and by those that do not.
import { afterAll, expect, it } from 'vitest';
import { type ChatRenderer, chatRenderer } from '../../../dist/model/text/chat-template.js';
import { loadTokenizer } from '../../../dist/model/text/tokenizer.js';
import { renderedTurns } from '../../../dist/segment/turn-parts.js';
import type { Message } from '../../../dist/trace.js';
import { traceOf } from '../../support/io-helpers.js';
import { EMBEDDED } from '../../support/program.js';

/** A template like ChatML's, which marks roles, calls and thoughts, and ends messages by the end token and a line break. */
const CHATML = `{% if tools %}[{{ tools|length }}]{% endif %}{% for m in messages %}<{{ m.role }}>
{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}{% for c in m.tool_calls or [] %}{call {{ c.function.name }}}{% endfor %}<|end|>
{% endfor %}{% if add_generation_prompt %}<assistant>
{% endif %}`;
/** The same without the thoughts of all but the last message. */
const FORGETFUL = CHATML.replace('m.reasoning_content %}', 'm.reasoning_content and loop.last %}');

const PROMPT: Message[] = [{ role: 'user', content: '2+2?' }];
const TURNS: Message[] = [
  { role: 'assistant', content: '', reasoning_content: 'hm', tool_calls: [{ function: { name: 'add' } }] },
  { role: 'tool', content: '4' },
  { role: 'assistant', content: 'answer: 4' },
];

const tokenizer = await loadTokenizer(EMBEDDED);
const renderers: ChatRenderer[] = [];
afterAll(async () => {
  await Promise.all(renderers.map((each) => each.close()));
});

function rendererOf(source: string): ChatRenderer {
  const chat = chatRenderer({ file: 'a template', source, variables: {} });
  renderers.push(chat);
  return chat;
}
const rendered = (source: string, turns = TURNS, more = {}) =>
  renderedTurns({ ...traceOf({}), prompt: PROMPT, turns, ...more }, rendererOf(source), tokenizer);

it('the policy wrote what stands between what opens a turn and its end token, and was shown all else', async () => {
  const { prompt, completion, promptIds, completionIds, completionMask } = await rendered(CHATML);
  const text = (ids: Int32Array) => tokenizer.decode(ids).toString('utf8');
  expect(prompt).toBe('<user>\n2+2?<|end|>\n<assistant>\n');
  expect(text(promptIds)).toBe(prompt);
  const called = '<think>hm</think>{call add}<|end|>';
  const parts = [called, '\n<tool>\n4<|end|>\n<assistant>\n', 'answer: 4<|end|>'];
  expect(completion).toBe(parts.join(''));
  expect(text(completionIds)).toBe(completion);
  const bits = parts.flatMap((part, n) =>
    Array((tokenizer.encode(part) as Int32Array).length).fill(1 - (n % 2)),
  );
  expect([...(completionMask ?? [])]).toEqual(bits);
});

it('tools are told to the template; words behind the last turn are no part of the trace; one turn has no mask', async () => {
  const { prompt } = await rendered(CHATML, TURNS, { tools: [{}, {}] });
  expect(prompt).toBe('[2]<user>\n2+2?<|end|>\n<assistant>\n');
  expect(await renderers.at(-1)?.render(PROMPT, [{}, {}])).toBe(prompt);
  const shown: Message = { role: 'tool', content: 'late' };
  expect((await rendered(CHATML, [...TURNS, shown])).completion).toBe((await rendered(CHATML)).completion);
  const [call] = TURNS as [Message];
  expect(await rendered(CHATML, [call])).not.toHaveProperty('completionMask');
});

it('a template that drops an earlier thought, a prompt of text and a policy without a template are turned down', async () => {
  const why = (promise: Promise<unknown>) => promise.catch(({ code, reason }) => [code, reason]);
  expect(await why(rendered(FORGETFUL))).toEqual([
    'turns',
    expect.stringContaining(
      'up to number 1 behind the prompt ("assistant") otherwise once later ones are there',
    ),
  ]);
  // where nothing was thought nothing is dropped
  const plain = TURNS.map(({ reasoning_content: _, ...message }) => message as Message);
  expect((await rendered(FORGETFUL, plain)).completion).toContain('{call add}');
  expect(await why(rendered(CHATML, TURNS, { prompt: '2+2?' }))).toEqual([
    'turns',
    expect.stringContaining('its prompt is text, expected messages'),
  ]);
  const trace = { ...traceOf({}), prompt: PROMPT, turns: TURNS };
  expect(await why(renderedTurns(trace, undefined, tokenizer))).toEqual([
    'turns',
    expect.stringContaining('the policy has no chat template'),
  ]);
});
