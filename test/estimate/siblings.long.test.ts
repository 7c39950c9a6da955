// `siblings`: peers found wherever they lie, what stands in their place, and how much room their tails take.
import { cp, rm } from 'node:fs/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { farPeers } from '../../dist/estimate/peers.js';
import { EMBEDDED, type FixtureRow, type ScoredRow, storedValues } from '../support/program.js';
import { editJson, fixtureRows, openScene } from '../support/scene.js';
import { fitted } from '../support/scored-traces.js';

type Row = ScoredRow & { readonly value_prior: number[]; readonly value_ess: number[] };

const TRACES = 16; // two groups of eight
const SIBLINGS = '--estimator siblings --calibration calibration.json';

const scene = await openScene();
const { at, done, expectSame, fails, joinParts, json, rows, write } = scene;
let fixtures: FixtureRow[];
let known: Row[];

beforeAll(async () => {
  fixtures = await fixtureRows(0, TRACES);
  await write('traces.jsonl', fixtures);
  await fitted(scene, 'calibration');
  await fitted(scene, 'none', () => ({ reward: 1 }));
  await done(`score traces.jsonl ${SIBLINGS} -o siblings.jsonl`);
  known = await rows<Row>('siblings.jsonl');
});

/** Traces have the values that they have among all others. */
function expectValues(found: readonly Row[], within = 5e-6): void {
  for (const row of found) {
    const own = known.find(({ id }) => id === row.id) as Row;
    for (const [k, value] of storedValues(own).entries())
      expect(Math.abs((storedValues(row)[k] as number) - value)).toBeLessThan(within);
  }
}

