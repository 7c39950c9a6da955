/** The oracle's forward pass against published numbers, and its cache against itself. */
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, test } from 'vitest';
import {
  continuationLogprobs,
  entropyNats,
  extend,
  fork,
  loadOracleModel,
  logSumExp,
  type OracleModel,
  start,
  type TokenStats,
  tokenStats,
} from './llama.js';

const folder = fileURLToPath(new URL('../../../shared/models-src/stories260K', import.meta.url));

interface Published {
  ids: number[];
  logits_last_top5: [number, number][];
  token_logprobs: number[]; // of ids[1..]
  token_entropies_nats: number[]; // after ids[0..]
}

describe.skipIf(!existsSync(folder))('stories260K', () => {
  let model: OracleModel;
  let published: Published;
  let ids: number[];
  let stats: TokenStats;
  const rows: Float64Array[] = []; // (T) of (V)
  beforeAll(() => {
    model = loadOracleModel(folder);
    published = JSON.parse(readFileSync(`${folder}/reference.json`, 'utf8')) as Published;
    ids = published.ids;
    stats = tokenStats(model, ids);
    extend(model, start(model), ids, (logits) => rows.push(logits));
  });

  // the published numbers come from a float32 pass: logits agree to 1e-5
  test('log-probabilities and entropies are the published ones', () => {
    expect(stats.logprobs[0]).toBeNaN();
    for (const [i, logprob] of published.token_logprobs.entries()) {
      expect(Math.abs((stats.logprobs[i + 1] as number) - logprob)).toBeLessThan(2e-5);
    }
    for (const [i, entropy] of published.token_entropies_nats.entries()) {
      expect(Math.abs(entropyNats(rows[i] as Float64Array) - entropy)).toBeLessThan(2e-5);
      if (i + 1 < ids.length) expect(stats.entropies[i + 1]).toBe(entropyNats(rows[i] as Float64Array));
    }
  });

  test('the five largest last logits are the published ones', () => {
    const top = [...(rows.at(-1) as Float64Array).entries()].sort((a, b) => b[1] - a[1]).slice(0, 5);
    for (const [i, [id, logit]] of published.logits_last_top5.entries()) {
      expect(top[i]?.[0]).toBe(id);
      expect(Math.abs((top[i]?.[1] as number) - logit)).toBeLessThan(2e-5);
    }
  });

  test('a fork goes on as if from scratch and leaves its parent alone', () => {
    const suffix = [5, 77, 403, 511];
    for (const length of [1, 7, ids.length]) {
      const branch = fork(stats.state, length);
      const whole = tokenStats(model, [...ids.slice(0, length), ...suffix]).logprobs.slice(length);
      expect(continuationLogprobs(model, branch, suffix)).toEqual(whole);
      expect(branch.ids).toHaveLength(length);
      extend(model, branch, suffix);
      expect(continuationLogprobs(model, branch, [9])).toEqual(
        tokenStats(model, [...ids.slice(0, length), ...suffix, 9]).logprobs.slice(-1),
      );
    }
    const after: Float64Array[] = [];
    extend(model, fork(stats.state, ids.length - 1), ids.slice(-1), (logits) => after.push(logits));
    expect(after).toEqual(rows.slice(-1));
    expect(stats.state.ids).toEqual(ids);
  });
});

test('log-sum-exp and entropy hold for large, equal and impossible logits', () => {
  expect(logSumExp([1000, 1000])).toBeCloseTo(1000 + Math.LN2, 10);
  expect(logSumExp([Number.NEGATIVE_INFINITY, 3])).toBe(3);
  expect(logSumExp([])).toBe(Number.NEGATIVE_INFINITY);
  expect(entropyNats(new Float64Array(8).fill(-700))).toBeCloseTo(Math.log(8), 12);
  expect(entropyNats(Float64Array.of(800, 0, 0))).toBe(0);
});
