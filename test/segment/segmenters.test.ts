/** The segmenters beside hybrid: worked examples, naive oracles on random texts, and what may never happen to a cut. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { cutPieces, mergeSegments, type SegmentOptions } from '../../dist/segment/segment.js';
import { declarationOf, IN_ALL } from '../../dist/segment/segmenters.js';
import { findThought } from '../../dist/segment/span.js';
import { cutpoints, entropyShareCuts, entropyThresholdCuts, piecesBetween } from '../oracle/segmenters.js';
import { seeded } from '../oracle/toy.js';
import { spell } from '../support/tokens.js';

type Options = Partial<SegmentOptions> & Pick<SegmentOptions, 'segmenter'>;

function ends(tokens: readonly string[], options: Options, entropies?: number[], logprobs?: number[]) {
  const ones = tokens.map(() => 1);
  const figures = {
    entropies: Float32Array.from(entropies ?? ones),
    logprobs: Float32Array.from(logprobs ?? ones.map(() => -1)),
  };
  const pieces = cutPieces(spell(tokens), { fixedLength: 1, ...options });
  return { pieces, found: mergeSegments(pieces, figures) };
}

/** The thought's segments as texts; a text is taken character by character. */
function texts(
  tokens: readonly string[] | string,
  options: Options,
  entropies?: number[],
  logprobs?: number[],
) {
  const list = typeof tokens === 'string' ? Array.from(tokens) : tokens;
  const { thoughtEnds } = ends(list, options, entropies, logprobs).found;
  return Array.from(thoughtEnds, (end, k) => list.slice(thoughtEnds[k - 1] ?? 0, end).join(''));
}

describe('sentence', () => {
  const sentences = (text: string) => texts(text, { segmenter: 'sentence' });

  test.each([
    ['two sentences', ['Add 2 and 3. ', 'That is 5! ', 'Is it? ', 'Yes.']],
    ['a decimal number', ['So x = 3.14 is near 22/7. ', 'Good.']],
    ['shortened words', ['Take e.g. Dr. Wu, Mr. Li et al. A proof, cf. Lemma 3. ', 'Done.']],
    ['what is shortened before a number', ['See Fig. 3 and Eq. (2). ', 'Now it is no. ', 'Good.']],
    ["a list's numbers", ['1. First add. ', '2. Then halve. ', '(B) Stop.']],
    ['a formula between dollars', ['Let $x = 2. Y$ be given. ', 'Then stop.']],
    ['prices', ['It costs $5. ', 'Or $6. ', 'Fine.']],
    ['formulas of LaTeX', ['So \\( a. B \\) and \\[ c. D\n\\] hold. ', 'Now \\frac{1.5}{2}. ', 'Good.']],
    ['a formula that is not closed', ['So \\( a. ', 'Then b.']],
    ['marks without a word', ['"It is 4." ', 'So.']],
    ['lines, blank ones to the left', ['One\n\n', 'two. ', 'Three\n', 'four']],
    ['Chinese', ['我们需要求解。', '首先，x=3.14。', '然后！', '好的？', '是。', '“对。”', '他说。']],
    ['Japanese', ['まず計算します。', '次に、答えは3.5です。', '「はい。」', '終わり。']],
    ['Hindi and Arabic', ['यह सही है। ', 'आगे। ', 'هل هذا صحيح؟ ', 'نعم.']],
  ])('%s', (_, expected) => {
    expect(sentences(expected.join(''))).toEqual(expected);
  });

  test('a sentence longer than what is looked at at once is not cut', () => {
    const long = `Long ${'word '.repeat(1500)}end. `;
    const parts = ['Short. ', long, ...Array<string>(300).fill('Next one. '), 'Last.'];
    expect(sentences(parts.join(''))).toEqual(parts);
  });

  test('a token that holds the end and the start of two sentences goes with the second; others are not split', () => {
    expect(texts(['Add', ' it', '. Then', ' stop', '.'], { segmenter: 'sentence' })).toEqual([
      'Add it',
      '. Then stop.',
    ]);
  });

  test('many sentences and openings take no quadratic time', () => {
    const before = process.cpuUsage();
    const many = ['Ab c. '.repeat(20_000), '\\('.repeat(20_000), '$a'.repeat(50_000), '好。'.repeat(30_000)];
    for (const tokens of many.map((text) => spell(text.split(''))))
      declarationOf('sentence').ends(tokens, { start: 0, end: tokens.textEnd, answered: false }, IN_ALL);
    // a second; looked at all at once, minutes
    expect(process.cpuUsage(before).user).toBeLessThan(10_000_000);
  });

  test('what stands beyond the thought is not looked at', () => {
    expect(sentences('One. Two.</think>Three. Four.')).toEqual(['One. ', 'Two.']);
  });
});

