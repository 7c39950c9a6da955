/** METHOD's worked examples, boundaries and invariants on the oracle. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, test } from 'vitest';
import { loadOracleModel, type OracleModel, tokenStats } from './llama.js';
import {
  differences,
  distinctReferences,
  type Estimator,
  logValue,
  meanValue,
  scoreTrace,
  type TraceInput,
} from './rredcot.js';
import { findThought, hybridSegments, mergePieces, type Span, splitPieces } from './segment.js';
import { computeSigma, type SigmaRule } from './sigma.js';

/** Text and spans of tokens given as strings. */
function spell(tokens: readonly string[]): { text: string; spans: Span[] } {
  let end = 0;
  const spans = tokens.map((token): Span => {
    end += token.length;
    return [end - token.length, end];
  });
  return { text: tokens.join(''), spans };
}

function thoughtOf(...tokens: string[]) {
  const { text, spans } = spell(tokens);
  return findThought(text, spans);
}

function piecesOf(tokens: readonly string[]): string[] {
  const { text, spans } = spell(tokens);
  const ends = splitPieces(text, spans, 0, tokens.length);
  return ends.map((end, j) => tokens.slice(ends[j - 1] ?? 0, end).join(''));
}

const total = (numbers: ArrayLike<number>) => Array.from(numbers).reduce((a, b) => a + b, 0);

describe('estimators', () => {
  test('worked example of (3): p = .6·.5 and .2·.4, ζ = 1 and 0 give 0.3', () => {
    const scored = [
      { utility: 1, logprobs: [Math.log(0.6), Math.log(0.5)] },
      { utility: 0, logprobs: [Math.log(0.2), Math.log(0.4)] },
    ];
    const weights = scored.map(({ logprobs }) => Math.exp(total(logprobs)) / 0.5);
    expect(weights[0]).toBeCloseTo(0.6, 12);
    expect(weights[1]).toBeCloseTo(0.16, 12);
    expect(Math.exp(logValue(scored))).toBeCloseTo(0.3, 12);
    expect(meanValue(scored)).toBeCloseTo(0.55, 12);
  });

  test('an empty bank is worth nothing', () => {
    expect(Math.exp(logValue([]))).toBe(0);
    expect(meanValue([])).toBe(0);
  });

  test('the bank is a set of (y, u), of y alone where the estimator has no u', () => {
    const references = [
      { answerIds: [1, 2], solutionIds: [7], utility: 0.5 },
      { answerIds: [1, 2], solutionIds: [7] },
      { answerIds: [1, 2], solutionIds: [8] },
      { answerIds: [1], solutionIds: [7] },
    ];
    expect(distinctReferences(references, 'joint')).toHaveLength(3);
    expect(distinctReferences(references, 'pr')).toHaveLength(2);
    expect(distinctReferences(references, 'pr')[0]?.utility).toBe(1);
  });

  test('joint: Σ|Δ| is scaled to |R*|, and tiny values do not vanish', () => {
    const deltas = differences([-2000, -1999, -2001], 'joint', -0.5);
    expect(total(deltas.map(Math.abs))).toBeCloseTo(0.5, 12);
    // 1/e → 1 → 1/e²
    expect((deltas[0] as number) / (deltas[1] as number)).toBeCloseTo(
      -(1 - 1 / Math.E) / (1 - Math.E ** -2),
      12,
    );
    expect(differences([-5, -5], 'joint', 0.5)).toEqual([0]);
    expect(differences([-Infinity, -Infinity], 'joint', 0.5)).toEqual([0]);
  });
});

