// What is of one estimator alone: a prover's hierarchical credit, models that were exchanged, traces without what is needed; and
// the same parts by shards, where a second model is asked, or the policy once more.
import { rm } from 'node:fs/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { buildPolicyFolder } from '../../dist/model/onnx/build.js';
import { readExitTemplate } from '../../dist/model/text/templates.js';
import { oracleHierarchical, oracleStd } from '../oracle/hierarchical.js';
import { type FixtureRow, PROVER, type ScoredRow, storedValues } from '../support/program.js';
import { editJson, fixtureRows, openScene } from '../support/scene.js';
import { snapshot } from '../torture/snapshot.js';

type HierarchicalRow = ScoredRow & { readonly reward: number; readonly baseline: number } & {
  readonly token_advantage: number[];
} & { readonly group_std: number };

const { at, config, done, expectSame, fails, rows, text, write } = await openScene();
const PROGRESS = '--estimator progress --prover prover --best-of 3';
let fixtures: FixtureRow[];

beforeAll(async () => {
  await buildPolicyFolder(PROVER, at('prover'), await readExitTemplate(PROVER));
  // of one group, right ones and wrong ones
  fixtures = await fixtureRows(8, 12);
  await write('traces.jsonl', fixtures);
  await write('six.jsonl', await fixtureRows(0, 6));
  await write('hint.json', '{"text": "hint {answer}\\n"}');
  await done(`score traces.jsonl ${PROGRESS} -o progress.jsonl`);
});

it('posterior turns a trace down whose prompt has no place for the hint', async () => {
  await write('chat.json', '{"text": "{answer}", "before": "<|assistant|>"}');
  await fails(
    'score traces.jsonl --estimator posterior --hint-template chat.json -o chat.jsonl',
    65,
    'rejected',
  );
  expect(await text('chat.jsonl.rejects.jsonl')).toContain('the prompt has no tokens of');
});

it.each([PROGRESS, '--estimator posterior --hint-template hint.json', '--estimator loo --loo masked'])(
  'in shards: %s',
  async (flags) => {
    const score = `score six.jsonl ${flags} --rows-per-part 2`;
    const name = flags.replaceAll(/\W+/g, '-');
    await done(`${score} -o whole${name}/`);
    for (const i of [0, 1]) await done(`${score} --shard ${i}/2 -o shards${name}/`);
    expect(await snapshot(at(`shards${name}`))).toEqual(await snapshot(at(`whole${name}`)));
  },
);

describe('progress', () => {
  it('is made for another estimator of the prover, and fits no calibration', async () => {
    await done('redistribute progress.jsonl --prover-estimator pr-geo --best-of 1 -o geo.jsonl');
    await fails('calibrate progress.jsonl -o no.json', 2, '--estimator progress');
  });

  it('says that a policy is its own prover', async () => {
    const { stderr } = await done(`score traces.jsonl --policy prover ${PROGRESS} -o own.jsonl`);
    expect(stderr).toContain('is the policy itself');
  });

  it('makes hierarchical credit, of the same file and in one go, apart and together', async () => {
    await done('redistribute progress.jsonl --method hierarchical --alpha 2 -o made.jsonl');
    await done(
      'score traces.jsonl --prover prover --best-of 3 --method hierarchical --alpha 2 -o hierarchical.jsonl',
    );
    await expectSame('made.jsonl', 'hierarchical.jsonl');
    const said = await config('made.jsonl');
    expect(said).toEqual(await config('hierarchical.jsonl'));
    expect(said.returnEquivalent).toBe(false);
    // the deviation of a part of a group is not the group's
    await done('filter progress.jsonl --where reward==0 -o part.jsonl');
    await fails('redistribute part.jsonl --method hierarchical -o no.jsonl', 65, 'was filtered');
    // nor that of a group of which rows were left out and nothing says so
    await write('less.jsonl', (await text('progress.jsonl')).split('\n').slice(1).join('\n'));
    await write('less.jsonl.summary.json', await text('progress.jsonl.summary.json'));
    await editJson(at('less.jsonl.summary.json'), (summary) => delete summary.sha256);
    const less = await fails(
      'redistribute less.jsonl --method hierarchical -o no.jsonl',
      65,
      'were left out',
    );
    expect(less.stderr).toContain('less.jsonl: nothing says which bytes were written');
    const made = await rows<HierarchicalRow>('made.jsonl');
    const std = oracleStd(made.map(({ reward }) => reward));
    expect(std).toBeGreaterThan(0);
    for (const row of made) {
      const [values, ends] = [storedValues(row), row.segments.map(({ end }) => end as number)];
      const expected = oracleHierarchical({ ...row, ends, values, groupStd: std }, 2, 0.5);
      for (const [t, advantage] of row.token_advantage.entries())
        expect(advantage).toBeCloseTo(expected[t] as number, 5);
      expect(row.group_std).toBeCloseTo(std, 6);
    }
    // back again: nothing of it is left
    await done('redistribute made.jsonl --method sigma -o back.jsonl');
    await expectSame('back.jsonl', 'progress.jsonl');
  });
});

/** sha256 of `{}` */
const HASH_OF_BRACES = '44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a';

it('a run goes on with its own prover alone', async () => {
  const first = `score traces.jsonl ${PROGRESS} --rows-per-part 1 --shard 0/2 -o goes-on/`;
  await done(first);
  const manifest = (await text('prover/policy.json')).replace(
    /("tokenizer_config.json": ")[0-9a-f]{64}/,
    `$1${HASH_OF_BRACES}`,
  );
  // they may be links to the checkpoint's
  for (const name of ['policy.json', 'tokenizer_config.json']) await rm(at(`prover/${name}`));
  await write('prover/policy.json', manifest);
  await write('prover/tokenizer_config.json', '{}');
  await fails(first, 2, /--prover \(tokenizer_config\.json\) is "/);
});
