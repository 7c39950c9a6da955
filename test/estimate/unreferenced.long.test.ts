// `calibrated` and `siblings` of traces without a reference: what their values are made of, by the formulas, and what does not go together.
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { CalibrationFile } from '../../dist/estimate/calibration.js';
import { FEATURES_OF } from '../../dist/estimate/states.js';
import { oracleFeatures } from '../oracle/calibration.js';
import { PROVER, type ScoredRow, storedValues } from '../support/program.js';
import { fixtureRows, openScene } from '../support/scene.js';
import { fitted, type MadeTrace } from '../support/scored-traces.js';

type Row = ScoredRow & { readonly value_prior: number[]; readonly value_ess: number[] };

const scene = await openScene();
const { at, config, done, fails, rows, write } = scene;

beforeAll(async () => {
  const fixtures = await fixtureRows(0, 10);
  const bare = fixtures.map(({ answer: _, ...row }) => row);
  await write('bare.jsonl', bare);
  await write('few.jsonl', bare.slice(0, 3));
  await write(
    'unlike.jsonl',
    bare.map((row, n) => ({ ...row, group: 'one', id: `${n}`, prompt: `${n}\n`, prompt_ids: undefined })),
  );
});

/** What a run stores of the tokens of made-up traces. */
const entropies = ({ logprobs }: MadeTrace) => ({ entropies: logprobs.map((lp) => -lp / 2) });

/** V(s_k) by the weights of all traces, from what a row has stored; P(yes) in front where one was asked for. */
function expectedValues(
  row: ScoredRow,
  { mean, sd, weights: all }: CalibrationFile,
  yes?: readonly number[],
) {
  const weights = all?.at(-1) as number[];
  const ends = row.segments.filter(({ kind }) => kind === 'thought').map(({ end }) => Number(end));
  const { logprobs, entropies } = row as unknown as { logprobs: number[]; entropies: number[] };
  const values = yes ?? [0, ...ends].map(() => 0.5);
  return oracleFeatures({ values, geo: values, ends, logprobs }).map((nine, k) => {
    const unsure = entropies.slice(0, k === 0 ? 0 : ends[k - 1]).reduce((sum, h) => sum + h, 0);
    const asked = yes === undefined ? [] : [Math.min(...yes.slice(0, k + 1)), k === 0 ? 1 : 0];
    const phi = [...(yes === undefined ? [] : nine.slice(0, 2)), ...nine.slice(2, 7), unsure, ...asked];
    const logit = phi.reduce(
      (sum, x, f) => sum + (weights[f + 1] as number) * ((x - (mean[f] as number)) / (sd[f] as number)),
      weights[0] as number,
    );
    return 1 / (1 + Math.exp(-logit));
  });
}

function expectClose(found: readonly number[], expected: readonly number[]): void {
  expect(found.length).toBe(expected.length);
  for (const [k, value] of expected.entries()) expect(found[k]).toBeCloseTo(value, 5);
}