describe('segmentation', () => {
  test('worked example: H = .2 .3 1.8 2.0 .4 .5 1.5 .1, K = 3 → {1–3}, {4}, {5–8}', () => {
    const entropies = [0.2, 0.3, 1.8, 2.0, 0.4, 0.5, 1.5, 0.1];
    const merged = mergePieces([1, 2, 3, 4, 5, 6, 7, 8], entropies, 3);
    expect(merged.map(({ end }) => end)).toEqual([3, 4, 8]);
    expect(total(merged.map(({ entropy }) => entropy))).toBeCloseTo(6.8, 12);
  });

  test('the leftmost of equal pairs merges', () => {
    expect(mergePieces([1, 2, 3, 4], [1, 1, 1, 1], 3).map(({ end }) => end)).toEqual([2, 3, 4]);
  });

  test('a newline closes a piece, a transition word at the start of a sentence or line opens one', () => {
    expect(piecesOf(['x', '\n', 'y', '.\n\n', 'z'])).toEqual(['x\n', 'y.\n\n', 'z']);
    expect(piecesOf(['So', ' it', ' is', '.', ' Wait', ',', ' no', '?', '  ', 'Let', ' me', ' see'])).toEqual(
      ['So it is.', ' Wait, no?  ', 'Let me see'],
    );
    // inside a sentence, in lower case, as a part of a word: no boundary
    expect(piecesOf(['a', ' But', ' b', '.', ' but', ' c', '.', ' Some', '.', ' Thenceforth'])).toHaveLength(
      1,
    );
    expect(piecesOf(['1', '.', 'So'])).toHaveLength(1);
    expect(piecesOf(['ok', '!', " Let's", ' go'])).toEqual(['ok!', " Let's go"]);
  });

  test('only a piece of over 256 tokens is cut at sentence ends, white space on the left', () => {
    const sentence = ['a', ' b', '.', ' ', 'c', '?', ' d']; // cuts before c and before " d"
    const filler = (n: number) => Array<string>(n).fill(' x');
    expect(piecesOf([...sentence, ...filler(249)])).toHaveLength(1);
    const pieces = piecesOf([...sentence, ...filler(250)]);
    expect(pieces.slice(0, 2)).toEqual(['a b. ', 'c?']);
    expect(pieces).toHaveLength(3);
    expect(piecesOf([...sentence, '\n', ...filler(250)])).toHaveLength(2);
  });

  test('a leading <think> and one newline token belong to s_0', () => {
    expect(thoughtOf('<think>', '\n', 'a', '</think>', 'b')).toEqual({ exit0: 2, thoughtEnd: 3 });
    expect(thoughtOf('\n', '<', 'think', '>', 'a')).toEqual({ exit0: 4, thoughtEnd: 5 });
    expect(thoughtOf('<think>', '\n\n', '\n', 'a')).toEqual({ exit0: 2, thoughtEnd: 4 });
    expect(thoughtOf('<think>', '\na', 'b')).toEqual({ exit0: 1, thoughtEnd: 3 });
    expect(thoughtOf('a', '<think>', 'b')).toEqual({ exit0: 0, thoughtEnd: 3 });
    expect(thoughtOf('<think>', '</think>', 'b')).toEqual({ exit0: 1, thoughtEnd: 1 });
  });

  test('the thought ends before </think>, else at the line of the last answer pattern', () => {
    expect(thoughtOf('a', '</', 'think>', 'b', '</think>')).toEqual({ exit0: 0, thoughtEnd: 1 });
    expect(thoughtOf('A: 1', '\n', 'so ', '\\boxed{', '2}', '</think>', 'A: 3')).toEqual({
      exit0: 0,
      thoughtEnd: 5,
    });
    expect(thoughtOf('A: 1', '\n', 'so ', '\\boxed{', '2}')).toEqual({ exit0: 0, thoughtEnd: 2 });
    expect(thoughtOf('x', '\n', '#', '###', ' 4')).toEqual({ exit0: 0, thoughtEnd: 2 });
    expect(thoughtOf('x', '\n', 'The answer is', ' 4')).toEqual({ exit0: 0, thoughtEnd: 2 });
    expect(thoughtOf('x', '\n', 'DNA: 4', ' the answer is')).toEqual({ exit0: 0, thoughtEnd: 4 });
    expect(thoughtOf('<think>', 'A: 4')).toEqual({ exit0: 1, thoughtEnd: 1 });
  });

  test("the tag's entropy counts in the first piece", () => {
    const { text, spans } = spell(['<think>', '\n', 'a', '\n', 'b', '\n', 'c']);
    const found = hybridSegments(text, spans, [5, 5, 1, 1, 1, 1, 1], 2);
    expect(found.pieceEnds).toEqual([4, 6, 7]);
    expect(found.segmentEnds).toEqual([4, 7]);
    const bare = spell(['<think>', '</think>', 'x']);
    expect(hybridSegments(bare.text, bare.spans, [1, 1, 1], 40).segmentEnds).toEqual([1]);
  });
});

