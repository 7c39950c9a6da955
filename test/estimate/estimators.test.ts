/** Value estimators against METHOD 3: worked examples, what the oracle does not say, and the oracle. */
import { describe, expect, test } from 'vitest';
import { referenceFault } from '../../dist/credit/nature.js';
import { continuationMaker, referenceSetOf } from '../../dist/estimate/references.js';
import { ESTIMATORS } from '../../dist/estimate/registry.js';
import { scoredReferences, stateValue, stateValues } from '../../dist/estimate/value.js';
import type { Reference } from '../../dist/trace.js';
import { contrastValue, geometricValue, logValue, meanValue } from '../oracle/rredcot.js';
import { seeded } from '../oracle/toy.js';
import { named } from '../support/estimators.js';

const total = (numbers: ArrayLike<number>) => Array.from(numbers).reduce((a, b) => a + b, 0);
const logs = (...p: number[]) => Float32Array.from(p, Math.log);

/** those whose values follow from the references alone */
const SCORING = ESTIMATORS.filter(({ fromStored, fromTokens }) => fromStored ?? fromTokens);

describe('state values', () => {
  test('worked example of (3): p = .6·.5 and .2·.4, q = .5, ζ = 1 and 0 → v̂ = 0.3', () => {
    const logprobs = [logs(0.6, 0.5), logs(0.2, 0.4)];
    const utilities = Float32Array.of(1, 0);
    expect(Math.exp(stateValue(logprobs, utilities, named('joint')))).toBeCloseTo(0.3, 6);
    expect(stateValue(logprobs, utilities, named('pr'))).toBeCloseTo(0.3, 6);
    expect(stateValue(logprobs, utilities, named('pr-mean'))).toBeCloseTo(0.55, 6);
    expect(stateValue(logprobs, utilities, named('pr-geo'))).toBeCloseTo(Math.sqrt(0.3), 6);
    // .3 of .3 + .08
    expect(stateValue(logprobs, utilities, named('snis'))).toBeCloseTo(0.3 / 0.38, 6);
    expect(stateValue(logprobs, utilities, named('joint-log'))).toBe(
      stateValue(logprobs, utilities, named('joint')),
    );
  });

  test('joint does not underflow where the probability itself is 0 in float64', () => {
    const long = new Float32Array(2000).fill(-2);
    expect(stateValue([long, long], Float32Array.of(1, 1), named('joint'))).toBeCloseTo(-4000 + Math.LN2, 9);
    expect(stateValue([long, long], Float32Array.of(1, 0), named('snis'))).toBeCloseTo(0.5, 12);
  });

  test('log-probabilities are summed in float64', () => {
    const tiny = new Float32Array(100_001).fill(-1e-6);
    tiny[0] = -16;
    // in float32, 16 + 1e-6 would be 16
    expect(stateValue([tiny], Float32Array.of(1), named('joint'))).toBeCloseTo(-16.1, 6);
    expect(scoredReferences([[tiny, logs(0.5)]]).referenceLogprobs[0]?.[0]).toBeCloseTo(-16.1, 5);
  });

  test('the oracle says the same on 1,500 random reference sets', () => {
    const random = seeded(3);
    for (let n = 0; n < 1500; n++) {
      const N = Math.floor(random() * 6);
      const scale = [0.1, 3, 60][n % 3] as number;
      const logprobs = Array.from({ length: N }, () =>
        Float32Array.from({ length: 1 + Math.floor(random() * 9) }, () => -random() * scale),
      );
      const utilities = Float32Array.from({ length: N }, () => (random() < 0.3 ? 0 : random()));
      const scored = logprobs.map((lp, i) => ({ utility: utilities[i] as number, logprobs: lp }));
      const log = logValue(scored);
      const joint = stateValue(logprobs, utilities, named('joint'));
      // a reference's log p is stored as float32, and values follow from that
      const rounding = 1e-7 * Math.max(1, ...scored.map(({ logprobs: lp }) => Math.abs(total(lp))));
      if (log === Number.NEGATIVE_INFINITY) expect(joint).toBe(log);
      else expect(Math.abs(joint - log)).toBeLessThan(rounding);
      const close = (estimator: string, expected: number) =>
        expect(Math.abs(stateValue(logprobs, utilities, named(estimator)) - expected)).toBeLessThanOrEqual(
          2 * rounding * Math.abs(expected) + 1e-300,
        );
      close('pr', Math.exp(log));
      close('pr-mean', meanValue(scored));
      close('pr-geo', geometricValue(scored));
      close('snis', contrastValue(scored));
    }
  });
});

