// Real traces of other models go the whole way: long, TeX, Unicode, an empty one. Their numbers mean little; the path must hold.
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
/** characters of the longest trace, and of the others: attention is quadratic */
const [LONGEST, OTHERS] = [16_000, 4_500];
const { done, rows, write } = await openScene();

/** σ sums to 1, every number is finite, and segments end where the completion does. */
function expectSound(scored: readonly ScoredRow[]): void {
  for (const row of scored) {
    const sum = row.sigma.reduce((a, b) => a + b, 0);
    const mass = row.sigma.reduce((a, b) => a + Math.abs(b), 0);
    expect(Math.abs(sum - 1)).toBeLessThanOrEqual(1e-6 * Math.max(1, mass));
    expect(row.sigma.length).toBe(row.completion_ids.length);
    expect([...row.logprobs, ...row.entropies, ...row.sigma].every(Number.isFinite)).toBe(true);
    expect(row.segments.filter((s) => s.kind === 'thought').length).toBeLessThanOrEqual(40);
    expect(row.segments.at(-1)?.end).toBe(row.completion_ids.length);
  }
}

const hasRealData = existsSync(GSM8K) && existsSync(MATH500);

describe.skipIf(!hasRealData)('real traces (need ../shared/data)', () => {
  it('gsm8k: the first 30 of 700 rows are scored, all are cut', async () => {
    await done(`score ${GSM8K} --map ${GSM8K_MAP} -o gsm8k.parquet --limit 30`);
    const scored = await rows('gsm8k.parquet');
    expect(scored).toHaveLength(30);
    expectSound(scored);
    const { stdout } = await done(`segment ${GSM8K} --map ${GSM8K_MAP} --no-policy`);
    expect(stdout.trim().split('\n').length).toBe(700);
  });

  it('math500: TeX and Unicode, the short traces and the longest one', async () => {
    const all = await readJsonl<{ item_id: string; full_response: string }>(MATH500);
    const cut = all.map((row) => ({ ...row, full_response: row.full_response.slice(0, LONGEST) }));
    const sizes = cut.map((row) => row.full_response.length);
    const most = Math.max(...sizes);
    const kept = cut.filter((_, i) => (sizes[i] as number) < OTHERS || i === sizes.indexOf(most));
    expect(kept.length).toBeGreaterThan(3);
    await write('math500.jsonl', kept);
    await done(`score math500.jsonl --map ${MATH500_MAP} -o math500.parquet`);
    const scored = await rows('math500.parquet');
    expect(scored.map((row) => row.id)).toEqual(kept.map((row) => row.item_id));
    // a token is a byte
    expect(Math.max(...scored.map((row) => row.completion_ids.length))).toBeGreaterThanOrEqual(most);
    expectSound(scored);
  });

  it('math500: the empty thought is a reject where it is the completion', async () => {
    const map = 'id=item_id,completion=reasoning_trace';
    const { stdout, stderr } = await done(`segment ${MATH500} --map ${map} --no-policy`);
    expect(stdout.trim().split('\n').length).toBe(19);
    expect(stderr).toMatch(/rejected: 1 \(empty_completion 1\)/);
  });
});
