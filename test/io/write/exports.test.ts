// `--columns`: which of our columns are written, by itself and through the whole program.

import { describe, expect, it } from 'vitest';
import { chosenColumns, OUR_COLUMNS } from '../../../dist/scored/columns.js';
import { FIXTURES } from '../../support/program.js';
import { openScene } from '../../support/scene.js';

const { done, fails, rows } = await openScene();

describe('--columns', () => {
  it('keeps the fixed order, whatever was asked for first; without it texts are written where the input has none', () => {
    const chosen = chosenColumns(OUR_COLUMNS, ['status', 'sigma', 'id']);
    expect(chosen).toEqual({ columns: ['id', 'sigma', 'status'], texts: [] });
    const { columns, texts } = chosenColumns(OUR_COLUMNS, undefined);
    expect([...columns, ...texts].sort()).toEqual([...OUR_COLUMNS].sort());
    expect(texts).toEqual(['prompt', 'completion']);
  });

  it('refuses a column that the command does not write', () => {
    for (const name of ['sigma', 'nonsense'])
      expect(() => chosenColumns(['id', 'segments'], ['id', name])).toThrow(
        expect.objectContaining({ exitCode: 2, hint: '--columns with some of id,segments' }),
      );
  });
});

it('score --columns writes these alone beside the input, and segment its own', async () => {
  const score = `score ${FIXTURES} --limit 16 --quiet -o`;
  await done(`${score} all.parquet`);
  await done(`${score} few.parquet --columns sigma,prompt_ids,logprobs,completion_ids,reward`);
  const [all, few] = [await rows('all.parquet'), await rows('few.parquet')];
  expect(Object.keys(few[0] as object)).toEqual([
    ...['id', 'group', 'family', 'prompt', 'completion', 'answer', 'solution'],
    ...['prompt_ids', 'completion_ids', 'logprobs', 'sigma', 'reward'],
  ]);
  expect(few.map(({ sigma }) => sigma)).toEqual(all.map(({ sigma }) => sigma));
  expect(all).toHaveLength(16);
  // what flags and estimators add is there whatever is named, and may be named, too
  const added = `score ${FIXTURES} --limit 2 --estimator pr --sigma share,rudder -o`;
  await done(`${added} named.parquet --columns sigma,sigma_rudder`);
  await done(`${added} whole.parquet`);
  const [named] = await rows<object>('named.parquet');
  expect(named).toHaveProperty('sigma_rudder');
  expect(named).not.toHaveProperty('status');
  await done('redistribute whole.parquet -o again.parquet --columns sigma,sigma_rudder');
  expect((await rows<object>('again.parquet'))[0]).toHaveProperty('sigma_rudder');
  await fails(`${added} no.parquet --columns sigma,exit_states`, 2, 'sigma_gain,status,sigma_rudder');
  const line = `segment ${FIXTURES} --no-policy --limit 1 --columns`;
  const { stdout } = await done(`${line} segments`);
  expect(Object.keys(JSON.parse(stdout))).not.toContain('status');
  await fails(`${line} sigma`, 2, 'try: --columns with some of');
});
