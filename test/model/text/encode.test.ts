// What a row's ids and texts become: ids win, disagreement is said, nothing beyond the vocabulary is scored.
import { describe, expect, it } from 'vitest';
import { alignNormalized, encodeTrace } from '../../../dist/model/text/encode.js';
import { loadTokenizer } from '../../../dist/model/text/tokenizer.js';
import type { Trace } from '../../../dist/trace.js';
import { traceOf } from '../../support/io-helpers.js';
import { EMBEDDED } from '../../support/program.js';

const VOCAB = 259;
const END = 258;
const tokenizer = await loadTokenizer(EMBEDDED);

const ids = (text: string, ...more: number[]) => Int32Array.of(...Buffer.from(text), ...more);
const encode = (fields: Partial<Trace>, vocab = VOCAB) =>
  encodeTrace({ ...traceOf({}), prompt: 'p', completion: '', ...fields }, tokenizer, vocab, 100);

describe('token ids of a row', () => {
  it('are used as they are, whatever the text would be cut into', async () => {
    // the embedded tokenizer has one token for <think>; the row spelled it by bytes
    const completionIds = ids('<think>ab');
    const prompt = { prompt: '<think>', promptIds: ids('<think>') };
    const found = await encode({ ...prompt, completion: '<think>ab', completionIds });
    expect(found.completionIds).toBe(completionIds);
    expect([...found.promptIds]).toEqual([...ids('<think>')]);
    expect(found.status).toEqual([]);
    expect(found.chars).toEqual(Int32Array.from({ length: 10 }, (_, i) => i));
  });

  it.each([
    ['the same text', 'ab', ids('ab'), []],
    ['an end token that the text does not show', 'ab', ids('ab', END), []],
    ['special tokens that a decoder left out of its midst', 'ab', ids('a', END, 98, END), []],
    ['special tokens that the text shows', 'a<|end|>b', ids('a', END, 98), []],
    ['another text', 'ab', ids('ac'), ['ids:text-mismatch']],
    ['less', 'ab', ids('a'), ['ids:text-mismatch']],
    ['more', 'ab', ids('abc'), ['ids:text-mismatch']],
    ['half a character', 'é', ids('é').subarray(0, 1), ['ids:text-mismatch']],
    ['the text in another form', 'e\u0301', ids('é'), ['text:normalized']],
    ['text alone', '', ids('ab'), []],
    ['no UTF-8, alone', '', ids('aé').subarray(0, 2), ['ids:not-utf8']],
  ])('that spell %s', async (_, completion, completionIds, status) => {
    const found = await encode({ completion, completionIds });
    expect(found.status).toEqual(status);
    expect(found.completionIds).toBe(completionIds);
    expect(found.chars === null).toBe(status.some((code) => code.startsWith('ids:')));
    expect(found.tokens.units.length).toBe(completionIds.length + 1);
  });

  it('leave no characters to what the text does not show', async () => {
    const { chars } = await encode({ completion: 'ab', completionIds: ids('a', END, 98, END) });
    expect([...(chars ?? [])]).toEqual([0, 1, 1, 2, 2]);
  });

  it.each([
    ['the same text', 'p', ids('p'), []],
    ['the text without special tokens', 'p', ids('p', END), []],
    ['the text with them', 'p<|end|>', ids('p', END), []],
    ['another text', 'p', ids('q'), ['prompt:text-mismatch']],
    ['text alone', '', ids('q'), []],
  ])('of a prompt that spell %s', async (_, prompt, promptIds, status) => {
    const found = await encode({ prompt, promptIds, completion: 'a' });
    expect(found.status).toEqual(status);
    expect(found.promptIds).toBe(promptIds);
  });

  it('that are more than the policy takes are rejected, one fewer is scored', async () => {
    const promptIds = ids('p'.repeat(60));
    const { completionIds } = await encode({ promptIds, completionIds: ids('a'.repeat(40)) });
    expect(completionIds).toHaveLength(40);
    const message = expect.stringContaining('prompt and completion have 101 tokens, the policy takes 100');
    const longer = encode({ promptIds, completionIds: ids('a'.repeat(41)) });
    await expect(longer).rejects.toMatchObject({ code: 'too_long', message });
  });

  it.each([
    ['completion_ids[1] is 259, the policy', { completionIds: ids('a', 259) }],
    ['prompt_ids[0] is 4096, the policy', { promptIds: Int32Array.of(4096), completion: 'a' }],
    ['completion_ids[0] is -1, the policy', { completionIds: Int32Array.of(-1) }],
  ])('beyond the vocabulary are rejected: %s', async (reason, fields) => {
    const message = expect.stringContaining(reason);
    await expect(encode(fields)).rejects.toMatchObject({ code: 'ids', message });
  });

  it('that the policy has and the tokenizer does not know spell nothing', async () => {
    const found = await encode({ completion: 'ab', completionIds: Int32Array.of(97, 300, 98) }, 512);
    expect([...(found.chars ?? [])]).toEqual([0, 1, 1, 2]);
  });

  it('are wanted where a prompt is messages and the policy has no template', async () => {
    const prompt = [{ role: 'user', content: 'x' }];
    await expect(encode({ prompt, completion: 'a' })).rejects.toMatchObject({ code: 'chat_template' });
    expect((await encode({ prompt, promptIds: ids('x'), completion: 'a' })).status).toEqual([]);
  });
});

