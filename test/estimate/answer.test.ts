// Comparing answers (docs/answers.md): pairs with the verdict that a careful reader would give, traps among them.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { closingBrace, lastBoxed, markedAnswer } from '../../dist/boxed.js';
import { compareAnswers, type Verdict } from '../../dist/estimate/answer.js';
import { ownAnswer, plainReferences } from '../../dist/estimate/answer-text.js';
import { compareAnswer, withDispute } from '../../dist/estimate/reward.js';
import type { Trace } from '../../dist/trace.js';
import { readJsonl, SHARED_DATA } from '../support/program.js';

/** Pairs of texts as they are written, `~` between them. */
const pairsOf = (table: string) =>
  table
    .split(/\n *| ‖ /)
    .filter((pair) => pair.includes(' ~ '))
    .map((pair) => pair.split(' ~ ') as [own: string, reference: string]);

const PAIRS: Readonly<Record<Verdict, readonly (readonly [own: string, reference: string])[]>> = {
  equal: [
    [' 7. ', '7'],
    ['`7`', '7'],
    ...pairsOf(String.raw`
      # numbers
      7 ~ 7 ‖ +07 ~ 7 ‖ -0 ~ 0 ‖ 0.0 ~ -0 ‖ .5 ~ 0.50 ‖ 5. ~ 5 ‖ 1,234 ~ 1234 ‖ 1,234.50 ~ 1234.5
      12{,}345 ~ 12345 ‖ 10,\!000 ~ 10000 ‖ 10\,000 ~ 10,000 ‖ 1e3 ~ 1000 ‖ 1.5 \times 10^3 ~ 1500
      2 \times 10^{-2} ~ 0.02 ‖ −3 ~ -3 ‖ (7) ~ 7 ‖ -(7) ~ -7 ‖ 9007199254740993 ~ 9007199254740993.0
      # fractions
      0.5 ~ 1/2 ‖ \frac{1}{2} ~ 0.5 ‖ \frac12 ~ 1/2 ‖ \dfrac{14}{3} ~ \frac{14}{3}
      \tfrac 1{2} ~ \frac{2}{4} ‖ -\frac{1}{2} ~ \frac{-1}{2} ‖ \frac{1}{-2} ~ -0.5 ‖ 6/3 ~ 2
      \frac{0.5}{2} ~ 1/4
      # wrappers
      $7$ ~ 7 ‖ $$7$$ ~ 7 ‖ \(7\) ~ 7 ‖ \[ 7 \] ~ 7 ‖ \$5 ~ 5 ‖ **7** ~ 7 ‖ \boxed{7} ~ 7
      \boxed{\frac{1}{2}} ~ 1/2 ‖ \text{Evelyn} ~ Evelyn ‖ \textbf{(B)} ~ B
      \left( 3, \frac{\pi}{2} \right) ~ (3,\frac{\pi}{2}) ‖ \left(3,\dfrac\pi2\right) ~ (3, \frac\pi2)
      x + 1 ~ x+1 ‖ x^{2} ~ x^2 ‖ \sqrt2 ~ \sqrt{2} ‖ 2π ~ 2\pi
      \displaystyle\frac{\pi}{4} ~ \frac{\pi}{4} ‖ x = 3 ~ 3 ‖ 3 ~ x=3 ‖ k=\frac12 ~ 0.5
      y = 2x + 1 ~ 2x+1 ‖ f(x) = x^2 ~ x^{2}
      # units
      50% ~ 50\% ‖ 50% ~ 0.5 ‖ 12.5\% ~ 1/8 ‖ 90^\circ ~ 90 ‖ 90^{\circ} ~ 90° ‖ 90 degrees ~ 90^\circ
      $5 ~ 5 dollars ‖ 3 cm ~ 3\text{ cm} ‖ 3\,\mathrm{cm}^2 ~ 3 cm^2 ‖ 3 apples ~ 3 apple
      5 days ~ 5 day ‖ \frac{6}{2} cm ~ 3 cm
      # letters and words
      (B) ~ B ‖ B. ~ B ‖ (b) ~ B ‖ (B) 42 ~ B ‖ C. the third ~ C ‖ yes ~ Yes ‖ No ~ no ‖ p - q ~ p-q
      \text{east} ~ East ‖ Simple  Interest ~ simple interest
      # lists
      (1,2) ~ (1, 2) ‖ \{1,2\} ~ \{1, 2\} ‖ 1,2 ~ 1, 2 ‖ [0,1) ~ [0, 1) ‖ (-\infty, 2] ~ \left(-∞,2\right]
    `),
  ],
  different: pairsOf(`
      8 ~ 7 ‖ -7 ~ 7 ‖ 9007199254740993 ~ 9007199254740992 ‖ 7.3 ~ 7 ‖ 1/2 ~ 1/3 ‖ 34% ~ 1/3 ‖ 33 ~ 1/3
      0.4 ~ 1/4 ‖ 0.26 ~ 1/4 ‖ 5 days ~ 6 day ‖ 0.4 ~ 1/2 ‖ 0.6 ~ 0.54 ‖ 1,234 ~ 1235 ‖ 50% ~ 60%
      50% ~ 0.6 ‖ 3 cm ~ 4 cm ‖ 90° ~ 45 ‖ (A) ~ B ‖ a ~ b ‖ (C) 42 ~ B ‖ yes ~ no ‖ True ~ false
    `),
  unknown: [
    ['', '7'],
    ['', ''],
    ['7', ''],
    ...pairsOf(String.raw`
      3 4 ~ 34 ‖ 1,2 ~ 12 ‖ 1,5 ~ 1.5 ‖ 1.000 ~ 1000
      # rounded, or roughly said
      0.33 ~ 1/3 ‖ 0.67 ~ 2/3 ‖ 3.14 ~ 3.1416 ‖ 33.3% ~ 1/3 ‖ 33% ~ 1/3 ‖ 0.3 ~ 1/4 ‖ 0.2 ~ 1/4
      # three letters are as likely a word as a plural
      5 bus ~ 5 bu ‖ 3.14 ~ \pi ‖ 3.14 ~ π ‖ 6.02e23 ~ 6.022e23
      # units on one side, or two of them
      3 ~ 3 cm ‖ 3 cm ~ 4 ‖ 300 cm ~ 3 m ‖ 12 am ~ 12 pm ‖ 50% ~ 50 ‖ 3x ~ 3 ‖ 3x ~ 3y
      # what would have to be calculated
      \sqrt{4} ~ 2 ‖ 2\sqrt{3} ~ \sqrt{12} ‖ 2^{10} ~ 1024 ‖ \frac{1}{\sqrt 2} ~ \frac{\sqrt 2}{2}
      \frac{\pi}{2} ~ 90^\circ ‖ x+1 ~ 1+x ‖ 1+1 ~ 2 ‖ 1/0 ~ 0 ‖ 1\frac12 ~ 3/2 ‖ x=3 ~ y=3 ‖ x=3 ~ 4
      x=3 ~ x=1+2 ‖ 3 or 4 ~ 3
      # letters and words
      R ~ r ‖ AB ~ ab ‖ P - Q ~ p - q ‖ (A)(B) ~ (A)(C) ‖ A. one ~ A. two ‖ east ~ west
      \text{no solution} ~ 0 ‖ seven ~ 7
      # lists
      (1,2) ~ [1,2] ‖ (1,2) ~ (1,3) ‖ \{1,2\} ~ \{2,1\} ‖ 1 and 2 ~ 1, 2 ‖ 1,2 ~ 2,1 ‖ (1,000) ~ 1000
      (1,2)\cup(3,4) ~ (1,2)\cup(3,5) ‖ (1,2 ~ (1,2) ‖ 2 pi ~ 2\pi
    `),
  ],
};

