// Real traces of other models go the whole way: long, TeX, Unicode, an empty one. Their numbers mean little; the path must hold.
// 16,000 characters at most, or all with RREDCOT_LONG=1, which takes minutes.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readJsonl, type ScoredRow, SHARED_DATA } from '../support/program.js';
import { openScene } from '../support/scene.js';

const GSM8K = join(SHARED_DATA, 'gsm8k_model_solutions.jsonl');
const GSM8K_MAP =
  'prompt=question,completion=6b_finetuning.solution,reward=6b_finetuning.is_correct,reference=ground_truth';
const MATH500 = join(SHARED_DATA, 'math500_r1distill_qwen7b.jsonl');
const MATH500_MAP =
  'id=item_id,prompt=prompt,completion=full_response,reward=is_correct,reference=ground_truth';
const scene = await openScene();
const { done, rows: rowsOf } = scene;

interface Math500Row {
  readonly item_id: string;
  readonly full_response: string;
}

/** σ sums to 1, every number is finite, and segments end where the completion does. */
function expectSound(rows: readonly ScoredRow[]): void {
  for (const row of rows) {
    const sum = row.sigma.reduce((a, b) => a + b, 0);
    const mass = row.sigma.reduce((a, b) => a + Math.abs(b), 0);
    expect(Math.abs(sum - 1)).toBeLessThanOrEqual(1e-6 * Math.max(1, mass));
    expect(row.sigma.length).toBe(row.completion_ids.length);
    expect([...row.logprobs, ...row.entropies, ...row.sigma].every(Number.isFinite)).toBe(true);
    expect(row.segments.filter((s) => s.kind === 'thought').length).toBeLessThanOrEqual(40);
    expect(row.segments.at(-1)?.end).toBe(row.completion_ids.length);
  }
}

/**
 * Scores the traces below `others` characters and one of the longest, each cut to `longest` characters: attention is
 * quadratic, and the three longest traces as they are take minutes.
 */
async function scoreMath500(others: number, longest: number): Promise<void> {
  const rows = (await readJsonl<Math500Row>(MATH500)).map((row) => ({
    ...row,
    full_response: row.full_response.slice(0, longest),
  }));
  const sizes = rows.map((row) => row.full_response.length);
  const most = Math.max(...sizes);
  const kept = rows.filter((_, i) => (sizes[i] as number) < others || i === sizes.indexOf(most));
  expect(kept.length).toBeGreaterThan(3);
  await scene.write('math500.jsonl', kept);
  await done(`score math500.jsonl --map ${MATH500_MAP} -o math500.parquet`);
  const scored = await rowsOf('math500.parquet');
  expect(scored.map((row) => row.id)).toEqual(kept.map((row) => row.item_id));
  // a token is a byte
  expect(Math.max(...scored.map((row) => row.completion_ids.length))).toBeGreaterThanOrEqual(most);
  expectSound(scored);
}

const hasRealData = existsSync(GSM8K) && existsSync(MATH500);

const hasAll = process.env.RREDCOT_LONG !== undefined;
/** rows that are scored, and that are segmented with a policy */
const GSM8K_SCORED = 30;
const GSM8K_SEGMENTED = 40;
const MATH500_SEGMENTED = 2;
/** characters, as of {@link scoreMath500} */
const OTHERS = hasAll ? Number.MAX_SAFE_INTEGER : 4_500;
const LONGEST = hasAll ? Number.MAX_SAFE_INTEGER : 16_000;

describe.skipIf(!hasRealData)('real traces (need ../shared/data)', () => {
  it(`gsm8k: score, the first ${GSM8K_SCORED} of 700 rows`, async () => {
    await done(`score ${GSM8K} --map ${GSM8K_MAP} -o gsm8k.parquet --limit ${GSM8K_SCORED}`);
    const rows = await rowsOf('gsm8k.parquet');
    expect(rows.length).toBe(GSM8K_SCORED);
    expectSound(rows);
  });

  it('gsm8k: segment, all 700 rows, without a policy and with', async () => {
    for (const [flags, count] of [
      ['--no-policy', 700],
      [`--limit ${GSM8K_SEGMENTED}`, GSM8K_SEGMENTED],
    ] as const) {
      const { stdout } = await done(`segment ${GSM8K} --map ${GSM8K_MAP} ${flags}`);
      expect(stdout.trim().split('\n').length).toBe(count);
    }
  });

  it(`math500: score TeX and Unicode traces of up to ${LONGEST} characters`, () =>
    scoreMath500(OTHERS, LONGEST));

  it("math500: segment with the policy's entropies", async () => {
    const flags = `--limit ${MATH500_SEGMENTED} --max-segments 12`;
    await done(`segment ${MATH500} --map ${MATH500_MAP} ${flags} -o segments.jsonl`);
    for (const row of await rowsOf('segments.jsonl')) {
      expect(row.segments.filter((s) => s.kind === 'thought').length).toBeLessThanOrEqual(12);
      expect(row.segments.at(-1)?.end).toBe(row.completion_ids.length);
    }
  });

  it('math500: the empty thought is a reject where it is the completion', async () => {
    const { stdout, stderr } = await done(
      `segment ${MATH500} --map id=item_id,completion=reasoning_trace --no-policy`,
    );
    expect(stdout.trim().split('\n').length).toBe(19);
    expect(stderr).toMatch(/rejected: 1 \(empty_completion 1\)/);
  });
});
