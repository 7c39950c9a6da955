/** The oracle's account of a whole trace, by separate passes from scratch; its parts are compared with the program's on random input, and METHOD's examples are proved on those. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, test } from 'vitest';
import { loadOracleModel, type OracleModel, tokenStats } from './llama.js';
import { type Estimator, scoreTrace, type TraceInput } from './rredcot.js';
import type { Span } from './segment.js';

/** Text and spans of tokens given as strings. */
function spell(tokens: readonly string[]): { text: string; spans: Span[] } {
  let end = 0;
  const spans = tokens.map((token): Span => {
    end += token.length;
    return [end - token.length, end];
  });
  return { text: tokens.join(''), spans };
}

const total = (numbers: ArrayLike<number>) => Array.from(numbers).reduce((a, b) => a + b, 0);

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
});