describe('sigma', () => {
  const values = [0.5, 0.5, 0.8, 0.1];
  const table = {
    values,
    deltas: differences(values, 'pr', -0.5),
    segmentEnds: [10, 20, 30, 40],
    entropies: Array.from({ length: 40 }, (_, t) => (t % 7) / 3),
    reward: 0,
    baseline: 0.5,
  };
  const shares = (rule: SigmaRule, residual: 'uniform' | 'answer' = 'uniform') =>
    computeSigma(rule, table, { residual }).segmentShares.map((share) => Math.round(share * 1e9) / 1e9 + 0);

  test('wrong-trace table', () => {
    expect(shares('rudder')).toEqual([0.05, -0.55, 1.45, 0.05]);
    expect(shares('share')).toEqual([0.025, 0.025, 0.925, 0.025]);
    expect(shares('signed')).toEqual([0, -0.6, 1.4, 0.2]);
    expect(shares('rudder', 'answer')).toEqual([0, -0.6, 1.4, 0.2]);
  });

  const rules: SigmaRule[] = [
    'rudder',
    'share',
    'uniform',
    'signed',
    'abs',
    'softmax',
    'entropy',
    'top-entropy',
  ];
  test.each(rules)('%s: Σσ = 1 and each segment keeps its share', (rule) => {
    for (const within of ['uniform', 'entropy'] as const) {
      for (const reward of [0, 1, 0.52, 0.5, null]) {
        const { sigma, segmentShares } = computeSigma(rule, { ...table, reward }, { within });
        expect(total(sigma)).toBeCloseTo(1, 9);
        expect(total(segmentShares)).toBeCloseTo(1, 9);
        for (const [k, share] of segmentShares.entries()) {
          expect(total(sigma.slice(10 * k, 10 * k + 10))).toBeCloseTo(share, 9);
        }
      }
    }
  });

  test.each(['rudder', 'share', 'abs'] as const)(
    '%s: uniform where Δ = 0 or K = 1 without an answer',
    (rule) => {
      const flat = computeSigma(rule, { ...table, deltas: [0, 0, 0] });
      for (const s of flat.sigma) expect(s).toBeCloseTo(1 / 40, 12);
      const single = computeSigma(rule, { ...table, deltas: [0.3], segmentEnds: [40] });
      for (const s of single.sigma) expect(s).toBeCloseTo(1 / 40, 12);
    },
  );

  test('a small advantage and an unknown reward fall back to uniform, and say so', () => {
    const small = computeSigma('rudder', { ...table, reward: 0.54 });
    expect(small.uniformBecause).toBe('small-advantage');
    expect([...small.sigma]).toEqual(Array(40).fill(1 / 40));
    expect(computeSigma('share', { ...table, reward: 0.54 }).uniformBecause).toBeUndefined();
    expect(computeSigma('share', { ...table, reward: null }).uniformBecause).toBe('reward:unknown');
  });

  test('within entropy: proportional to H_t, uniform in a segment without entropy', () => {
    const entropies = [...Array(10).fill(0), ...table.entropies.slice(10)];
    const { sigma } = computeSigma('rudder', { ...table, entropies }, { within: 'entropy' });
    for (const s of sigma.slice(0, 10)) expect(s).toBeCloseTo(0.005, 12);
    const sum = total(entropies.slice(10, 20));
    for (let t = 10; t < 20; t++) expect(sigma[t]).toBeCloseTo((-0.55 * (entropies[t] as number)) / sum, 12);
  });
});

