/** `rredcot compare` on published chains: Monte Carlo values sentence by sentence, and human labels of the first wrong step. */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { ComparisonReport } from '../../dist/commands/compare.js';
import { parseNamedPath, traceCredits } from '../../dist/scored/trace-credits.js';
import { SHARED_DATA } from '../support/program.js';
import { openScene } from '../support/scene.js';

const ANCHORS = join(SHARED_DATA, 'thought_anchors_r1distill_llama8b.jsonl');
const { done, text, write } = await openScene();
const compared = async (line: string): Promise<ComparisonReport> =>
  JSON.parse((await done(`compare ${line} --json`)).stdout);
const MISTAKES = join(SHARED_DATA, 'bigbench_mistake_multistep_arithmetic.jsonl');

it.skipIf(!existsSync(ANCHORS))(
  'values give the published differences of 2,909 pairs of sentences',
  async () => {
    await done(`segment ${ANCHORS} --no-policy --segmenter given -o anchors.jsonl --quiet`);

    const asked = {
      columns: [
        { meaning: 'values' as const, ...parseNamedPath('--values', 'mc=chunks[].accuracy') },
        {
          meaning: 'credit' as const,
          ...parseNamedPath('--credit', 'published=chunks[].resampling_importance_accuracy'),
        },
      ],
      firstWrong: undefined,
      reward: undefined,
    };
    let pairs = 0;
    for (const [row, raw] of (await text('anchors.jsonl')).trim().split('\n').entries()) {
      const columns = JSON.parse(raw) as Record<string, unknown>;
      const { credits } = traceCredits(
        { kind: 'row', file: 'anchors.jsonl', stem: 'a', row, ordinal: row, byteOffset: null, raw, columns },
        asked,
      );
      const [mc, published] = [credits.get('mc'), credits.get('published')] as [Float64Array, Float64Array];
      for (const [k, change] of mc.entries()) {
        if (Number.isNaN(change)) continue;
        expect(Math.abs(change - (published[k] as number)), `${columns.id} sentence ${k}`).toBeLessThan(1e-6);
        pairs++;
      }
    }
    expect(pairs).toBe(2909);

    const published = '--credit published=chunks[].resampling_importance_accuracy';
    const forced = '--credit forced=chunks[].forced_importance_accuracy';
    const flags = `--values mc=chunks[].accuracy ${published} ${forced} --reward base_solution.is_correct`;
    const report = await compared(`anchors.jsonl ${flags} --truth mc`);
    expect(report).toMatchObject({ traces: 20, right: 10, wrong: 10, segments: 2929, refused: {} });
    const pearson = (credit: string) =>
      report.figures.find(
        (f) => f.measure === 'pearson' && f.credit === credit && f.traces === 'all' && f.last === 1,
      );
    expect(pearson('published')).toMatchObject({ value: 1, n_segments: 2909 });
    // what docs/compare.md shows
    expect(pearson('forced')?.value).toBeCloseTo(0.02, 2);
    expect(pearson('uniform')?.value).toBeCloseTo(0.06, 2);
  },
);

it.skipIf(!existsSync(MISTAKES))(
  'labels of the first wrong step are held against the credit of the bundled policy',
  async () => {
    await done(`score ${MISTAKES} --segmenter given --limit 25 -o mistakes.parquet --quiet`);
    const report = await compared('mistakes.parquet --label first_wrong=mistake_index');
    expect(report.refused).toEqual({});
    const labelled = (await readFile(MISTAKES, 'utf8'))
      .split('\n')
      .slice(0, 25)
      .filter((line) => JSON.parse(line).mistake_index !== null).length;
    for (const credit of ['uniform', 'pr', 'sigma_share'])
      for (const measure of ['auc', 'hit_at_1']) {
        const found = report.figures.find((f) => f.measure === measure && f.credit === credit);
        expect(found).toMatchObject({ of: 'first_wrong', n_traces: labelled });
        expect(found?.value).toBeGreaterThan(0);
      }
    // a policy that knows nothing of the task: its values do not move, and the report says so
    expect(report.notes.map(({ code }) => code)).toContain('uniform:flat-values');
  },
);

/** What needs no policy of the task: how text reads to some policy, its length, and what a reward model says of its steps. */
const WITHOUT_POLICY = ['uniform', 'sigma_surprise', 'sigma_entropy', 'sigma_top_entropy', 'surprise'];

describe.skipIf(!existsSync(MISTAKES))(
  'labels of the first wrong step, by methods that need no right policy',
  () => {
    interface Chain {
      readonly input: string;
      readonly steps: readonly string[];
      readonly target: string;
      readonly mistake_index: number | null;
    }
    let chains: readonly Chain[];

    beforeAll(async () => {
      const lines = (await readFile(MISTAKES, 'utf8')).split('\n').slice(0, 16);
      chains = lines.map((line) => JSON.parse(line) as Chain);
      await write('mistakes.jsonl', chains);
      await write('prm800k.jsonl', chains.map(asPrm800k));
    });

    /** A chain as PRM800K has it: rated steps up to the first wrong one, at which it ends. `first_wrong` is ours. */
    function asPrm800k({ input, steps, target, mistake_index: wrong }: Chain): object {
      const rated = wrong === null ? steps : steps.slice(0, wrong + 1);
      return {
        labeler: 'l',
        question: { problem: input, ground_truth_solution: null, ground_truth_answer: target },
        label: {
          steps: rated.map((text, k) => ({
            completions: [{ text, rating: k === wrong ? -1 : 1, flagged: false }],
            human_completion: null,
            chosen_completion: 0,
          })),
          total_time: 1,
          finish_reason: wrong === null ? 'solution' : 'found_error',
        },
        first_wrong: wrong,
      };
    }

    it.each([
      ['mistakes.jsonl', 'bigbench-mistake', 'mistake_index'],
      ['prm800k.jsonl', 'prm800k', 'first_wrong'],
    ])(
      'of %s, each with an AUC; the program says that the policy did not write them',
      async (input, preset, label) => {
        const outs: string[] = [];
        for (const flags of ['pr --sigma share,surprise,entropy,top-entropy', 'surprise']) {
          const out = `${preset}-${outs.length}.jsonl`;
          const how = `--segmenter given --preset ${preset} --estimator ${flags}`;
          const { stderr } = await done(`score ${input} -o ${out} ${how}`);
          expect(stderr).toContain('foreign to the bundled policy, which knows two toy tasks');
          outs.push(out);
        }
        const report = await compared(`${outs.join(' ')} --label first_wrong=${label}`);
        expect(report).toMatchObject({ traces: chains.length, refused: {} });
        // a label of a lone segment tells nothing: there is no other of its trace
        const labelled = chains.filter(({ mistake_index: wrong }) => wrong !== null).length;
        for (const credit of WITHOUT_POLICY)
          for (const measure of ['auc', 'hit_at_1']) {
            const figure = report.figures.find((f) => f.measure === measure && f.credit === credit);
            expect(figure?.of, `${credit} ${measure}`).toBe('first_wrong');
            expect(figure?.n_traces).toBeGreaterThan(labelled / 2);
            expect(figure?.value).toBeGreaterThanOrEqual(0);
            expect(figure?.value).toBeLessThanOrEqual(1);
          }
        const auc = (credit: string) =>
          report.figures.find((f) => f.measure === 'auc' && f.credit === credit)?.value;
        expect(new Set(WITHOUT_POLICY.map(auc)).size).toBeGreaterThan(2);
      },
    );
  },
);