describe('keyword', () => {
  test('cuts before a keyword at the start of a line or sentence, and nowhere else', () => {
    const pieces = ['a. ', 'Wait, b\nc\n', 'So d. And So e'];
    expect(texts(pieces.join(''), { segmenter: 'keyword' })).toEqual(pieces);
  });

  test('other words, of any letters and signs, in place of the default ones', () => {
    const keywords = ['Step 1.', 'Hold on', '等等', '所以', 'Ähm'];
    for (const pieces of [
      ['a. Wait. ', 'Step 1. b. ', 'Hold on, c. Hold only. ', 'Ähm d.\nÄhmer'],
      ['先算。', '等等，不对。 ', '所以得五。再所以'],
    ])
      expect(texts(pieces.join(''), { segmenter: 'keyword', keywords })).toEqual(pieces);
  });

  test('words with signs of patterns in them, and marks that a letter may follow', () => {
    const keywords = ['Re-check', '-', '**', '[a]', 'x^2|y'];
    const pieces = ['a.\n', 'Re-check b.\nRe-checked\n', '- c\n', '-d\n', '**e**\n', '[a] f. ', 'x^2|y'];
    expect(texts(pieces.join(''), { segmenter: 'keyword', keywords })).toEqual(pieces);
  });

  test('hybrid and adaptive take the words too', () => {
    const text = 'a. Wait b\nc. Hm d';
    expect(texts(text, { segmenter: 'hybrid' })).toEqual(['a. ', 'Wait b\n', 'c. Hm d']);
    const expected = ['a. Wait b\n', 'c. ', 'Hm d'];
    for (const segmenter of ['hybrid', 'adaptive'] as const)
      expect(texts(text, { segmenter, keywords: ['Hm'], adaptiveLimit: 0 })).toEqual(expected);
  });
});

describe('entropy', () => {
  const tokens = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k'];
  const entropies = [9, 0, 2, 0.5, 2, 0, 1, 0, 3, 0, 0];

  test('worked example: a threshold cuts before every token that reaches it, the first one aside', () => {
    const at = (entropyThreshold: number) =>
      texts(tokens, { segmenter: 'entropy', entropyThreshold }, entropies);
    expect(at(2)).toEqual(['ab', 'cd', 'efgh', 'ijk']);
    expect(at(9.5)).toHaveLength(1);
  });

  test('worked example: a share of .25 of ten places is two cuts, at 3 nats and at the first of the two with 2', () => {
    const shares = { segmenter: 'entropy', entropyShare: 0.25 } as const;
    expect(texts(tokens, shares, entropies)).toEqual(['ab', 'cdefgh', 'ijk']);
  });
});

const logprobs = [0.5, 1, 0.8, 0.95, 0.3, 0.2, 0.91, 0.89, 0.1].map(Math.log);
const tokens = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'];

test('cutpoint: worked example: a piece ends before every second of the tokens below .9', () => {
  // cutpoints: a c e f h i
  const options = { segmenter: 'cutpoint', cutpointEvery: 2 } as const;
  expect(texts(tokens, options, undefined, logprobs)).toEqual(['ab', 'cde', 'fgh', 'i']);
  expect(texts(tokens, { ...options, cutpointProbability: 0.25 }, undefined, logprobs)).toEqual([
    'abcdefgh',
    'i',
  ]);
  expect(texts(tokens, { segmenter: 'cutpoint' }, undefined, logprobs)).toEqual(['abcdefg', 'hi']);
});

