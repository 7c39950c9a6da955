// A prompt that holds its completion, and a completion that begins with its prompt.
import { describe, expect, it } from 'vitest';
import { beginsWithPrompt, checkPrompt } from '../../../dist/io/map/trace-fields.js';

const ASKED = 'How many legs have four cows and a hen?';
const THOUGHT = 'Four cows have 16 legs, a hen has 2.\nAnswer: 18';
const ids = (...of: number[]) => Int32Array.from(of);
const ANSWER_IDS = ids(5, 6, 7, 5, 6, 7, 8, 9);
const says = (role: string, content: string) => ({ role, content });
const NO_TEXT = { prompt: '', completion: '' };

describe('a prompt that holds its completion', () => {
  it.each([
    ['whole text', `${ASKED}\n${THOUGHT}`, 'holds the completion'],
    ['whole text and an end token', `${ASKED}\n${THOUGHT}<|im_end|>\n`, 'holds the completion'],
    ['whole dialogue', [says('user', ASKED), says('assistant', 'Other.')], "ends with the assistant's turn"],
    ['a turn before the last', [says('assistant', THOUGHT), says('user', 'Thanks')], 'holds the completion'],
  ] as const)('%s', (_, prompt, reason) => {
    expect(() => checkPrompt({ prompt, completion: THOUGHT }, 'text')).toThrow(`prompt: text ${reason}`);
  });

  it('as ids, though they begin twice', () => {
    const held = { prompt: '', completion: '', completionIds: ANSWER_IDS };
    const promptIds = ids(1, 5, 6, 7, 5, 6, 7, 5, 6, 7, 8, 9, 2);
    expect(() => checkPrompt({ ...held, promptIds }, 'ids')).toThrow(
      /^prompt_ids: ids holds the completion_ids, .*--map prompt_ids=<path>$/,
    );
    expect(() => checkPrompt({ ...held, promptIds: promptIds.subarray(0, 11) }, 'ids')).not.toThrow();
    // at the very end, and whatever text is beside them
    const whole = { prompt: ASKED, completion: THOUGHT, promptIds: promptIds.subarray(0, 12) };
    expect(() => checkPrompt({ ...whole, completionIds: ANSWER_IDS }, 'ids')).toThrow(
      'holds the completion_ids',
    );
  });

  it('tells from 24 characters or 8 ids on, spaces around them left out', () => {
    const text = (n: number) => () =>
      checkPrompt({ prompt: `${ASKED}${'x'.repeat(n)}`, completion: ` ${'x'.repeat(n)}\n` }, 'prompt');
    expect(text(24)).toThrow('holds');
    expect(text(23)).not.toThrow();
    const promptIds = ids(1, ...ANSWER_IDS);
    const ofIds = (n: number) => () =>
      checkPrompt({ ...NO_TEXT, promptIds, completionIds: ANSWER_IDS.subarray(0, n) }, 'ids');
    expect(ofIds(8)).toThrow('holds');
    expect(ofIds(7)).not.toThrow();
  });
});

it('a completion that begins with its prompt, as text, messages or ids', () => {
  const whole = `\n${ASKED}\n${THOUGHT}`;
  expect(beginsWithPrompt({ prompt: `${ASKED}\n`, completion: whole })).toBe(true);
  expect(beginsWithPrompt({ prompt: [{ role: 'user', content: ASKED }], completion: whole })).toBe(true);
  const completionIds = ids(...ANSWER_IDS, 3);
  expect(beginsWithPrompt({ prompt: '', completion: '', promptIds: ANSWER_IDS, completionIds })).toBe(true);
  const system = { role: 'system', content: 'You count the legs of animals on a farm.' };
  const asked = [system, { role: 'user', content: ASKED }];
  expect(beginsWithPrompt({ prompt: asked, completion: whole })).toBe(true);
  expect(beginsWithPrompt({ prompt: ASKED, completion: THOUGHT })).toBe(false);
  // from 24 characters or 8 ids on
  const of = (n: number) => beginsWithPrompt({ prompt: 'x'.repeat(n), completion: `${'x'.repeat(n)}: y` });
  expect([of(24), of(23)]).toEqual([true, false]);
  const promptIds = ANSWER_IDS.subarray(0, 7);
  expect(beginsWithPrompt({ ...NO_TEXT, promptIds, completionIds })).toBe(false);
});