it.each([
  ['e\u0301x', 'NFC', 'é x', '0 2 3', '0 2 3'],
  ['ae\u0301x', 'NFC', 'aé x', '0 3 4', '0 3 4'],
  ['😀e\u0301', 'NFC', '😀 é', '0 1 3', '0 2 4'],
  ['\u1112\u1161\u11ab글', 'NFC', '한 글', '0 3 4', '0 3 4'],
  // marks in another order: the base stays by itself, the marks go together
  ['q\u0307\u0323x', 'NFC', 'q \u0323 \u0307 x', '0 1 3 3 4', '0 1 3 3 4'],
  ['éx', 'NFD', 'e \u0301 x', '0 1 1 2', '0 1 1 2'],
  ['ﬁx', 'NFKC', 'f ix', '0 1 2', '0 1 2'],
  ['\u0958', 'NFC', '\u0915\u093c', '0 1', '0 1'],
  ['e\u0301', 'NFC', 'e', undefined, undefined],
] as const)(
  'alignNormalized: %j by %s as %j: characters %s, units %s',
  (text, form, tokens, chars, units) => {
    const bytes = tokens.split(' ').map((token) => Buffer.from(token));
    const found = alignNormalized(bytes, text, form);
    expect([found?.chars.join(' '), found?.units.join(' ')]).toEqual([chars, units]);
  },
);

describe('a prompt that holds its completion, the one as text and the other as ids', () => {
  const [asked, said] = ['What is four times five, less one?\n', 'Four times five is 20, so 19.'];
  const held = { code: 'prompt_holds_completion' };

  it('is turned down', async () => {
    for (const prompt of [asked + said, `${asked}${said}\n`]) {
      await expect(encode({ prompt, completionIds: ids(said, END) })).rejects.toMatchObject(held);
      await expect(encode({ promptIds: ids(prompt), completion: said })).rejects.toMatchObject(held);
      // ids on both sides, which an end token sets apart
      const both = { promptIds: ids(prompt), completionIds: ids(said, END) };
      await expect(encode(both)).rejects.toMatchObject(held);
    }
    expect((await encode({ prompt: asked, completionIds: ids(said) })).status).toEqual([]);
  });

  it('is told of a completion that begins with its prompt, once', async () => {
    const whole = asked + said;
    const status = ['completion:has-prompt'];
    expect(await encode({ prompt: asked, completionIds: ids(whole) })).toMatchObject({ status });
    const told = await encode({ prompt: '', promptIds: ids(asked), completion: whole, status });
    expect(told).toMatchObject({ status });
  });
});
