// What `redistribute` makes of a scored file is what `score` would have made of its input with the same flags, byte for byte.
import { copyFile, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { SIGMA_RULES } from '../../dist/credit/rules.js';
import { hashSaid } from '../../dist/io/files/facts.js';
import { readMetadata } from '../support/io-helpers.js';
import { ROOT } from '../support/program.js';
import { editJson, fixtureRows, openScene } from '../support/scene.js';

const { at, config, done, expectSame, fails, rows, text, write } = await openScene();
const score = (flags: string) => done(`score traces.jsonl --max-segments 6 ${flags}`);
const keysOf = async (name: string) => (await readMetadata(at(name))).keys;

/** a group of four, and two of the next: right, wrong and compared rewards, a cut trace, wrong references too */
beforeAll(async () => {
  const traces = (await fixtureRows(4, 10)).map(({ answer, ...row }, n) => ({
    ...row,
    references: [{ answer }, { answer: `${(Number(answer) + 1) % 10}`, utility: 0 }],
    ...(n === 1 ? { reward: null } : {}),
    ...(n === 5 ? { reward: null, completion: '<think>\na', completion_ids: null } : {}),
    note: { odd: n % 2 === 1 },
  }));
  await write('traces.jsonl', traces);
  await score('-o scored.jsonl');
});

describe('a redistributed file', () => {
  it.each([
    ['all rules, the group mean', `--sigma ${SIGMA_RULES.join()}`],
    ['another baseline', '--sigma rudder,share,softmax --baseline value --residual answer'],
    ['a number, shaped', '--sigma signed,softmax --baseline .25 --tau .2 --steps smoothed'],
    [
      'another estimator, the peers',
      '--estimator pr-geo --within unsure --mix .8 --cap 4 --steps scaled --baseline rloo',
    ],
    ['right against wrong', '--estimator snis --sigma share,rudder --baseline group'],
  ])('%s: is what score would have written', async (name, flags) => {
    const [fresh, made, back] = ['fresh', 'made', 'back'].map(
      (each) => `${name.replaceAll(/\W/g, '')}.${each}.jsonl`,
    );
    await score(`${flags} -o ${fresh}`);
    await done(`redistribute scored.jsonl ${flags} -o ${made}`);
    await expectSame(made as string, fresh as string);
    expect((await done(`verify ${made}`)).stdout).toBe('');
    // and from that file again, what there was at first: a rule begins anew
    const first = '--estimator pr --sigma share --baseline auto --within uniform --steps free';
    await done(`redistribute ${made} ${first} -o ${back}`);
    expect((await rows(back as string))[0]).toMatchObject((await rows('scored.jsonl'))[0] as object);
    // what it says of itself is what it is: nothing of the credit between is left
    const said = ({ mix, cap, tau, steps, rule }: Record<string, unknown>) => ({
      mix,
      cap,
      tau,
      steps,
      rule,
    });
    expect(said(await config(back as string))).toEqual(said(await config('scored.jsonl')));
    await done(`redistribute ${back} -o again.${back}`);
    expect((await rows(`again.${back}`))[0]).toMatchObject((await rows('scored.jsonl'))[0] as object);
  });

  it('with the peers for a baseline has R* n/(n − 1) times that of the group, and keeps what it has stored', async () => {
    const flags = '--sigma rudder --baseline rloo';
    await done(`redistribute scored.jsonl ${flags} -o rloo.jsonl`);
    const [scored, made] = [await rows('scored.jsonl'), await rows('rloo.jsonl')];
    for (const [n, { baseline, reward }] of made.entries()) {
      const of = (b: number | null) => (reward as number) - (b as number);
      const size = n < 4 ? 4 : 2;
      expect(of(baseline)).toBeCloseTo((of(scored[n]?.baseline as number) * size) / (size - 1), 6);
      const peers = made.filter((_, i) => i !== n && i < 4 === n < 4);
      const sum = peers.reduce((total, peer) => total + (peer.reward as number), 0);
      expect(Math.fround(baseline as number)).toBe(Math.fround(sum / peers.length));
    }
    // a part knows what it has stored, and no other mean
    const part = async (of: string) => done(`filter ${of}.jsonl --where 'reward == 1' -o ${of}-part.jsonl`);
    const unknown = "the mean of its groups' rewards is not known";
    await part('rloo');
    await done('redistribute rloo-part.jsonl --sigma share -o shared.jsonl');
    const right = made.filter(({ reward }) => reward === 1);
    expect((await rows('shared.jsonl')).map(({ baseline }) => baseline)).toEqual(
      right.map(({ baseline }) => baseline),
    );
    expect(right.length).toBeLessThan(made.length);
    for (const other of ['group', 'auto'])
      await fails(`redistribute rloo-part.jsonl --baseline ${other}`, 65, unknown);
    await part('scored');
    await fails('redistribute scored-part.jsonl --baseline rloo', 65, unknown);
  });

  it('of Parquet has the columns of a fresh one, says what it was made of, and passes verify', async () => {
    await score('-o source.parquet');
    await score('-o fresh.parquet --sigma rudder');
    await done('redistribute source.parquet -o again.parquet --sigma rudder');
    expect(await rows('again.parquet')).toEqual(await rows('fresh.parquet'));
    const [before, made, wanted] = [
      await keysOf('source.parquet'),
      await keysOf('again.parquet'),
      await keysOf('fresh.parquet'),
    ];
    for (const key of ['rredcot.policy.sha256', 'rredcot.text', 'rredcot.inputs'])
      expect(made.get(key), key).toBe(wanted.get(key));
    expect(made.get('rredcot.run')).not.toBe(before.get('rredcot.run'));
    expect(JSON.parse(made.get('rredcot.redistributed') as string)).toMatchObject({
      run: before.get('rredcot.run'),
      sha256: hashSaid(before),
      credit: { rule: 'share' },
    });
    await done('verify again.parquet');
    // its configuration is one that score takes
    expect(await config('again.parquet')).toEqual(await config('fresh.parquet'));
  });

  it('maps no rewards onto another range, and auto is the one that the file has', async () => {
    await fails(
      'redistribute scored.jsonl -o none.jsonl --reward-range -1,1',
      2,
      '--reward-range -1,1: the rewards of scored.jsonl were mapped from 0,1 when it was scored',
    );
    const signed = (await rows('traces.jsonl')).slice(0, 5);
    await write(
      'signed.jsonl',
      signed.map((row) => ({ ...row, reward: row.reward === null ? null : 2 * row.reward - 1 })),
    );
    await done('score signed.jsonl -o signed.scored.jsonl');
    await done('redistribute signed.scored.jsonl --reward-range auto -o auto.jsonl');
    await expectSame('auto.jsonl', 'signed.scored.jsonl');
  });

  it('of a run folder is that of the file', async () => {
    await score('-o run/ --rows-per-part 2');
    await score('-o whole.parquet --rows-per-part 2');
    for (const from of ['run', 'whole.parquet'])
      await done(`redistribute ${from} --sigma softmax -o of-${from}.jsonl`);
    expect(await rows('of-run.jsonl')).toHaveLength(6);
    expect(await text('of-run.jsonl')).toBe(await text('of-whole.parquet.jsonl'));
  });

  it('on stdout is what score prints, as an Arrow stream with its metadata too', async () => {
    const flags = '--sigma rudder,share -o - --quiet';
    const fresh = await score(flags);
    const again = await done(`redistribute source.parquet ${flags}`);
    expect(fresh.stdout.length).toBeGreaterThan(10_000);
    expect(again.stdout === fresh.stdout).toBe(true);
  });
});

describe('what stored values do not allow', () => {
  it.each([
    ['--estimator pr-mean', /single tokens.*not stored/],
    ['--estimator joint --baseline group', /pr has scored answers, and joint needs continuations/],
    ['--estimator given', /do not follow from what is stored/],
    ['--tau 2', /--tau has no meaning with --sigma share/],
    ['--method segment', /no expected rewards/],
    ['--columns prompt', /--columns prompt: is none of the columns/],
    ['--drop notes', /--drop note/],
    ['-o out/', /writes one file/],
    ['-o scored.jsonl', /is an input, or has one, and would be lost/],
  ])('%s is refused by name', async (flags, why) => {
    await fails(`redistribute scored.jsonl ${flags}`, 2, why);
  });

  it('what an earlier version made with a flag that is gone is refused', async () => {
    for (const ending of ['', '.summary.json'])
      await copyFile(at(`scored.jsonl${ending}`), at(`gone.jsonl${ending}`));
    await editJson(at('gone.jsonl.summary.json'), ({ config }) =>
      Object.assign(config as object, { penalty: 2 }),
    );
    await fails(
      'redistribute gone.jsonl -o never.jsonl',
      2,
      'was scored in a way that this version does not know: --penalty 2',
    );
  });

  it('files that are none, or not as they were written, are told', async () => {
    await done('segment traces.jsonl --no-policy -o cut.parquet');
    await mkdir(at('mixed'));
    for (const name of ['source', 'again'])
      await copyFile(at(`${name}.parquet`), at(`mixed/${name}.parquet`));
    await score('-o few.parquet --columns id,sigma,status');
    const scored = await text('scored.jsonl');
    for (const ending of ['', '.summary.json'])
      await copyFile(at(`scored.jsonl${ending}`), at(`copy.jsonl${ending}`));
    await write('copy.jsonl', scored.replace('"reward":1', '"reward":0'));
    for (const [path, code, why] of [
      [
        join(ROOT, 'test/files/types.parquet'),
        2,
        /types\.parquet: nothing says that rredcot score has made it, its metadata have no/,
      ],
      ['traces.jsonl', 2, /neither a run nor traces\.jsonl\.summary\.json beside it.*rredcot score /s],
      ['-', 2, /stdin cannot be/],
      ['cut.parquet', 2, /was made by rredcot segment/],
      ['mixed', 2, /is of another run than/],
      ['few.parquet', 2, /has no segments, value_start, reward, baseline, reference_utilities, group,/],
      ['copy.jsonl', 65, /is not the file that was written/],
    ] as const)
      await fails(`redistribute ${path} -o never.jsonl`, code, why);
    // without a hash its rows are looked at
    await editJson(at('copy.jsonl.summary.json'), (summary) => delete summary.sha256);
    await write('copy.jsonl', scored.replace(/"value":0\.\d+/, '"value":null'));
    await done('redistribute copy.jsonl -o most.jsonl');
    const [reject] = await rows('most.jsonl.rejects.jsonl');
    expect(reject).toMatchObject({
      code: 'scored',
      reason: expect.stringMatching(/segments\[\d\]\.value is null/),
    });
    expect(await rows('most.jsonl')).toHaveLength(5);
  });
});