describe('compareAnswers', () => {
  const pairs = Object.entries(PAIRS).flatMap(([verdict, all]) =>
    all.map((pair) => [...pair, verdict] as const),
  );

  it.each(pairs)('%j and %j: %s', (own, reference, verdict) => {
    expect(compareAnswers(own, reference)).toBe(verdict);
    expect(compareAnswers(reference, own)).toBe(verdict);
  });

  const anyAnswer = fc.oneof(
    fc.string({
      unit: fc.constantFrom(...'0123456789.,/%-+()[]{}\\ xe^$πAB'.split(''), '\\frac', '\\text{'),
    }),
    fc.string({ unit: 'binary' }),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map(String),
  );

  it('gives both orders the same verdict, and an answer to itself never another one', () => {
    fc.assert(
      fc.property(anyAnswer, anyAnswer, (a, b) => {
        expect(compareAnswers(a, b)).toBe(compareAnswers(b, a));
        expect(compareAnswers(a, a)).not.toBe('different');
      }),
      { numRuns: 2000 },
    );
  });

  it('agrees with exact arithmetic on fractions and decimals', () => {
    const integer = fc.integer({ min: -30, max: 30 });
    const positive = fc.integer({ min: 1, max: 12 });
    fc.assert(
      fc.property(integer, positive, integer, positive, (a, b, c, d) => {
        const verdict = a * d === c * b ? 'equal' : 'different';
        expect(compareAnswers(`\\frac{${a}}{${b}}`, `${c}/${d}`)).toBe(verdict);
        expect(compareAnswers((a / 8).toString(), `${a}/8`)).toBe('equal');
      }),
    );
  });

  it('takes long texts as they stand, quickly', () => {
    const long = '('.repeat(100_000);
    expect(compareAnswers(long, `${long} `)).toBe('equal');
    expect(compareAnswers(long, `${long}1`)).toBe('unknown');
    expect(compareAnswers('9'.repeat(999), '8'.repeat(999))).toBe('different');
    expect(compareAnswers('1e900', `1${'0'.repeat(900)}`)).toBe('equal');
    expect(compareAnswers('1e9999', '1e9998')).toBe('unknown');
  });
});

