// The tags that a thought stands between: which pair a text has, what the status says of it, where thought and answer part.
import { describe, expect, it } from 'vitest';
import { ownAnswer } from '../../dist/estimate/answer-text.js';
import { compareAnswer } from '../../dist/estimate/reward.js';
import { findThought, tagStatus, tagsOf } from '../../dist/segment/span.js';
import { letters } from '../support/tokens.js';

const MARKS = { close: '\n', open: 'answer: ', closer: '\n' };

const KNOWN = [
  ...['think', 'reasoning', 'thinking', 'thought'].map((name) => [`<${name}>`, `</${name}>`] as const),
  ['<|begin_of_thought|>', '<|end_of_thought|>'],
] as const;

describe.each(KNOWN)('%s … %s', (open, close) => {
  const text = `${open}\n2+2=4\n${close}\nThe sum.\n\\boxed{4}`;
  const tags = tagsOf(text);

  it('is found, opened or only closed, and told', () => {
    expect(tags).toEqual([open, close]);
    expect(tagsOf(`2+2=4${close}4`)).toEqual([open, close]);
    const name = open === '<think>' ? [] : [`thought:${/\w+/.exec(open)?.[0].replaceAll('_', '-')}`];
    expect(tagStatus(text, tags, 'asked\n')).toEqual(name);
    expect(tagStatus(text, tags, `asked\n${open}\n`)).toEqual([...name, 'thought:reopened']);
    expect(tagStatus(`\n${text}`, tags, `asked\n${open}`)).toEqual([...name, 'thought:reopened']);
    expect(tagStatus(text.slice(open.length), tags, `asked\n${open}\n`)).toEqual(name);
  });

  it('bounds the thought: what closes it takes no credit as thought', () => {
    const { start, end, answered } = findThought(letters(text));
    expect([text.slice(0, start), text.slice(start, end), answered]).toEqual([`${open}\n`, '2+2=4\n', true]);
  });

  it('parts the answer from what was only thought of', () => {
    expect(ownAnswer(`${open}\\boxed{3}${close}\nanswer: 4\n`, MARKS)).toBe('4');
    expect(ownAnswer(`${open}\\boxed{3}${close}<answer> 4 </answer>`, MARKS)).toBe('4');
    const twice = '<answer>5</answer> no: <answer>4</answer> is what I found';
    expect(ownAnswer(`${open}\\boxed{3}${close}${twice}`, MARKS)).toBe('4');
  });

  it('opened and not closed is a thought that was cut', () => {
    const reference = [{ answer: '4', utility: 1 }];
    const cut = { reward: 0, status: ['truncated'] };
    expect(compareAnswer(`${open}2+2`, reference, MARKS)).toEqual(cut);
    expect(compareAnswer('2+2', reference, { ...MARKS, opening: `asked\n${open}\n` })).toEqual(cut);
    const closed = compareAnswer('2+2', reference, { ...MARKS, opening: `asked\n${open}${close}` });
    expect(closed.status).toEqual(['reward:unknown']);
  });
});

it('the pair that opens the text is the one, whatever else it speaks of', () => {
  expect(tagsOf('<reasoning>no </think> here</reasoning>')?.[0]).toBe('<reasoning>');
  expect(tagsOf('no tags at all')).toBeUndefined();
  const named = ['[[', ']]'] as const;
  const tags = tagsOf('[[2+2]]4', named);
  const status = tagStatus('[[2+2]]4', tags, '');
  expect([tags, tagsOf('[[2+2]]4'), status]).toEqual([named, undefined, ['thought:named']]);
  expect(findThought(letters('[[2+2]]4'), named)).toMatchObject({ start: 2, end: 5, answered: true });
  // where nothing opens the text it goes before the known ones
  expect(tagsOf('2+2]] or </think>', named)).toBe(named);
  const marks = { ...MARKS, thoughtTags: named };
  expect(compareAnswer('[[2+2', [{ answer: '4', utility: 1 }], marks).status).toEqual(['truncated']);
  expect(compareAnswer('[[2+2', [{ answer: '4', utility: 1 }], MARKS).status).toEqual(['reward:unknown']);
});
