// `--columns` and `--export`: what is written in place of all our columns, by itself and through the whole program.

import { readFile } from 'node:fs/promises';
import { gunzipSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import { TraceRejected } from '../../../dist/errors.js';
import { redistribute } from '../../../dist/estimate/sigma.js';
import { OUR_COLUMNS } from '../../../dist/io/arrow/output-columns.js';
import { EXPORT_FORMS } from '../../../dist/io/write/exports.js';
import { parseColumns, parseExport, writtenColumns } from '../../../dist/run/written-columns.js';
import type { OutputRow, SegmentRow } from '../../../dist/scored.js';
import { bareRow } from '../../support/io-helpers.js';
import { FIXTURES, type ScoredRow, storedSigmaInput } from '../../support/program.js';
import { openScene } from '../../support/scene.js';

const { at, done, fails, rows } = await openScene();

const {
  prm: { row: prmRow },
  progress: { row: progressRow },
  tinker: { row: tinkerRow },
  vineppo: { row: vineppoRow },
} = EXPORT_FORMS;
const f32 = (...values: number[]) => Float32Array.from(values);

function step(charStart: number | null, charEnd: number | null, sigma: number): SegmentRow {
  const nothing = { start: 0, end: 0, kind: 'thought' as const, entropy: null, value: null, delta: null };
  return { ...nothing, charStart, charEnd, sigma };
}

/** Three prompt tokens, four completion tokens; R* = −0.5, so σ < 0 is what raised the value. */
function wrongTrace(changes: Partial<OutputRow> = {}): OutputRow {
  const row = bareRow({});
  return {
    ...row,
    trace: { ...row.trace, prompt: 'q?', completion: 'a😀b\nc' },
    promptIds: Int32Array.of(7, 8, 9),
    completionIds: Int32Array.of(1, 2, 3, 4),
    logprobs: f32(-1, -2, -3, -4),
    sigma: f32(0.75, 0.5, -0.5, 0.25),
    segments: [step(0, 2, 1.25), step(2, 4, -0.5), step(4, 5, 0.25)],
    reward: 0,
    baseline: 0.5,
    ...changes,
  };
}

const rejects = (action: () => unknown): string => {
  try {
    action();
  } catch (error) {
    if (error instanceof TraceRejected) return `${error.code}: ${error.reason}`;
    throw error;
  }
  throw new Error('was not rejected');
};

describe('an export', () => {
  it('tinker shifts by one: position i reads token i and predicts token i + 1', () => {
    const { model_input, target_tokens, logprobs, advantages, weights } = tinkerRow(wrongTrace());
    expect([...model_input]).toEqual([7, 8, 9, 1, 2, 3]);
    expect([...target_tokens]).toEqual([8, 9, 1, 2, 3, 4]);
    expect([...logprobs]).toEqual([0, 0, -1, -2, -3, -4]);
    expect([...advantages]).toEqual([0, 0, -0.375, -0.25, 0.25, -0.125]);
    expect([...weights]).toEqual([0, 0, 3, 2, -2, 1]);
  });

  it('tinker loses no token to a prompt of one', () => {
    const row = tinkerRow(wrongTrace({ promptIds: Int32Array.of(9) }));
    expect([...row.model_input]).toEqual([9, 1, 2, 3]);
    expect([...row.logprobs]).toEqual([-1, -2, -3, -4]);
  });

  it('vineppo has an advantage a response token, R* on average', () => {
    const row = vineppoRow(wrongTrace());
    expect([...row.query_token_ids]).toEqual([7, 8, 9]);
    expect([...row.response_token_ids]).toEqual([1, 2, 3, 4]);
    expect(row.scores).toBe(0);
    expect([...row.advantages]).toEqual([-1.5, -1, 1, -0.5]);
    const uniform = vineppoRow(wrongTrace({ sigma: f32(0.25, 0.25, 0.25, 0.25) }));
    expect([...uniform.advantages]).toEqual([-0.5, -0.5, -0.5, -0.5]);
  });

  it('prm cuts the text at code points and calls good what earned reward, on a wrong trace too', () => {
    expect(prmRow(wrongTrace())).toEqual({
      prompt: 'q?',
      completions: ['a😀', 'b\n', 'c'],
      labels: [false, true, false],
    });
    expect(prmRow(wrongTrace({ reward: 1 })).labels).toEqual([true, false, true]);
  });

  it.each([0, 1])('prm calls a segment that earned nothing no good one, for the reward %i', (reward) => {
    const segments = [step(0, 2, 1), step(2, 4, 0), step(4, 5, -0)];
    expect(prmRow(wrongTrace({ segments, reward })).labels).toEqual([reward === 1, false, false]);
  });

  it('prm passes over a segment of end tokens alone', () => {
    const segments = [step(0, 5, 0.75), step(5, 5, 0.25)];
    expect(prmRow(wrongTrace({ segments })).completions).toEqual(['a😀b\nc']);
  });

  it('progress has each step with the change of the value by it, whatever σ and the reward say', () => {
    const deltas = [0.25, -0.75, null];
    const segments = [step(0, 2, 1), step(2, 4, 0), step(4, 5, 0)].map((own, k) => ({
      ...own,
      delta: deltas[k] as number | null,
    }));
    const known = {
      segments,
      valueStart: 0.5,
      reward: null,
      baseline: null,
      status: ['uniform:small-return'],
    };
    expect(progressRow(wrongTrace(known))).toEqual({
      prompt: 'q?',
      completions: ['a😀', 'b\n', 'c'],
      progress: f32(0.25, -0.75, 0),
    });
    expect(rejects(() => progressRow(wrongTrace({ ...known, valueStart: null })))).toBe(
      'export: the row has no values',
    );
  });

  it.each([
    [
      'no reward',
      { reward: null },
      'the reward is not known, and an advantage needs one: --map reward=<path>',
    ],
    ['no baseline', { baseline: null }, 'the trace has no baseline, and an advantage needs one: --baseline'],
  ])('turns a trace with %s down', (_, changes, reason) => {
    for (const row of [prmRow, tinkerRow, vineppoRow])
      expect(rejects(() => row(wrongTrace(changes)))).toContain(`export: ${reason}`);
  });

  it.each([
    [
      'uniform σ by fallback',
      { status: ['uniform:small-return'] },
      'no step from another (uniform:small-return)',
    ],
    ['no advantage', { baseline: 0 }, 'no step from another (the advantage is 0)'],
    ['segments without text', { segments: [step(null, null, 1)] }, 'the segments have no text'],
  ])('prm turns a trace with %s down', (_, changes, reason) => {
    expect(rejects(() => prmRow(wrongTrace(changes)))).toContain(reason);
    expect(() => tinkerRow(wrongTrace(changes))).not.toThrow();
  });
});

describe('--columns', () => {
  it('keeps the fixed order, whatever was asked for first', () => {
    expect(parseColumns('status, sigma,id')).toEqual(['id', 'sigma', 'status']);
    expect(parseColumns(undefined)).toBeUndefined();
    const { columns, texts } = writtenColumns(OUR_COLUMNS, undefined);
    // texts are written where the input has none
    expect([...columns, ...texts].sort()).toEqual([...OUR_COLUMNS].sort());
    expect(texts).toEqual(['prompt', 'completion']);
  });

  it.each([
    ['sigma,nonsense', '"nonsense" is none of our columns'],
    ['sigma,', '"" is none of our columns'],
    ['id,sigma,id', 'id stands there twice'],
  ])('refuses %s', (text, message) => {
    expect(() => parseColumns(text)).toThrow(message);
  });

  it('refuses a column that the command does not write, and a choice beside an export', () => {
    expect(() => writtenColumns(['id', 'segments'], ['sigma'])).toThrow(
      expect.objectContaining({ exitCode: 2, hint: '--columns with some of id,segments' }),
    );
    expect(() => writtenColumns(OUR_COLUMNS, ['id'], 'prm')).toThrow(
      '--export prm writes prompt, completions, labels, all of them',
    );
    expect(() => parseExport('verl')).toThrow('--export verl: unknown choice');
  });
});

describe('rredcot', () => {
  let scored: ScoredRow[];

  beforeAll(async () => {
    await run('all.parquet');
    scored = await rows('all.parquet');
    expect(scored).toHaveLength(16);
  });
  const run = (name: string, flags = '') => done(`score ${FIXTURES} --limit 16 --quiet -o ${name} ${flags}`);

  it('score --columns writes these alone beside the input, and segment its own', async () => {
    await run('few.parquet', '--columns sigma,prompt_ids,logprobs,completion_ids,reward');
    const few = await rows('few.parquet');
    expect(Object.keys(few[0] as object)).toEqual([
      ...['id', 'group', 'family', 'prompt', 'completion', 'answer', 'solution'],
      ...['prompt_ids', 'completion_ids', 'logprobs', 'sigma', 'reward'],
    ]);
    expect(few.map(({ sigma }) => sigma)).toEqual(scored.map(({ sigma }) => sigma));

    const line = `segment ${FIXTURES} --no-policy --limit 1 --columns`;
    const { stdout } = await done(`${line} segments`);
    expect(Object.keys(JSON.parse(stdout))).not.toContain('status');
    await fails(`${line} sigma`, 2, 'try: --columns with some of');
  });

  it('score to .jsonl.gz makes the lines of .jsonl, of several chunks', async () => {
    await run('plain.jsonl', '--rows-per-chunk 8');
    await run('small.jsonl.gz', '--overwrite --rows-per-chunk 8');
    const bytes = await readFile(at('small.jsonl.gz'));
    expect(bytes.subarray(4, 10)).toEqual(Buffer.from([0, 0, 0, 0, 0, 255]));
    expect(gunzipSync(bytes).equals(await readFile(at('plain.jsonl')))).toBe(true);
  });

  it('score --export tinker says the same of each trace as our columns', async () => {
    await run('tinker.parquet', '--export tinker');
    const datums = await rows<Record<string, number[]>>('tinker.parquet');
    expect(datums).toHaveLength(16);
    for (const [n, row] of datums.entries()) {
      const { prompt_ids, completion_ids, logprobs, sigma, reward, baseline } = scored[n] as ScoredRow;
      expect(row.target_tokens).toEqual([...prompt_ids, ...completion_ids].slice(1));
      expect(row.model_input).toEqual([...prompt_ids, ...completion_ids].slice(0, -1));
      const zeros = prompt_ids.slice(1).map(() => 0);
      expect(row.logprobs).toEqual([...zeros, ...logprobs]);
      const { advantages = [], weights } = row;
      const returned = advantages.reduce((sum, a) => sum + a, 0);
      const sizes = advantages.reduce((sum, a) => sum + Math.abs(a), 0);
      const expected = (reward as number) - (baseline as number);
      expect(Math.abs(returned - expected)).toBeLessThanOrEqual(1e-6 * Math.max(1, sizes));
      expect(weights).toEqual([...zeros, ...sigma.map((s) => Math.fround(s * sigma.length))]);
      expect(Object.keys(row)).not.toContain('sigma');
    }
  });

  it('score --export vineppo and prm, in other formats', async () => {
    await run('episodes.jsonl', '--export vineppo');
    for (const [n, episode] of (await rows<Record<string, number[]>>('episodes.jsonl')).entries()) {
      expect(episode.query_token_ids).toEqual(scored[n]?.prompt_ids);
      expect(episode.advantages).toHaveLength(episode.response_token_ids?.length as number);
      expect(episode.scores).toBe(scored[n]?.reward);
    }

    await run('steps.jsonl', '--export prm --sigma rudder');
    type Step = { prompt: string; completion: string; completions: string[]; labels: boolean[] };
    const steps = await rows<Step>('steps.jsonl');
    expect(steps).toHaveLength(16);
    for (const [n, { prompt, completion, completions, labels }] of steps.entries()) {
      const { reward, baseline, segments } = scored[n] as ScoredRow;
      // the rule whose signs are its labels
      const rule = { rule: 'rudder', residual: 'uniform', within: 'uniform' } as const;
      const { sigma } = redistribute(storedSigmaInput(scored[n] as ScoredRow), rule);
      expect(prompt).toMatch(/^start \d/);
      expect(completions.join('')).toBe(completion);
      const sign = Math.sign((reward as number) - (baseline as number));
      expect(labels).toEqual(segments.map(({ start }) => sign * (sigma[start as number] as number) > 0));
    }
  });

  it('score --export progress has the differences of the values, of attributions none', async () => {
    await run('progress.jsonl', '--export progress');
    const steps = await rows<{ completions: string[]; progress: number[] }>('progress.jsonl');
    expect(steps.map(({ completions }) => completions.join(''))).toEqual(
      scored.map(({ completion }) => completion),
    );
    for (const [n, { segments }] of scored.entries()) {
      expect(steps[n]?.progress.map(Math.fround)).toEqual(segments.map(({ delta }) => delta));
      expect(segments.some(({ delta }) => delta !== 0)).toBe(true);
    }
    const line = `score ${FIXTURES} -o - --export progress --estimator gradient`;
    await fails(line, 2, '--export progress labels steps by what has a sign');
  });

  it('score --export prm sets aside, with a reason, what has no labels', async () => {
    // a right trace's R* is 0 here, so its σ is uniform
    await run('wrong.jsonl', '--export prm --sigma rudder --baseline 1');
    const wrong = scored.filter(({ reward }) => reward === 0);
    const steps = await rows<{ id: string }>('wrong.jsonl');
    expect(steps.map(({ id }) => id)).toEqual(wrong.map(({ id }) => id));
    const rejected = await rows<{ code: string }>('wrong.jsonl.rejects.jsonl');
    expect(rejected.map(({ code }) => code)).toEqual(Array(16 - wrong.length).fill('export'));
  });
});
