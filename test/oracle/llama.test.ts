/** The oracle's forward pass against published numbers, and its cache against itself. */
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, test } from 'vitest';
import {
  entropyNats,
  extend,
  loadOracleModel,
  type OracleModel,
  start,
  type TokenStats,
  tokenStats,
} from './llama.js';

const folder = fileURLToPath(new URL('../../../shared/models-src/stories260K', import.meta.url));

interface Published {
  ids: number[];
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
});

test('an entropy holds for large and equal logits', () => {
  expect(entropyNats(new Float64Array(8).fill(-700))).toBeCloseTo(Math.log(8), 12);
  expect(entropyNats(Float64Array.of(800, 0, 0))).toBe(0);
});