describe('siblings', () => {
  it('finds peers wherever they lie: other windows, chunks, shards; a trace has the same values', async () => {
    // no group in one window: every other row is of the same one
    const order = fixtures.map((_, n) => fixtures[(n % 2) * 8 + Math.floor(n / 2)] as FixtureRow);
    await write('mixed.jsonl', order);
    const score = `score mixed.jsonl ${SIBLINGS} --rows-per-part 4`;
    await done(`${score} -o mixed.out.jsonl`);
    const mixed = await rows<Row>('mixed.out.jsonl');
    expect(mixed.map(({ id }) => id)).toEqual(order.map(({ id }) => id));
    const status = new Map(known.map((row) => [row.id, row.status]));
    expect(mixed.map((row) => row.status)).toEqual(order.map(({ id }) => status.get(id)));
    expectValues(mixed);
    for (const shard of [0, 1]) await done(`${score} --shard ${shard}/2 --format jsonl -o parts/`);
    await joinParts('parts', 'merged.jsonl');
    await expectSame('merged.jsonl', 'mixed.out.jsonl');
  });

  it('gives a trace nearly the same values where all are there under a second id, and says so', async () => {
    const group = fixtures.slice(0, 8);
    await write('twice.jsonl', [...group, ...group.map((row) => ({ ...row, id: `${row.id} again` }))]);
    expect((await done(`score twice.jsonl ${SIBLINGS} -o twice.out.jsonl --log-json`)).said).toContain(
      '"same_completion"',
    );
    // what is drawn twice counts twice, beside a prior that does not; what nobody draws twice counts once
    expectValues((await rows<Row>('twice.out.jsonl')).slice(0, 8), 0.1);
    const pr = await done('score twice.jsonl -o pr.twice.jsonl --log-json');
    expect(pr.said).not.toContain('same_completion');
  });

  it('gives the traces before a limit the peers behind it', async () => {
    await done(`score traces.jsonl ${SIBLINGS} --limit 11 -o limited.jsonl`);
    const limited = await rows<Row>('limited.jsonl');
    expect(limited.map(({ id }) => id)).toEqual(fixtures.slice(0, 11).map(({ id }) => id));
    expectValues(limited);
  });

  it('says where there is no peer: the values are the calibrated ones', async () => {
    const alone = fixtures.slice(0, 3).map(({ group: _, ...row }) => row);
    await write('alone.jsonl', alone);
    await done(`score alone.jsonl ${SIBLINGS} -o alone.out.jsonl`);
    await done('score alone.jsonl --estimator calibrated --calibration calibration.json -o calibrated.jsonl');
    const calibrated = await rows('calibrated.jsonl');
    for (const [n, row] of (await rows<Row>('alone.out.jsonl')).entries()) {
      expect(row.status).toBe('siblings:no-peer');
      expect(storedValues(row)).toEqual(row.value_prior);
      expect(row.value_ess.every((ess) => ess === 0)).toBe(true);
      expect(storedValues(row)).toEqual(storedValues(calibrated[n] as ScoredRow));
    }
  });

  it('asks the policy for no more room than its traces and tails take: a short context', async () => {
    const policy = at('policy');
    await cp(EMBEDDED, policy, { recursive: true });
    await editJson(`${policy}/policy.json`, ({ architecture }) =>
      Object.assign(architecture as object, { maxTokens: 170 }),
    );
    const rejected = async (args: string): Promise<string[]> => {
      await rm(at('short.jsonl.rejects.jsonl'), { force: true });
      await done(`score ${args} --policy ${policy} --overwrite -o short.jsonl`);
      const found = await rows<Record<string, string>>('short.jsonl.rejects.jsonl').catch(() => []);
      return found.map(({ id, code, reason }) => `${id} ${code} ${reason}`);
    };
    await write('half.jsonl', fixtures.slice(0, 8));
    const byAnswers = await rejected('half.jsonl');
    expect(byAnswers.length).toBeGreaterThan(0);
    expect(byAnswers.length).toBeLessThan(8);
    expect(await rejected(`half.jsonl ${SIBLINGS} --peer-tokens 100`)).toEqual(byAnswers);

    // behind the many lines of the one the long ending of the other has no room: the policy takes so much less of it
    const line = (name: string) => `${name}: 4*2=8 top 8\n`;
    const row = (id: string, thought: string, ending: string) => {
      const { prompt_ids: _, completion_ids: __, ...rest } = { ...(fixtures[0] as FixtureRow), id };
      return { ...rest, completion: `<think>\n${thought}</think>\nanswer: 8\n${ending}` };
    };
    await write('pair.jsonl', [
      row('long thought', [...'abcde'].map(line).join(''), ''),
      row('long ending', line('a'), 'so far so good.\n'.repeat(4)),
    ]);
    const pair = (tokens: number) => rejected(`pair.jsonl ${SIBLINGS} --peer-tokens ${tokens}`);
    const [reason, ...others] = await pair(60);
    expect(others).toEqual([]);
    const [, lacking, fits] =
      /^long thought too_long .*takes 170 tokens, (\d+) too few: --peer-tokens (\d+), or --policy/.exec(
        reason as string,
      ) ?? [];
    expect(Number(lacking) + Number(fits)).toBe(60);
    expect(await pair(Number(fits) + 1)).toHaveLength(1);
    expect(await pair(Number(fits))).toEqual([]);
  });

  it("takes the group's mean as b where the calibration stands back, as pr does", async () => {
    await done('score traces.jsonl --limit 8 --estimator siblings --calibration none.json -o back.jsonl');
    const group = fixtures.slice(0, 8);
    const mean = Math.fround(group.reduce((sum, { reward }) => sum + reward, 0) / group.length);
    for (const { baseline, reference_logprobs: logprobs, ...row } of await rows<Row>('back.jsonl')) {
      expect([row.status, baseline]).toEqual(['value:uncalibrated', mean]);
      expect(row.value_prior).toEqual(logprobs.map(([lp]) => expect.closeTo(Math.exp(lp as number), 5)));
    }
    await done('redistribute back.jsonl --sigma rudder -o again-back.jsonl');
    for (const { baseline } of await rows('again-back.jsonl')) expect(baseline).toBe(mean);
  });

  it('is made again of its prior alone, on the scale of its rewards', async () => {
    const edited = known.map(({ value_prior: _, ...row }) => row);
    await write('edited.jsonl', edited);
    const { sha256: _, ...summary } = await json('siblings.jsonl.summary.json');
    await write('edited.jsonl.summary.json', JSON.stringify(summary));
    await fails('redistribute edited.jsonl -o no.jsonl', 2, 'has no value_prior');
  });

  it('refuses a pipe, in which peers that are still to come cannot be looked for', async () => {
    const asked = farPeers({ run: {} } as never, {} as never, new AbortController().signal);
    await expect(asked).rejects.toThrow('which a pipe gives once');
    await fails(`score - ${SIBLINGS} -o no.jsonl`, 2, 'which stdin gives once');
  });
});