const folder = fileURLToPath(new URL('../../../shared/models-src/stories260K', import.meta.url));

describe.skipIf(!existsSync(folder))('a trace under stories260K', () => {
  let model: OracleModel;
  beforeAll(() => {
    model = loadOracleModel(folder);
  });
  const tokens = ['<think>', '\n', 'a', ' b', '\n', 'c', '\n', 'd', '</think>', '4', '\n'];
  const ids = [88, 13, 403, 407, 13, 261, 13, 378, 99, 52, 13]; // the model does not know the tag: any id will do
  const input: TraceInput = {
    promptIds: [1, 403, 407],
    completionIds: ids,
    ...spell(tokens),
    references: [
      { answerIds: [432, 383], solutionIds: [286] },
      { answerIds: [261], utility: 0.5 },
    ],
    template: { close: [13, 99], open: [267], closer: [13] },
    reward: 1,
    baseline: 0.25,
  };

  /** log p of ids[from..] from scratch, without the cache. */
  const scratch = (all: number[], from: number) => tokenStats(model, all).logprobs.slice(from);

  test.each(['pr', 'pr-mean', 'pr-geo', 'joint', 'joint-log', 'snis'] as Estimator[])(
    '%s by separate passes from scratch',
    (estimator) => {
      const score = scoreTrace(model, { ...input, estimator });
      expect(score.exits).toEqual([2, 5, 7, 8]);
      expect(score.segmentEnds).toEqual([5, 7, 8, 11]);
      const isWhole = estimator.startsWith('joint');
      for (const [k, exit] of score.exits.entries()) {
        const s = [...input.promptIds, ...ids.slice(0, exit)];
        const pass = (u: number[], y: number[]) => {
          const asked = isWhole ? [...s, 13, 99, ...u, 267] : [...s, 13, 99, 267];
          const from = isWhole ? s.length : asked.length;
          return [...scratch([...asked, ...y, 13], from)];
        };
        const first = pass([286], [432, 383]);
        const second = pass([], [261]);
        const p = [Math.exp(total(first)), 0.5 * Math.exp(total(second))];
        const means = [total(first.map(Math.exp)) / 3, (0.5 * total(second.map(Math.exp))) / 2];
        const whole = Math.log(total(p));
        const expected = {
          ...{ pr: total(p), joint: whole, 'joint-log': whole, 'pr-mean': Math.max(...means) },
          'pr-geo': Math.max(Math.exp(total(first) / 3), 0.5 * Math.exp(total(second) / 2)),
          snis: total(p) / (total(p) + (p[1] as number)),
        }[estimator];
        expect((score.values[k] as number) / expected).toBeCloseTo(1, 12);
      }
      expect(total(score.sigma)).toBeCloseTo(1, 12);
    },
  );

  test('the rest of the score', () => {
    const score = scoreTrace(model, { ...input, maxSegments: 2, baseline: 'value' });
    expect(score.segmentEnds).toHaveLength(3);
    expect(score.baseline).toBe(score.values[0]);
    expect(total(score.segmentEntropies)).toBeCloseTo(total(score.entropies), 9);
    expect(score.logprobs).toEqual(scratch([...input.promptIds, ...ids], 3));
    expect(total(score.deltas)).toBeCloseTo((score.values[2] as number) - (score.values[0] as number), 12);
    const given = scoreTrace(model, { ...input, thoughtEnds: [4, 8] });
    expect(given.exits).toEqual([2, 4, 8]);
    const reversed = scoreTrace(model, { ...input, references: [...input.references].reverse() });
    expect(total(reversed.values)).toBeCloseTo(total(scoreTrace(model, input).values), 12);
    expect(() => scoreTrace(model, { ...input, estimator: 'joint', baseline: 'value' })).toThrow(
      'joint needs',
    );
  });
});