describe('the box of a solution', () => {
  it.each<[string, string | null | undefined]>([
    ['so \\boxed{7}.', '7'],
    ['\\boxed{\\frac{1}{2}}', '\\frac{1}{2}'],
    ['\\boxed{1} no, \\boxed{2}', '2'],
    ['\\fbox{3}', '3'],
    ['\\boxed{\\text{Evelyn}}', '\\text{Evelyn}'],
    ['\\boxed{\\{1,2\\}}', '\\{1,2\\}'],
    ['\\boxed{\\{}', '\\{'],
    ['$\\boxed 42$', '42'],
    ['\\boxed{ 5 }', '5'],
    ['\\boxed{\\boxed{6}}', '6'],
    ['\\boxed{\\frac{1}{2}', null],
    ['\\boxed', null],
    ['\\boxedup{3}', undefined],
    ['the box is empty', undefined],
  ])('%j holds %j', (text, found) => expect(lastBoxed(text)).toBe(found));

  it('is read whatever is in it', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom('{', '}', '\\{', '\\}', 'x', '\\\\', ' ') }),
        (content) => {
          const end = closingBrace(`${content}}`, 0);
          // the first brace too many ends the box; a box of balanced content is read whole
          if (end === content.length) expect(lastBoxed(`a \\boxed{${content}} b`)).toBe(content.trim());
        },
      ),
      { numRuns: 500 },
    );
  });

  it.each([
    ['Natalia sold 48+24 = <<48+24=72>>72.\n#### 72', '72'],
    ['#### 1,000\nafter', '1,000'],
    ['x \\boxed{3} #### 4', '3'],
    ['nothing', undefined],
    ['\\boxed{', undefined],
    ['#### ', undefined],
  ])('the answer that %j marks is %j', (text, found) => expect(markedAnswer(text)).toBe(found));
});