describe('a calibration without a reference', () => {
  it('looks at the thought alone where nothing was scored, and every row says so', async () => {
    await done('score bare.jsonl --estimator surprise -o surprise.jsonl');
    const none = { reference_logprobs: [], reference_tokens: [], reference_utilities: [] };
    const bare = (trace: MadeTrace) => ({ ...entropies(trace), ...none });
    const file = await fitted(scene, 'thought', bare, { config: await config('surprise.jsonl') });
    expect(file).toMatchObject({ estimator: 'none', uses: 'features', why: null, traces: 96 });
    expect(file.features).toEqual(FEATURES_OF.none);
    expect(file.log_loss).toMatchObject({ value: null });
    await done('score bare.jsonl --estimator calibrated --calibration thought.json -o of-thought.jsonl');
    const found = await rows('of-thought.jsonl');
    for (const row of found) {
      expect(row.status).toBe('value:thought');
      expectClose(storedValues(row), expectedValues(row, file));
    }
    // a baseline on the reward's scale
    expect(found.map(({ baseline }) => baseline)).toEqual(found.map((row) => row.value_start));
    await done('redistribute of-thought.jsonl --estimator surprise -o other-credit.jsonl');
    expect((await rows('other-credit.jsonl')).map(({ status }) => status)).not.toContain('value:thought');
    await fails(
      'redistribute surprise.jsonl --estimator calibrated --calibration thought.json -o no.jsonl',
      2,
      'is of no values, and here those of references are exchanged',
    );
  });

  it('looks at P(yes) where the policy was asked', async () => {
    const policy = 'asked';
    await cp(PROVER, at('asking'), { recursive: true });
    await write('asking/ask_template.json', JSON.stringify({ question: '\nright? ', yes: 'y', no: 'n' }));
    await done(`policy build asking -o ${policy} --exit-template ${join(PROVER, 'exit_template.json')}`);
    await done(`score few.jsonl --policy ${policy} --estimator ask -o ask.jsonl`);
    // of each made-up v̂ the odds of yes
    const two = (trace: MadeTrace) => ({
      ...entropies(trace),
      reference_logprobs: trace.values.map((p) => [Math.log(p) - 3, Math.log(1 - p + 1e-9) - 3]),
      ...{ reference_tokens: [1, 1], reference_utilities: [1, 0] },
    });
    const file = await fitted(scene, 'yes', two, { config: await config('ask.jsonl') });
    expect(file).toMatchObject({ estimator: 'ask', uses: 'features', features: FEATURES_OF.ask });
    const flags = `--policy ${policy} --estimator calibrated --calibration yes.json`;
    await done(`score few.jsonl ${flags} -o of-yes.jsonl`);
    const asked = await rows('ask.jsonl');
    for (const [n, row] of (await rows('of-yes.jsonl')).entries()) {
      expect(row.status).toBe('ask:unanswered;value:asked');
      expectClose(storedValues(row), expectedValues(row, file, storedValues(asked[n] as ScoredRow)));
    }
    // the question that it was fitted with, whatever the folder's own one is
    await write('other.json', JSON.stringify({ question: '\nwrong? ', yes: 'n', no: 'y' }));
    await done(`score few.jsonl --policy ${policy} --estimator ask --ask-template other.json -o other.jsonl`);
    const other = await config('other.jsonl');
    await fitted(scene, 'odd', two, { config: other });
    await done(
      `score few.jsonl --policy ${policy} --estimator calibrated --calibration odd.json -o of-odd.jsonl`,
    );
    const stored = await config('of-odd.jsonl');
    expect(stored.askTemplate).toEqual(other.askTemplate);
    const logprobs = (all: readonly ScoredRow[]) =>
      all.map((row) => (row as unknown as { reference_logprobs: number[][] }).reference_logprobs);
    expect(logprobs(await rows('of-odd.jsonl'))).toEqual(logprobs(await rows('other.jsonl')));
    expect(logprobs(await rows('of-odd.jsonl'))).not.toEqual(logprobs(asked as ScoredRow[]));
    expect((await done('calibrate yes.jsonl odd.jsonl -o both.json')).said).toContain('with other flags');
    await fails(
      'calibrate yes.jsonl surprise.jsonl -o no.json',
      2,
      'surprise.jsonl: its values are those of none, and of ask in yes.jsonl',
    );
    // a policy without one is asked it, and is another one
    const { said } = await done('score few.jsonl --estimator calibrated --calibration yes.json -o own.jsonl');
    expect(said).toContain('scored by another policy,');
  });

  it('that stands back has nothing to leave as it is', async () => {
    await done('calibrate surprise.jsonl -o back.json');
    await fails(
      'score bare.jsonl --estimator calibrated --calibration back.json -o no.jsonl',
      2,
      'stands back (too-few-groups), and without a reference or a question there is no value',
    );
  });
});

describe('siblings without a reference', () => {
  it('mixes outcomes with what the thought says', async () => {
    await done('score bare.jsonl --estimator siblings --calibration thought.json -o mixed.jsonl');
    const alone = await rows('of-thought.jsonl');
    for (const [n, row] of (await rows<Row>('mixed.jsonl')).entries()) {
      expectClose(row.value_prior, storedValues(alone[n] as ScoredRow));
      expect(row.status.split(';')).toContain('value:thought');
      // a quarter of it is the prior's, the rest an outcome's at most
      for (const [k, value] of storedValues(row).entries()) {
        const prior = row.value_prior[k] as number;
        expect(value).toBeGreaterThanOrEqual(0.25 * prior - 1e-6);
        expect(value).toBeLessThanOrEqual(0.75 + 0.25 * prior + 1e-6);
      }
    }
  });

  it('is the mean of outcomes alone with --calibration none: of one outcome that itself, of no peer nothing', async () => {
    const flags = '--estimator siblings --calibration none';
    for (const reward of [0, 1]) {
      const alike = (await rows<object>('bare.jsonl')).map((row) => ({ ...row, reward }));
      await write('alike.jsonl', alike);
      await done(`score alike.jsonl ${flags} -o alike.out.jsonl --overwrite`);
      for (const row of await rows<Row>('alike.out.jsonl')) {
        expect(row.status.split(';')).toContain('value:outcomes');
        expect(storedValues(row).every((value) => Math.abs(value - reward) < 1e-6)).toBe(true);
        expect(row.baseline).toBe(reward);
      }
    }
    await done(`score bare.jsonl ${flags} -o outcomes.jsonl`);
    const found = await rows<Row>('outcomes.jsonl');
    expect(found.some((row) => storedValues(row).some((value) => value > 0.01 && value < 0.99))).toBe(true);
    await done('redistribute outcomes.jsonl --sigma rudder -o again.jsonl');
    const why = 'has no value in front of the trace';
    await fails(`score bare.jsonl ${flags} --baseline value -o no.jsonl`, 2, why);
    await fails('redistribute outcomes.jsonl --baseline value -o no.jsonl', 2, why);
    await done(`score unlike.jsonl ${flags} -o alone.jsonl`);
    for (const row of await rows<Row>('alone.jsonl')) {
      expect(row.status).toContain('siblings:no-peer;');
      expect(storedValues(row).every((value) => value === 0)).toBe(true);
    }
  });
});
