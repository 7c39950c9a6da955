// `calibrated` and its file: where it stands back, what redistribute makes with another one, what it is fitted to.
import { rm } from 'node:fs/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import type { CalibrationFile } from '../../dist/estimate/calibration.js';
import { fixtureRows, openScene } from '../support/scene.js';
import { fitted } from '../support/scored-traces.js';

const scene = await openScene();
const { at, config, done, expectSame, fails, json, text, write } = scene;
const CALIBRATED = '--estimator calibrated --calibration calibration.json';
let file: CalibrationFile;

beforeAll(async () => {
  await write('traces.jsonl', await fixtureRows(0, 12));
  file = await fitted(scene, 'calibration');
  await fitted(scene, 'none', () => ({ reward: 1 }));
  await done(`score traces.jsonl ${CALIBRATED} -o scored.jsonl`);
});

/** A file that another command has made is the one that score makes. */
async function expectMade(made: string, fresh: string): Promise<void> {
  await expectSame(made, fresh);
  expect(JSON.stringify(await config(made))).toBe(JSON.stringify(await config(fresh)));
}

describe('a calibration', () => {
  it('that stands back leaves the bytes of pr, but for the status', async () => {
    await done('score traces.jsonl --limit 4 -o pr.jsonl');
    await done('score traces.jsonl --limit 4 -o back.jsonl --estimator calibrated --calibration none.json');
    const back = await text('back.jsonl');
    expect(back.match(/"status":"value:uncalibrated"/g)?.length).toBe(4);
    expect(back.replaceAll('"status":"value:uncalibrated"', '"status":"ok"')).toBe(await text('pr.jsonl'));
  });

  it('is exchanged by redistribute, and its baseline', async () => {
    await done(`redistribute scored.jsonl --estimator calibrated --baseline 0.5 -o half.jsonl`);
    await done('redistribute scored.jsonl --calibration none.json -o made.back.jsonl');
    await done('score traces.jsonl -o fresh.back.jsonl --estimator calibrated --calibration none.json');
    await expectMade('made.back.jsonl', 'fresh.back.jsonl');
    await done('redistribute made.back.jsonl --calibration calibration.json -o forth.jsonl');
    await expectMade('forth.jsonl', 'scored.jsonl');
    await fails('redistribute pr.jsonl --estimator calibrated -o no.jsonl', 2, 'needs a calibration');
    await fails('redistribute pr.jsonl --calibration calibration.json -o no.jsonl', 2, '--estimator pr');
    const columns = 'id,sigma,segments,value_start,reward,baseline,reference_utilities,status';
    await done(`score traces.jsonl --limit 2 -o few.parquet --columns ${columns}`);
    await fails(
      `redistribute few.parquet ${CALIBRATED} -o no.jsonl`,
      2,
      /^(?:WARN: .*\n)?rredcot: .*has no group, reference_logprobs, logprobs/,
    );
  });

  it('that was edited, or is none, is refused', async () => {
    const edited = { ...file, weights: file.weights?.toReversed() };
    await write('edited.json', JSON.stringify(edited));
    await write('bad.json', JSON.stringify({ ...file, features: [] }));
    const score = 'score traces.jsonl --estimator calibrated -o no.jsonl --calibration';
    await fails(`${score} edited.json`, 65, /edited\.json: was changed/);
    await fails(`${score} bad.json`, 2, /bad\.json: features: expected logit_value/);
  });

  it('is fitted again to its own output: v̂ is recovered from the references', async () => {
    const of = { config: await config('scored.jsonl') };
    const again = await fitted(scene, 'again', () => ({ value_start: 0.5 }), of);
    expect(again.weights).toEqual(file.weights);
  });

  it('is fitted to run folders, Parquet and Arrow alike, with the policy and flags that they name', async () => {
    await done('score traces.jsonl -o out/ --rows-per-part 5');
    await done('filter out/ -o all.parquet');
    await done('redistribute out/ -o all.arrow');
    const fitted: CalibrationFile[] = [];
    for (const input of ['out/', 'all.parquet', 'all.arrow']) {
      await done(`calibrate ${input} -o of.json`);
      fitted.push(await json('of.json'));
    }
    const [first, ...others] = fitted;
    expect(first).toMatchObject({ traces: 12, groups: 2, uses: 'now', why: 'too-few-groups' });
    expect(first?.scored_with).toMatchObject({ segmenter: 'hybrid', maxSegments: 40, references: 'row' });
    expect(Object.keys(first?.policy ?? {})).toContain('policy.onnx');
    for (const other of others) expect(other).toEqual(first);
    await rm(at('out/part-00001.parquet'));
    await fails('calibrate out/ -o of.json', 75, 'of its 3 parts these are missing: 1');
  });
});
