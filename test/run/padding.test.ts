// Padding of a trainer's tensors: which ids are cut off a trace, and which are not.
import { describe, expect, it } from 'vitest';
import { parseFieldMap } from '../../dist/io/map/fields.js';
import { mapRow } from '../../dist/io/map/map.js';
import { EMBEDDED_POLICY } from '../../dist/package-files.js';
import { openPadding, unpadded } from '../../dist/run/padding.js';
import type { Trace } from '../../dist/trace.js';
import { inputRow } from '../support/io-helpers.js';

/** As Qwen has them: two tokens end a text, one of which pads; and a policy that pads with another. */
const [TEXT, END, PAD] = [['<text>', 90] as const, ['<end>', 91] as const, ['<pad>', 99] as const];
const QWEN = { pads: new Set([90]), ends: new Set([90, 91]), texts: [TEXT, END] };
const OTHER = { pads: new Set([99]), ends: new Set([91]), texts: [PAD, END] };
const NONE = { pads: new Set<number>(), ends: new Set<number>(), texts: [] };
type Tokens = Parameters<typeof unpadded>[1];
const BOTH = { prompt_ids: [0, 1], completion_ids: [3, 0, 0] };
const BEGINS = { pads: new Set([90]), ends: new Set([90]), start: 90, texts: [TEXT] };

/** Prompt and completion, and the mask where it has turns, of a row with these columns. */
function cut(columns: Record<string, unknown>, tokens: Tokens) {
  const row = { prompt_ids: [1, 2], completion_ids: [3, 91], ...columns };
  const map = { ...parseFieldMap(undefined), unpadded: (trace: Trace) => unpadded(trace, tokens) };
  const [trace] = mapRow(inputRow(row), map, { prompt: true, references: false });
  const { promptIds, completionIds, completionMask, padding = 0 } = trace as Trace;
  return [[...(promptIds ?? [])], [...(completionIds ?? [])], completionMask && [...completionMask], padding];
}

describe('ids', () => {
  it.each<[string, Record<string, unknown>, Tokens, completion: number[], prompt?: number[]]>([
    // behind the end token, whatever it is
    ['the pad token', { completion_ids: [3, 91, 99, 99] }, OTHER, [3, 91]],
    ['a pad token that ends a text, too', { completion_ids: [3, 91, 90, 90] }, QWEN, [3, 91]],
    ['a pad token that is the end token', { completion_ids: [3, 90, 90, 90] }, QWEN, [3, 90]],
    ['an end token alone', { completion_ids: [3, 90] }, QWEN, [3, 90]],
    ['another id than the pad token', { completion_ids: [3, 91, 0, 0] }, OTHER, [3, 91]],
    ['the end token, though another pads', { completion_ids: [3, 91, 91] }, OTHER, [3, 91]],
    ['a completion that was cut', { completion_ids: [3, 4, 99, 99] }, OTHER, [3, 4]],
    ['one that ended at once', { completion_ids: [90, 90, 90] }, QWEN, [90]],
    // what a policy wrote
    ['a newline behind the end token', { completion_ids: [3, 91, 10] }, OTHER, [3, 91, 10]],
    ['repeated ids of a completion that was cut', { completion_ids: [3, 7, 7, 7] }, QWEN, [3, 7, 7, 7]],
    ['repeated ids without a policy', { completion_ids: [3, 91, 0, 0] }, NONE, [3, 91, 0, 0]],
    ['a pad token inside', { completion_ids: [3, 90, 4, 91] }, QWEN, [3, 90, 4, 91]],
    // left, and prompts
    ['a completion padded on its left', { completion_ids: [90, 90, 3, 91] }, QWEN, [3, 91]],
    ['a prompt padded on its left', { prompt_ids: [90, 90, 1, 2] }, QWEN, [3, 91]],
    ['by one', { prompt_ids: [99, 1, 2] }, OTHER, [3, 91]],
    ['a prompt padded on its right', { prompt_ids: [1, 2, 90, 90] }, QWEN, [3, 91]],
    ["a prompt's end token", { prompt_ids: [1, 2, 91] }, QWEN, [3, 91], [1, 2, 91]],
    ['a start token that pads', { prompt_ids: [90, 90, 90, 1] }, BEGINS, [3, 91], [90, 1]],
    ['a start token', { prompt_ids: [90, 1] }, BEGINS, [3, 91], [90, 1]],
    // masks beside
    ['an attention mask of both', { ...BOTH, attention_mask: [0, 1, 1, 0, 0] }, NONE, [3], [1]],
    ['one of the completion', { completion_ids: [3, 0], completion_attention_mask: [1, 0] }, NONE, [3]],
    ['one that leaves out text', { completion_ids: [3, 4, 5], attention_mask: [1, 0, 0] }, NONE, [3, 4, 5]],
    ['a row that says it was cut', { completion_ids: [3, 90, 90], finish_reason: 'length' }, QWEN, [3]],
    ['a mask that says it was cut', { completion_ids: [3, 90, 90], completion_mask: [1, 0, 0] }, QWEN, [3]],
    ['one that keeps the end', { completion_ids: [3, 90, 90], completion_mask: [1, 1, 0] }, QWEN, [3, 90]],
    ['one with 1 for padding', { completion_ids: [3, 91, 99], completion_mask: [1, 1, 1] }, OTHER, [3, 91]],
  ])('%s', (_, columns, tokens, completion, prompt = [1, 2]) => {
    const row: { prompt_ids: number[]; completion_ids: number[] } = {
      prompt_ids: [1, 2],
      completion_ids: [3, 91],
      ...columns,
    };
    const removed = row.prompt_ids.length + row.completion_ids.length - prompt.length - completion.length;
    expect(cut(columns, tokens)).toEqual([prompt, completion, undefined, removed]);
  });

  it.each([
    // a tool's answer at the end of an episode that was cut is none, and masks are cut alike
    ['what a tool said', [3, 91, 5, 6], [1, 1, 0, 0], [3, 91, 5, 6], [1, 1, 0, 0]],
    ['padding behind it', [3, 91, 5, 6, 99, 99], [1, 1, 0, 0, 0, 0], [3, 91, 5, 6], [1, 1, 0, 0]],
    ['turns', [3, 5, 4, 91, 0, 0], [1, 0, 1, 1, 0, 0], [3, 5, 4, 91], [1, 0, 1, 1]],
  ])('of turns: %s', (_, ids, mask, left, own) => {
    const found = cut({ completion_ids: ids, completion_mask: mask }, OTHER);
    expect(found).toEqual([[1, 2], left, own, ids.length - left.length]);
  });
});