test('adaptive: worked example: the pairs of .5 and 1 nats are merged, those of 2.5 and more are left', () => {
  const tokens = ['a\n', 'b\n', 'c\n', 'd\n', 'e\n'];
  const entropies = [0.25, 0.25, 2, 0.5, 0.5];
  const at = (adaptiveLimit: number, maxSegments?: number) =>
    texts(
      tokens,
      { segmenter: 'adaptive', adaptiveLimit, ...(maxSegments === undefined ? {} : { maxSegments }) },
      entropies,
    );
  expect(at(0.4)).toEqual(tokens);
  expect(at(1)).toEqual(['a\nb\n', 'c\n', 'd\ne\n']);
  expect(at(2.5)).toEqual(['a\nb\nc\n', 'd\ne\n']);
  expect(at(99)).toEqual(['a\nb\nc\nd\ne\n']);
  expect(at(0.4, 4)).toEqual(['a\nb\n', 'c\n', 'd\n', 'e\n']);
  expect(at(1, 4)).toEqual(at(1));
});

const PARTS = ['a', 'bc ', '\n', '\n\n', ' ', '. ', 'Wait', 'é', '', '7'];
const shape = fc.record({
  parts: fc.array(fc.constantFrom(...PARTS), { minLength: 1, maxLength: 40 }),
  hasTag: fc.boolean(),
  close: fc.boolean(),
  hidden: fc.integer({ min: 0, max: 2 }),
  seed: fc.integer(),
  share: fc.constantFrom(0.05, 0.2, 0.5, 1),
  every: fc.integer({ min: 1, max: 5 }),
});

test('the oracle on random tokens: entropy and cutpoint cut where it does', () => {
  let cuts = 0;
  fc.assert(
    fc.property(shape, ({ parts, hasTag, close, hidden, seed, share, every }) => {
      const tokens = [
        ...(hasTag ? ['<think>', '\n'] : []),
        ...parts,
        ...(close ? ['</think>', 'x'] : []),
        ...Array<string>(hidden).fill(''),
      ];
      const text = spell(tokens);
      const thought = { ...findThought(text), textEnd: text.textEnd };
      const random = seeded(seed);
      const entropies = tokens.map(() => Math.floor(random() * 5) / 2);
      const logprobs = tokens.map(() => Math.fround(Math.log(random() ** 0.3)));
      const at = (options: Options) => [...ends(tokens, options, entropies, logprobs).found.thoughtEnds];
      const by = (found: number[]) => piecesBetween(found, tokens, thought);
      const threshold = at({ segmenter: 'entropy', entropyThreshold: 1.5 });
      cuts += threshold.length;
      expect([
        threshold,
        at({ segmenter: 'entropy', entropyShare: share }),
        at({ segmenter: 'cutpoint', cutpointEvery: every }),
      ]).toEqual([
        by(entropyThresholdCuts(entropies, thought, 1.5)),
        by(entropyShareCuts(entropies, thought, share)),
        by(cutpoints(logprobs, thought, 0.9, every)),
      ]);
    }),
    { numRuns: 500 },
  );
  expect(cuts).toBeGreaterThan(1000);
});

test('the pieces before the policy has read the trace: hold every end that may come, and say how many are likely', () => {
  const tokens = Array.from({ length: 40 }, (_, t) => (t % 7 === 6 ? '. ' : 'x'));
  const random = seeded(5);
  const entropies = tokens.map(random);
  const logprobs = entropies.map((h) => -h);
  for (const options of [
    { segmenter: 'entropy', entropyShare: 0.25 },
    { segmenter: 'entropy', entropyThreshold: 0.5 },
    { segmenter: 'cutpoint', cutpointEvery: 3 },
    { segmenter: 'cutpoint', cutpointEvery: 3, maxSegments: 4 },
  ] as const) {
    const { pieces, found } = ends(tokens, options, entropies, logprobs);
    expect(Array.from(pieces.ends)).toEqual(expect.arrayContaining([...found.thoughtEnds]));
    expect(found.thoughtEnds.length).toBeLessThanOrEqual(pieces.segments);
  }
  expect(ends(tokens, { segmenter: 'entropy', entropyShare: 0.25 }).pieces.segments).toBe(11);
  expect(ends(tokens, { segmenter: 'cutpoint', maxSegments: 4 }).pieces.segments).toBe(4);
});