describe("the trace's own answer", () => {
  const template = { close: '\n</think>\n\n', open: '**Final Answer**\n\\boxed{', closer: '}' };
  it.each<[string, string | null | undefined]>([
    ['hm\n</think>\n\n**Final Answer**\n\\boxed{\\frac{1}{2}}', '\\frac{1}{2}'],
    ['\\boxed{1} was wrong\n</think>\nso \\boxed{2}', '2'],
    ['</think>\nThe answer is 5\n', '5'],
    ['Step 2: The answer is: 5', '5'],
    ['**Answer:** 5\n', '5'],
    ['Answer:**5**', '**5**'],
    ['</think>\nThe answer is \\boxed{6}\n', '6'],
    ['\\boxed{5}\nThe answer is 6', '5'],
    ['\\boxed{8}\n\nVitamin A: 300', '8'],
    ['\\fbox{8}\n#### 300', '8'],
    ['So #### 8\nA: 300', '8'],
    ['Vitamin A: 300', undefined],
    ['1+1\nA: 2', '2'],
    ['**A:** 2', '2'],
    ['x\nFinal Answer: The final answer is $8$. I hope it is correct.', '8'],
    ['\\boxed{7}?\nThe final answer is $\\frac{1}{2}$. I hope it is correct.\n', '\\frac{1}{2}'],
    ['The final answer is 8.', '8.'],
    ['</think>\nanswer: 8<|im_end|>', 'answer: 8'],
    ['The answer is 8</s>', '8'],
    ['</think> 8<｜end▁of▁sentence｜>', '8'],
    ['#### 8<|eot_id|>\n<|endoftext|>', '8'],
    ['<answer> 8 </answer>', '8'],
    ['</think>\n 7 \n', '7'],
    ['</think>\n so \\boxed{7', null],
    ['still thinking of it', undefined],
    ['x\n#### 12\n', '12'],
    // PRM800K's solutions
    ['So 7.\n\n# Answer\n\n7', '7'],
    ['## Answer \r\n$\\frac{1}{2}$\nas was to be shown', '$\\frac{1}{2}$'],
    ['#### Answer\nit is \\boxed{3}', '3'],
    ['# Answer to life\n42', undefined],
    ['so far\n\n# Answer\n\n', ''],
  ])('of %j is %j', (text, found) => expect(ownAnswer(text, template)).toBe(found));

  it('cut inside its box earns nothing and loses nothing', () => {
    const found = compareAnswer('</think>\n\\boxed{7', [{ answer: '7', utility: 1 }], template);
    expect(found).toEqual({ reward: null, status: ['reward:unknown'] });
    // it is no answer, so that it equals none, however that is written
    const same = compareAnswer('\\boxed{7', [{ answer: '\\boxed{7', utility: 1 }], template);
    expect(same).toEqual({ reward: null, status: ['reward:unknown'] });
  });

  it('that equals a reference earns its utility as files hold it, in float32', () => {
    const found = compareAnswer('</think>\n\\boxed{7}', [{ answer: '7', utility: 0.3 }], template);
    expect(found).toEqual({ reward: Math.fround(0.3), status: ['reward:compared'] });
  });

  it.each([
    [' 4', 1, 'reward:compared'],
    ['4.0\n', 1, 'reward:compared'],
    ['5', null, 'reward:unknown'],
    ['So the answer must be 4, I think', null, 'reward:unknown'],
    ['<think>still 4, or', 0, 'truncated'],
  ])('that no mark names may be the whole text: %j', (text, reward, status) => {
    expect(compareAnswer(text, [{ answer: '4', utility: 1 }], template)).toEqual({
      reward,
      status: [status],
    });
  });

  it.each([
    ['4', 0, true],
    ['4.0', 0, true],
    ['5', 1, true],
    ['4', 1, false],
    ['5', 0, false],
    // nothing that a verdict could be held against
    ['4', 0.5, false],
    ['four', 1, false],
    ['', 1, false],
  ])('of %j and a reward of %j the row is denied: %j', (text, reward, isDenied) => {
    const trace = { reward, references: [{ answer: '4', utility: 1 }] } as unknown as Trace;
    const { status } = withDispute(
      { reward, status: [] },
      trace,
      () => `</think>\n\\boxed{${text}}`,
      template,
    );
    expect(status).toEqual(isDenied ? ['reward:disputed'] : []);
  });

  it('of a thought that the prompt opened is cut like one that the completion opened', () => {
    const of = (prompt: string) =>
      compareAnswer('still 4, or', [{ answer: '4', utility: 1 }], { ...template, opening: prompt });
    expect(of('2+2?\n<think>\n')).toEqual({ reward: 0, status: ['truncated'] });
    expect(of('What does <think> mean?')).toEqual({ reward: null, status: ['reward:unknown'] });
  });

  it('is compared with every reference: the best equal one counts, and all must differ for a 0', () => {
    const against = (own: string, ...answers: string[]) =>
      compareAnswer(
        `</think>\n\\boxed{${own}}`,
        answers.map((answer, n) => ({ answer, utility: 1 - n / 2 })),
        template,
      ).reward;
    expect(against('0.5', '1/2', '.5')).toBe(1);
    expect(against('3', '7', '3.0')).toBe(0.5);
    expect(against('3', '7', '8')).toBe(0);
    expect(against('3', '7', '\\pi')).toBe(null);
    expect(against('3')).toBe(null);
  });
});

