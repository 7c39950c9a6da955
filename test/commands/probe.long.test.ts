// `--estimator probe`: one command, or a fit that is kept; interrupted, without hidden states, and what it refuses.
import { cp, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { EMBEDDED, ROOT, readScored, start } from '../support/program.js';
import { fixtureRows, openScene } from '../support/scene.js';

const rows = await fixtureRows(0, 96);
const scene = await openScene();
const { at, done, expectSame, fails, json, folder, rows: rowsOf, write } = scene;
await write('in.jsonl', rows);

describe('score --estimator probe', () => {
  it('asks, fits and writes in one command as calibrate --probe does in three', async () => {
    const { stderr } = await done('score in.jsonl --estimator probe --keep-states -o kept.parquet');
    expect(stderr).toMatch(/probe: 96 traces of 12 groups; .* with hidden states \d\.\d+, without \d\.\d+/);
    await done('calibrate --probe kept.parquet -o probe.json');
    expect(await json('probe.json')).toMatchObject({
      estimator: 'probe',
      traces: 96,
      groups: 12,
      hidden: 256,
      layers: [3, 4],
    });
    const { stderr: told } = await done('score in.jsonl --estimator probe -o one.jsonl --log-json');
    const records = told
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line));
    // the time that the whole took is told, not that of its last stage
    const fitted = records.find(({ msg }) => /^probe: 96 traces/.test(msg));
    const { seconds, time } = records.at(-1);
    expect(time - 1000 * seconds).toBeLessThan(fitted.time);
    await done('score in.jsonl --estimator probe --calibration probe.json -o given.jsonl');
    await expectSame('one.jsonl', 'given.jsonl');
    const stream = await readFile(at('in.jsonl'));
    await done('score - --estimator probe --calibration probe.json -o stream.parquet', stream);
    const [file, ofStream] = [await readScored(at('kept.parquet')), await readScored(at('stream.parquet'))];
    expect(ofStream.map(({ sigma }) => sigma)).toEqual(file.map(({ sigma }) => sigma));
    expect((await readdir(folder)).filter((name) => name.startsWith('.'))).toEqual([]);
    expect((await done('score in.jsonl --estimator probe -o one.jsonl')).stderr).toContain('already done');
    expect((await done('verify kept.parquet')).code).toBe(0);
  });

  it('leaves in its file what pr and a calibration are made of', async () => {
    await done('score in.jsonl --estimator pr -o fresh.parquet');
    await done('redistribute kept.parquet --estimator pr -o of-probe.parquet');
    const [fresh, made] = [await readScored(at('fresh.parquet')), await readScored(at('of-probe.parquet'))];
    expect(made.map(({ sigma, status }) => [sigma, status])).toEqual(
      fresh.map(({ sigma, status }) => [sigma, status]),
    );
    for (const name of ['kept', 'fresh']) await done(`calibrate ${name}.parquet -o ${name}.json`);
    const [ofProbe, ofPr] = [await json('kept.json'), await json('fresh.json')];
    expect(ofProbe).toMatchObject({ estimator: 'pr', weights: ofPr.weights });
  });

  it('never lets a reward move the values of its own trace', async () => {
    const before = await readScored(at('kept.parquet'));
    const values = (all: typeof before, n: number) => all[n]?.segments.map(({ value }) => value);
    // what values are made of is chosen by all: here the choice is close, and a reward may turn it
    let same = 0;
    for (const turned of [3, 21, 56]) {
      await write(
        'turned.jsonl',
        rows.map((row, n) => (n === turned ? { ...row, reward: 1 - row.reward } : row)),
      );
      await done('score turned.jsonl --estimator probe -o turned.parquet --overwrite');
      const after = await readScored(at('turned.parquet'));
      if (after[0]?.status !== before[0]?.status) continue;
      same++;
      expect(values(after, turned)).toEqual(values(before, turned));
      // a peer of it, and traces of other folds, have seen it
      expect(values(after, turned + 1)).not.toEqual(values(before, turned + 1));
      const moved = after.filter((_, n) => values(after, n)?.join() !== values(before, n)?.join());
      expect(moved.length).toBeGreaterThan(48);
    }
    expect(same).toBeGreaterThan(0);
  });

  it('goes on where it was killed, asking nobody twice, with the same rows', async () => {
    const plan = { under: folder, op: 'rename', path: 'answers-64', nth: 0, when: 'before' };
    const args = ['score', 'in.jsonl', '--estimator', 'probe', '-o', at('killed.jsonl')];
    const { signal } = await start(args, { cwd: folder, plan }).end;
    expect(signal).toBe('SIGKILL');
    const blocks = () => readdir(at('.killed.jsonl.run'));
    expect((await blocks()).filter((name) => name.includes('answers'))).toEqual(['.run.answers-0.tmp']);
    // what somebody has changed meanwhile is asked anew, and tells nobody anything
    const kept = at('.killed.jsonl.run/.run.answers-0.tmp');
    const bytes = await readFile(kept);
    bytes.fill(0x55, 20_000, 20_400);
    await writeFile(kept, bytes);
    expect((await done(args)).stderr).not.toContain('asked before');
    await expectSame('killed.jsonl', 'one.jsonl');
    // what stands is not asked again, nor counted in the time
    const again = [...args.slice(0, -1), at('again.jsonl'), '--limit', '72'];
    await start(again, { cwd: folder, plan }).end;
    expect((await done(again)).stderr).toContain(
      '64 traces had been asked before: times are of this attempt',
    );
    const timed = async (name: string) => Object.keys(await json(`${name}.summary.json`)).includes('seconds');
    expect([await timed('killed.jsonl'), await timed('again.jsonl')]).toEqual([true, false]);
    expect((await readdir(folder)).filter((name) => name.startsWith('.'))).toEqual([]);
  });

  it('takes no fit to the hidden states of another policy, and fits nothing to those of two', async () => {
    await done(`policy build ${join(ROOT, 'models/hint')} -o hint`);
    const score = 'score in.jsonl --policy hint --estimator probe';
    await fails(`${score} --calibration probe.json -o no.parquet`, 2, 'of another policy');
    await done(`${score} --keep-states -o hint.parquet`);
    await fails('calibrate --probe kept.parquet hint.parquet -o no.json', 2, 'of several policies');
    await done('score in.jsonl --limit 16 --estimator probe --keep-states -o lines.jsonl');
    await fails('calibrate --probe lines.jsonl -o no.json', 2, 'in Parquet or Arrow');
  });

  it('is fitted without hidden states where the folder gives none, and refuses a fit that needs them', async () => {
    await cp(EMBEDDED, at('old'), { recursive: true });
    const { stateLayers: _, ...manifest } = await json('old/policy.json');
    await writeFile(at('old/policy.json'), JSON.stringify(manifest));
    const { stderr } = await done('score in.jsonl --policy old --limit 8 --estimator probe -o few.parquet');
    expect(stderr).toContain('rredcot policy build');
    expect(stderr).toContain('too few groups');
    expect((await readScored(at('few.parquet'))).map(({ status }) => status)).toEqual(
      Array(8).fill('value:uncalibrated'),
    );
    await fails(
      'score in.jsonl --policy old --estimator probe --calibration probe.json -o no.parquet',
      2,
      'policy build',
    );
  });

  it('is what auto takes, and where nothing can be fitted pr, to the byte', async () => {
    const command = 'score in.jsonl --estimator auto';
    expect((await done(`${command} -o auto.jsonl`)).stderr).toMatch(/auto takes probe\b/);
    await expectSame('auto.jsonl', 'one.jsonl');
    expect((await json('auto.jsonl.summary.json')).config).toMatchObject({ estimator: 'probe' });
    expect((await done(`${command} --limit 16 -o few.jsonl`)).stderr).toMatch(
      /auto takes pr: too few groups/,
    );
    await done('score in.jsonl --limit 16 --estimator pr -o plain.jsonl');
    await expectSame('few.jsonl', 'plain.jsonl');
    const { config } = await json('few.jsonl.summary.json');
    expect([config.estimator, config.steps]).toEqual(['pr', undefined]);
    // each other's files are told apart by the flag
    await fails(`${command} --limit 16 -o plain.jsonl`, 2, '--estimator is "pr", here it is "auto"');
    const asked = 'score in.jsonl --limit 16 --estimator pr';
    await fails(`${asked} -o few.jsonl`, 2, '--estimator is "auto", here it is "pr"');
    // of a fit that was made before it says the same
    await done('score in.jsonl --limit 16 --estimator probe --keep-states -o unfit.parquet');
    await done('calibrate --probe unfit.parquet -o unfit.json');
    const given = '--limit 8 --calibration unfit.json -o given-unfit.jsonl --overwrite';
    expect((await done(`${command} ${given}`)).stderr).toMatch(/auto takes pr: too few groups/);
    expect((await done(`score in.jsonl --estimator probe ${given}`)).stderr).toContain(
      'the probe stands back (too-few-groups): the values of pr stay as they are',
    );
    const stream = await readFile(at('in.jsonl'));
    expect((await done('score - --estimator auto -o s.jsonl', stream)).stderr).toContain(
      'takes pr: a stream',
    );
    expect((await done(`${command} --shard 0/2 -o shards/`)).stderr).toContain('takes pr: a shard');
  });

  it('follows a pass in shards by the hidden states that these keep, to the byte, and no pass by another policy', async () => {
    for (const shard of ['0/2', '1/2'])
      await done(`score in.jsonl --rows-per-part 64 --keep-states --shard ${shard} -o parts/`);
    await done('calibrate --probe parts/ -o parts.json');
    const again = 'redistribute parts/ --estimator probe --calibration';
    await done(`${again} parts.json -o of-parts.jsonl`);
    await expectSame('of-parts.jsonl', 'one.jsonl');
    // a fit of other traces gives other values, and says so of none
    await done(`${again} probe.json --sigma share,rudder -o rudder.parquet`);
    await done('redistribute rudder.parquet --sigma share -o shared.jsonl');
    const sigmas = async (name: string) => (await rowsOf(name)).map(({ sigma }) => sigma);
    expect(await sigmas('shared.jsonl')).toEqual(await sigmas('one.jsonl'));
    // a probe of its own file is replaced by another, and what that reads stays
    await done('score in.jsonl --limit 64 --estimator probe --keep-states -o less.parquet');
    await done('calibrate --probe less.parquet -o less.json');
    await done('redistribute kept.parquet --calibration less.json -o other.parquet');
    await done('redistribute other.parquet --calibration probe.json -o back.parquet');
    expect(await rowsOf('back.parquet')).toEqual(await rowsOf('kept.parquet'));
    await done('score in.jsonl --estimator pr -o bare/');
    await fails(
      `redistribute bare/ --estimator probe --calibration parts.json -o no.jsonl`,
      2,
      '--keep-states',
    );
    await fails('redistribute parts/ --estimator probe -o no.jsonl', 2, 'needs a calibration');
    await fails(
      'redistribute parts/ --estimator auto --calibration parts.json -o no.jsonl',
      2,
      'add --estimator calibrated, or probe',
    );
    await fails('redistribute hint.parquet --calibration probe.json -o no.jsonl', 2, 'of another policy');
    await fails('redistribute less.parquet --calibration probe.json -o no.jsonl', 65, 'mean of its groups');
  });

  it('takes rows without a reference in shards, too, and after pr says of none that it has no value', async () => {
    const bare = rows.map((row, n) => (n % 3 === 0 ? { ...row, answer: null, solution: null } : row));
    await write('bare.jsonl', bare);
    for (const shard of ['0/2', '1/2'])
      await done(`score bare.jsonl --rows-per-part 64 --keep-states --shard ${shard} -o bare-parts/`);
    await done('calibrate --probe bare-parts/ -o bare.json');
    await done('redistribute bare-parts/ --estimator probe --calibration bare.json -o of-bare-parts.jsonl');
    await done('score bare.jsonl --estimator probe -o of-bare.jsonl');
    await expectSame('of-bare-parts.jsonl', 'of-bare.jsonl');
    const statuses = (await rowsOf('of-bare.jsonl')).map(({ status }) => status);
    expect([statuses.length, statuses.filter((status) => status.includes('no-references'))]).toEqual([
      96,
      [],
    ]);
  });

  it('tells of graded rewards that lie between what a trace was worth and what its group earns', async () => {
    const graded = rows.map((row, n) => ({
      ...row,
      reward: row.reward === 1 ? 0.6 + (n % 7) / 20 : (n % 5) / 12,
    }));
    await write('graded.jsonl', graded);
    const { said } = await done('score graded.jsonl --estimator probe -o graded.parquet');
    expect(said).toContain('would move them the wrong way: --baseline group');
    const means = new Map<string, number>();
    for (const { group } of graded) {
      const own = graded.filter((row) => row.group === group);
      means.set(group as string, own.reduce((sum, { reward }) => sum + reward, 0) / own.length);
    }
    let turned = 0;
    for (const row of await readScored(at('graded.parquet'))) {
      const [reward, b, mean] = [
        row.reward as number,
        row.baseline as number,
        means.get(row.group as string) as number,
      ];
      const isTurned =
        (reward - mean) * (reward - b) < 0 && Math.min(Math.abs(reward - mean), Math.abs(reward - b)) > 0.05;
      expect(row.status.split(';').includes('baseline:turned'), row.id as string).toBe(isTurned);
      turned += Number(isTurned);
    }
    expect(turned).toBeGreaterThan(0);
    await done('redistribute graded.parquet --sigma signed -o stays.jsonl');
    expect((await rowsOf('stays.jsonl')).filter(({ status }) => status.includes('turned'))).toHaveLength(
      turned,
    );
    await done('redistribute graded.parquet --baseline group -o group.jsonl');
    expect((await rowsOf('group.jsonl')).some(({ status }) => status.includes('turned'))).toBe(false);
    expect((await done('verify graded.parquet')).stdout).toBe('');
  });

  it('refuses what it cannot see as a whole, and files that are no probe of it', async () => {
    const command = 'score in.jsonl --estimator probe';
    await fails(`${command} --shard 0/2 -o no/`, 2, 'a shard has some of them');
    await fails('score - --estimator probe -o no.parquet', 2, 'which stdin gives once', '');
    await done('score in.jsonl --estimator pr -o pr.parquet');
    await fails('calibrate --probe pr.parquet -o no.json', 2, 'has no column exit_states');
    // groups of another name, which --columns leaves out
    const named = rows.map(({ group, ...row }) => ({ ...row, problem: group }));
    await write('named.jsonl', named);
    const needed =
      'segments,logprobs,reward,id,reference_logprobs,reference_tokens,reference_utilities,entropies';
    const narrow = 'score named.jsonl --map group=problem --keep-states -o narrow.parquet --overwrite';
    await done(`${narrow} --columns segments`);
    await fails('calibrate --probe narrow.parquet -o no.json', 2, `with --columns ${needed},group`);
    await done(`${narrow} --columns ${needed}`);
    await fails('calibrate --probe narrow.parquet -o no.json', 2, 'has no column group,');
    await done('calibrate pr.parquet -o calibration.json');
    await fails(`${command} --calibration calibration.json -o no.parquet`, 2, 'is no probe');
    await write('edited.json', JSON.stringify({ ...(await json('probe.json')), traces: 97 }));
    await fails(`${command} --calibration edited.json -o no.parquet`, 65, 'was changed after it was written');
  });
});