describe('texts that were decoded with their special tokens', () => {
  const textsOf = (columns: Record<string, unknown>, tokens: Tokens) => {
    const trace = { prompt: 'p', completion: 'c', source: inputRow(columns), ...columns };
    const { prompt, completion, padding = 0, status } = unpadded(trace as unknown as Trace, tokens);
    return [prompt, completion, padding, status];
  };
  it.each<[string, Record<string, unknown>, Tokens, completion: string, padding: number, prompt?: string]>([
    ['the pad token', { completion: 'c 8}<end><pad><pad><pad>' }, OTHER, 'c 8}<end>', 3],
    ['a pad token that ends a text, too', { completion: 'c<end><text><text>' }, QWEN, 'c<end>', 2],
    ['the end token many times', { completion: `c${'<text>'.repeat(5000)}` }, QWEN, 'c<text>', 4999],
    ['an end token alone', { completion: 'c<end>' }, QWEN, 'c<end>', 0],
    ['one that pads', { completion: 'c<text>' }, QWEN, 'c<text>', 0],
    ['a completion that was cut', { completion: 'c<text><text>', is_truncated: true }, QWEN, 'c', 2],
    ['one that was cut behind its end', { completion: 'c<end>', finish_reason: 'length' }, QWEN, 'c<end>', 0],
    ['one that ended at once', { completion: '<text><text>' }, QWEN, '<text>', 1],
    ['tokens of another policy', { completion: 'c<eot><eot>' }, QWEN, 'c<eot><eot>', 0],
    ['a pad token inside', { completion: 'c<pad>d<end>' }, OTHER, 'c<pad>d<end>', 0],
    ['a prompt padded on its left', { prompt: '<text><text>p' }, QWEN, 'c', 2],
    ['a prompt padded on its right', { prompt: 'p<pad><pad>' }, OTHER, 'c', 2],
    ["a prompt's end token", { prompt: 'p<end>' }, QWEN, 'c', 0, 'p<end>'],
    ['a start token that pads', { prompt: '<text><text>p' }, BEGINS, 'c', 1, '<text>p'],
    [
      'text beside ids',
      { completion: 'c<end><pad>', completionIds: Int32Array.of(3, 91, 99) },
      OTHER,
      'c<end>',
      1,
    ],
  ])('%s', (_, columns, tokens, completion, padding, prompt = 'p') => {
    expect(textsOf(columns, tokens)).toEqual([prompt, completion, padding, undefined]);
  });

  it('on the left of a completion: its characters stand elsewhere in the row', () => {
    const found = textsOf({ completion: '<text><text>c<end>' }, QWEN);
    expect(found).toEqual(['p', 'c<end>', 2, ['ids:text-mismatch']]);
  });
});

it('asks the policy for its tokens', async () => {
  const found = await openPadding(EMBEDDED_POLICY);
  const trace = {
    promptIds: Int32Array.of(258, 1),
    completionIds: Int32Array.of(2, 258, 258),
    source: inputRow({}),
  };
  expect(found(trace as unknown as Trace)).toMatchObject({
    promptIds: Int32Array.of(1),
    completionIds: Int32Array.of(2, 258),
    padding: 2,
  });
});