describe('what a row stores', () => {
  test('values follow from the stored log-probabilities alone, bit for bit, but for pr-mean', () => {
    const branches = [0, 1, 2].map((k) => [logs(0.3 + k / 10, 0.7), logs(0.1, 0.2, 0.9 - k / 4)]);
    const utilities = Float32Array.of(1, 0);
    for (const estimator of SCORING) {
      const values = stateValues(branches, utilities, estimator);
      const { referenceLogprobs, referenceTokens } = scoredReferences(branches);
      expect([...referenceTokens]).toEqual([2, 3]);
      if (estimator.fromStored === undefined) continue;
      const again = referenceLogprobs.map((lp) =>
        Number(estimator.fromStored?.({ logprobs: lp, tokens: referenceTokens, utilities })),
      );
      expect([...Float32Array.from(again)]).toEqual([...values]);
    }
  });

  test('given: as many values as exit points, or a reject that names both numbers', () => {
    const given = (values: readonly number[] | undefined, K: number) =>
      named('given').of?.({ trace: { values }, exits: new Int32Array(K + 1) } as never, {});
    expect(given([0.5, 1], 1)).toEqual([0.5, 1]);
    expect(() => given([0.5, 1], 2)).toThrow(/2 entries.*3 exit points/);
    expect(() => given(undefined, 2)).toThrow('--map values=<path>');
    for (const value of [-0.01, 1.01, 50, Number.POSITIVE_INFINITY])
      expect(() => given([0.5, value], 1)).toThrow(/^values\[1\] is .*, expected 0 to 1/);
  });

  test('snis: a reference set of one side has no contrast', () => {
    expect(referenceFault(Float32Array.of(1, 0), named('snis'))).toBeUndefined();
    expect(referenceFault(Float32Array.of(1, 0.75), named('snis'))).toBe('uniform:one-sided-references');
    expect(referenceFault(Float32Array.of(0), named('snis'))).toBe('uniform:one-sided-references');
    expect(referenceFault(Float32Array.of(1), named('pr'))).toBeUndefined();
    expect(referenceFault(new Float32Array(0), named('pr'))).toBe('uniform:no-references');
    expect(referenceFault(new Float32Array(0), named('given'))).toBeUndefined();
  });
});

describe('the reference set', () => {
  const referenceSet: Reference[] = [
    { answer: '12', solution: 'add', utility: 0.5 },
    { answer: '12', solution: 'add', utility: 1 },
    { answer: '12', solution: 'count', utility: 0.25 },
    { answer: '12', utility: 0.25 },
    { answer: '12', solution: '', utility: 0.25 },
    { answer: '1', solution: 'add', utility: 0 },
    { answer: '12.0', utility: 1 },
  ];

  const answersOnly = ['12 1', '1 0', '12.0 1'];
  const whole = ['12 add 1', '12 count 0.25', '12  0.25', '1 add 0', '12.0  1'];
  test.each([
    ['joint', whole],
    ['pr', answersOnly],
    ['pr-mean', answersOnly],
  ])('%s: what is identical counts once, with the largest utility; no u is the empty u', (name, expected) => {
    const found = referenceSetOf(referenceSet, named(name)).map(({ answer, solution = '', utility }) =>
      [answer, ...(name === 'joint' ? [solution] : []), utility].join(' '),
    );
    expect(found).toEqual(expected);
  });
});

describe('what is scored at an exit', () => {
  /** One token a character, but for the given merges: the longest that fits is taken. */
  const encoderOf =
    (...merges: string[]) =>
    (text: string) => {
      const escaped = merges.map((merge) => merge.replace(/[{}]/g, '\\$&'));
      const pieces = text.match(new RegExp([...escaped, '.'].join('|'), 'gs'));
      return Int32Array.from(pieces ?? [], (piece) =>
        [...piece].reduce((id, c) => id * 1000 + c.charCodeAt(0), 0),
      );
    };
  const plain = encoderOf();
  const template = { close: '\n', open: 'a{', closer: '}' };
  const asked = async (estimator: string, answers: readonly string[], encode = plain, t = template) => {
    const suffixes = await (await continuationMaker(t, named(estimator), encode))(
      answers.map((answer) => ({ answer, solution: '345', utility: 0.5 })),
    );
    for (const [n, { ids }] of suffixes.entries()) {
      const u = estimator === 'joint' ? '345' : '';
      expect(ids).toEqual(encode(`${t.close}${u}${t.open}${answers[n]}${t.closer}`));
    }
    return suffixes.map(({ ids, scoredFrom }) => ids.length - scoredFrom);
  };

  test('where nothing merges: close and open are conditioned on, answer and closer are scored, u is left out', async () => {
    for (const estimator of ['pr', 'pr-mean'] as const) {
      expect(await asked(estimator, ['12'])).toEqual([3]);
      expect(await asked(estimator, ['12', '12.0', '{', '}'])).toEqual([3, 5, 2, 2]);
    }
  });

  test('a token of template and answer is scored, for every answer of the reference set alike', async () => {
    expect(await asked('pr', ['-3', '7'], encoderOf('{-'))).toEqual([3, 3]);
    expect(await asked('pr', ['7', '8'], encoderOf('{-'))).toEqual([2, 2]);
    // two tokens of the template that an answer merges
    expect(await asked('pr', ['-3', '7'], encoderOf('a{-'))).toEqual([3, 4]);
  });

  test('so is one of template and closer, which an empty answer would be, and one of answer and closer', async () => {
    expect(await asked('pr', ['7'], encoderOf('{}'))).toEqual([3]);
    expect(await asked('pr', ['{7}', '7'], encoderOf('}}'))).toEqual([3, 2]);
  });

  test('the bare template ends what answers may share: answers that begin alike are scored whole', async () => {
    expect(await asked('pr', ['}', '}}'], plain)).toEqual([2, 3]);
    expect(await asked('pr', ['12', '13', '1'], plain)).toEqual([3, 3, 2]);
  });

  test('joint: close {u} open {y} closer, all of it scored', async () => {
    expect(await asked('joint', ['12', '-3'], encoderOf('{-'))).toEqual([9, 8]);
  });

  test('nothing to score is an error, not a probability of one', async () => {
    const bare = { ...template, closer: '' };
    await expect(asked('pr', [''], plain, bare)).rejects.toThrow('no token to score');
    await expect(asked('pr', ['-3', ''], encoderOf('{-'), bare)).rejects.toThrow('no token to score');
    expect(await asked('pr', [''])).toEqual([1]);
    // a tokenizer that drops what it does not know
    const dropping = (text: string) => plain(text.replaceAll(' ', ''));
    await expect(asked('pr', ['12', ' '], dropping, bare)).rejects.toThrow('no token to score');
  });
});
