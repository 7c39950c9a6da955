// Rewards as dumps have them: ±1, other scales, verdicts. What is not 0 to 1 is mapped and said, or the run ends at once.
import { readFileSync, writeFileSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, test } from 'vitest';
import { rredcotHere } from '../support/in-process.js';
import { FIXTURES, type FixtureRow, readScored, rredcot, type ScoredRow } from '../support/program.js';
import { temporaryFolder } from '../support/temporary-folder.js';

const folder = await temporaryFolder();
const at = (name: string) => join(folder, name);
const fixtures = readFileSync(FIXTURES, 'utf8')
  .trimEnd()
  .split('\n')
  .slice(0, 24)
  .map((line) => JSON.parse(line) as FixtureRow);

/** The fixtures with other rewards, or whatever else is changed of a row. */
function dump(name: string, change: (row: FixtureRow, n: number) => object): string {
  const lines = fixtures.map((row, n) => JSON.stringify({ ...row, ...change(row, n) }));
  writeFileSync(at(name), `${lines.join('\n')}\n`);
  return at(name);
}
const signed = dump('signed.jsonl', ({ reward }) => ({ reward: 2 * reward - 1 }));
const plain = dump('plain.jsonl', () => ({}));
const ten = dump('ten.jsonl', ({ reward }) => ({ reward: 10 * reward }));
const graded = dump('graded.jsonl', ({ reward }, n) => ({ reward: n === 9 ? 0.25 : 2 * reward - 1 }));

async function score(input: string, ...flags: string[]) {
  await rm(at('out.parquet'), { force: true });
  return rredcotHere(['score', input, '-o', at('out.parquet'), ...flags]);
}
/** What credit rests on. */
const credits = (rows: readonly ScoredRow[]) =>
  rows.map(({ id, reward, baseline, sigma, status }) => ({ id, reward, baseline, sigma, status }));

describe('rewards of -1 and 1', () => {
  it('are mapped and said: the same credit as with 0 and 1, and the range is in the configuration', async () => {
    expect((await score(plain)).code).toBe(0);
    const expected = credits(await readScored(at('out.parquet')));
    const run = await score(signed);
    expect(run.code, run.stderr).toBe(0);
    expect(run.stderr).toContain('rewards of -1 count as 0, and of 1 as 1 (--reward-range -1,1)');
    expect(run.stderr).not.toContain('rejected');
    expect(credits(await readScored(at('out.parquet')))).toEqual(expected);
    const summary = JSON.parse(await readFile(at('out.parquet.summary.json'), 'utf8'));
    expect(summary.config.rewardRange).toEqual([-1, 1]);
    expect((await rredcotHere(['verify', at('out.parquet')])).code).toBe(0);
    // as with the flag, byte for byte
    const bytes = await readFile(at('out.parquet'));
    expect((await score(signed, '--reward-range', '-1,1')).code).toBe(0);
    expect((await readFile(at('out.parquet'))).equals(bytes)).toBe(true);
  });

  it('also where the first ones are all 1, and in workers', async () => {
    const right = fixtures.filter(({ reward }) => reward === 1);
    const wrong = fixtures.filter(({ reward }) => reward === 0).map((row) => ({ ...row, reward: -1 }));
    const lines = [...right, ...wrong].map((row) => JSON.stringify(row));
    writeFileSync(at('late.jsonl'), `${lines.join('\n')}\n`);
    const run = await rredcot(['score', at('late.jsonl'), '-o', at('late.parquet'), '--workers', '2']);
    expect(run.code, run.stderr).toBe(0);
    const rewards = (await readScored(at('late.parquet'))).map(({ reward }) => reward);
    expect(rewards).toEqual([...right.map(() => 1), ...wrong.map(() => 0)]);
  });

  it('end a stream at the first one', async () => {
    const stdin = await readFile(signed, 'utf8');
    const run = await rredcotHere(['score', '-', '-o', at('stream.parquet')], { stdin });
    expect(run.code).toBe(65);
    const first = fixtures.findIndex(({ reward }) => reward === 0);
    expect(run.stderr).toContain(`-:${first}: the reward is -1, expected 0 to 1`);
    expect(run.stderr).toContain('--reward-range -1,1');
  });
});