describe('what is scored of a reference', () => {
  it.each<[string, ...string[]]>([
    ...['8', ' 8', '8\n', '8.', '$8$', '$8$.', '$$8$$', '\\(8\\)', '\\[ 8 \\]', '**8**', '`8`', '"8"'].map(
      (text): [string, string] => [text, '8'],
    ),
    ...[
      '["8"]',
      "['8']",
      "array(['8'], dtype=object)",
      '["$8$."]',
      '\\boxed{8}',
      '$\\boxed{8}$',
      '#### 8',
    ].map((text): [string, string] => [text, '8']),
    ...[
      'The answer is 8',
      'So 4+4.\nThe answer is: $8$.',
      '**Answer:** 8',
      '<answer>8</answer>',
      '8<|im_end|>',
      "'8'",
    ].map((text): [string, string] => [text, '8']),
    ['["8", "9"]', '8', '9'],
    ['["\\\\frac{1}{2}", "a\\"b"]', '\\frac{1}{2}', 'a"b'],
    ["['\\frac{1}{2}']", '\\frac{1}{2}'],
    // what says something else, or nothing without it, stays
    ...['[8]', '[1, 2]', '(8)', '8.0', '.5', '1,000', '0.33...', 'U.S.', 'A: 8', '$5', '$a$ and $b$'].map(
      (text): [string, string] => [text, text],
    ),
    ...['"cat"', '\\text{cat}', '{8}', '$', '. ', '-8', '50\\%', 'let a be 1;\nreturn a', '\\boxed{8'].map(
      (text): [string, string] => [text, text.trim()],
    ),
  ])('%j is %j', (answer, ...plain) => {
    const found = plainReferences([{ answer, solution: 'u', utility: 0.5 }]);
    expect(found).toEqual(plain.map((text) => ({ answer: text, solution: 'u', utility: 0.5 })));
    expect(plainReferences(found)).toEqual(found);
  });
});

describe.skipIf(!existsSync(SHARED_DATA))('real answers (skipped where ../shared/data is absent)', () => {
  const template = { close: '\n\n', open: '**Final Answer**\n\\boxed{', closer: '}' };

  it('of GSM8K are judged as their labels say, all but a few', async () => {
    const rows = await readJsonl<Record<string, { is_correct: boolean; solution: string } & string>>(
      join(SHARED_DATA, 'gsm8k_model_solutions.jsonl'),
    );
    let unknown = 0;
    for (const row of rows)
      for (const model of ['6b_finetuning', '6b_verification', '175b_finetuning', '175b_verification']) {
        const { is_correct, solution } = row[model] as { is_correct: boolean; solution: string };
        const answer = /A: (.*)$/.exec((row.ground_truth as string).trim())?.[1] as string;
        const { reward } = compareAnswer(solution, [{ answer, utility: 1 }], template);
        if (reward === null) unknown++;
        else expect(reward, `${answer}: ${solution.slice(-40)}`).toBe(is_correct ? 1 : 0);
      }
    expect(unknown).toBeLessThan(10);
  });

  it('of MATH-500 are what their solutions box', async () => {
    const rows = await readJsonl<{ solution: string; answer: string }>(
      join(SHARED_DATA, 'math500_reference.jsonl'),
    );
    expect(rows.length).toBe(500);
    for (const { solution, answer } of rows)
      expect(compareAnswers(markedAnswer(solution) ?? '', answer), answer).toBe('equal');
  });
});