test.each([
  [
    '0 and 10',
    ten,
    /ten\.jsonl:0: the reward is 10, expected 0 to 1; .*from 0 to 10.*\n.*--reward-range 0,10/,
  ],
  [
    '-1, 1 and between',
    graded,
    /graded\.jsonl:9: the reward is 0\.25, expected -1 or 1; .*from -1 to 1.*\n.*--reward-range -1,1/,
  ],
  [
    '-1 alone',
    dump('wrong.jsonl', () => ({ reward: -1 })),
    /no reward is above -1; .*from -1 to -1.*\n.*--reward-range -1,1/,
  ],
])('rewards of %s end the run before anything is scored', async (_, input, message) => {
  for (const flags of [[], ['--dry-run'], ['--estimator', 'surprise', '-o', at('out.jsonl')]]) {
    const run = await score(input, ...flags);
    expect(run.code, run.stderr).toBe(65);
    expect(run.stderr).toMatch(message);
    await expect(readFile(at('out.parquet'))).rejects.toThrow();
  }
  const inspected = await rredcotHere(['inspect', input]);
  expect(inspected.stdout).toMatch(/missing +reward: score ends there: .*--reward-range/);
});

describe('a named range', () => {
  it('maps no verdict: true, false, and a column acc', async () => {
    const verdicts = dump('verdicts.jsonl', ({ reward }) => ({ reward: reward === 1 }));
    const acc = dump('acc.jsonl', ({ reward }) => ({ reward: undefined, acc: reward }));
    for (const [input, flags] of [
      [verdicts, []],
      [acc, ['--map', 'reward=acc']],
    ] as const) {
      const run = await score(input, '--reward-range', '-1,1', ...flags);
      expect(run.code, run.stderr).toBe(0);
      const rows = await readScored(at('out.parquet'));
      expect(rows.map(({ reward }) => reward)).toEqual(fixtures.map(({ reward }) => reward));
      expect((await rredcotHere(['verify', at('out.parquet')])).code).toBe(0);
    }
  });

  it('that makes a half of 0, where the rewards are 0 and 1, is an error, at the end of a stream too', async () => {
    const stdin = await readFile(plain, 'utf8');
    const ranged = ['-o', at('half.jsonl'), '--reward-range', '-1,1'];
    for (const [input, given] of [
      [plain, {}],
      ['-', { stdin }],
    ] as const) {
      const run = await rredcotHere(['score', input, ...ranged], given);
      expect(run.code).toBe(65);
      expect(run.stderr).toContain('0 would count as 0.5');
      await expect(readFile(at('half.jsonl'))).rejects.toThrow();
    }
    const right = stdin.replaceAll('"reward":0', '"reward":-1');
    const run = await rredcotHere(['score', '-', ...ranged], { stdin: right });
    expect(run.code, run.stderr).toBe(0);
  });

  it('rejects what lies outside, and warns where that is more than one in twenty', async () => {
    const run = await score(ten, '--reward-range', '-1,1');
    expect(run.code, run.stderr).toBe(0);
    const right = fixtures.filter(({ reward }) => reward === 1).length;
    expect(run.stderr).toMatch(
      new RegExp(
        `WARN: ${right} of ${fixtures.length} traces were rejected, most of them \\(${right}\\) with reward, first .*: the reward is 10, expected -1 to 1: --reward-range`,
      ),
    );
  });
});

describe('many rejects', () => {
  const cut = dump('cut.jsonl', (_, n) => (n % 8 === 3 ? { completion: '', completion_ids: [] } : {}));
  it.each([[[]], [['--workers', '2']], [['--shard', '0/1']]])('are warned of, with %j', async (flags) => {
    const out = at(`many-${flags.length}-${flags[0]}.parquet`);
    const run = await rredcot(['score', cut, '-o', flags[0] === '--shard' ? at('shard/') : out, ...flags]);
    expect(run.code, run.stderr).toBe(0);
    expect(run.stderr).toMatch(
      /WARN: 3 of 24 traces were rejected, most of them \(3\) with empty_completion, first .*:3:/,
    );
  });

  it('segment and streams warn, too; a few are no matter', async () => {
    const run = await rredcotHere(['segment', cut, '--no-policy', '-o', at('cut.segments.jsonl')]);
    expect(run.stderr).toMatch(/WARN: 3 of 24 traces were rejected/);
    const stdin = await readFile(cut, 'utf8');
    const stream = await rredcotHere(['score', '-', '-o', at('cut.parquet')], { stdin });
    expect(stream.stderr).toMatch(/WARN: 3 of 24 traces were rejected/);
    const one = dump('one.jsonl', (_, n) => (n === 3 ? { completion: '', completion_ids: [] } : {}));
    expect((await score(one)).stderr).not.toContain('traces were rejected');
  });
});
