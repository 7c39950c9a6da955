// Fixtures scored by the whole program, and each number compared with the float64 oracle's account of the same trace.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { loadOracleModel } from '../oracle/llama.js';
import { scoreTrace } from '../oracle/rredcot.js';
import { differences } from './family-checks.js';
import { rredcotHere } from './in-process.js';
import {
  EMBEDDED,
  FIXTURES,
  type FixtureRow,
  type Run,
  readScored,
  type ScoredRow,
  storedValues,
} from './program.js';
import { temporaryFolder } from './temporary-folder.js';

export const TOLERANCE = 1e-4;

const bytes = (text: string) => [...Buffer.from(text)];
/** The embedded tokenizer as its model card describes it: bytes, and two tags. */
export const tokenIds = (text: string) =>
  text
    .split(/(<think>|<\/think>)/)
    .flatMap((part) => (part === '<think>' ? [256] : part === '</think>' ? [257] : bytes(part)));

/** Traces spread over the fixtures, both families, right and wrong ones. */
export const spread = <T>(rows: readonly T[], n: number): T[] =>
  Array.from({ length: n }, (_, i) => rows[Math.floor((i * rows.length) / n)] as T);

export const exitTemplate = async () => {
  const { exitTemplate: exit } = JSON.parse(await readFile(join(EMBEDDED, 'policy.json'), 'utf8'));
  return { close: tokenIds(exit.close), open: tokenIds(exit.open), closer: tokenIds(exit.closer) };
};

export interface Fixtures {
  readonly rows: readonly FixtureRow[];
  /** the mean reward of a group */
  groupMean(group: string): number;
  pathOf(name: string): string;
  /** Scores the rows with flags, once a name; in order. */
  scored(name: string, flags?: readonly string[]): Promise<ScoredRow[]>;
}

/** @param every takes every second, third … group of the fixtures */
export async function openFixtures(every = 1): Promise<Fixtures> {
  const folder = await temporaryFolder();
  const lines = (await readFile(FIXTURES, 'utf8')).trimEnd().split('\n');
  const all = lines.map((line) => JSON.parse(line) as FixtureRow);
  const groups = [...new Set(all.map(({ group }) => group))].filter((_, n) => n % every === 0);
  const isTaken = ({ group }: FixtureRow) => groups.includes(group);
  const rows = all.filter(isTaken);
  const input = join(folder, 'fixtures.jsonl');
  await writeFile(input, `${lines.filter((_, i) => isTaken(all[i] as FixtureRow)).join('\n')}\n`);
  const pathOf = (name: string) => join(folder, `${name}.parquet`);
  const runs = new Map<string, Promise<Run>>();
  return {
    rows,
    groupMean(group) {
      const rewards = rows.filter((row) => row.group === group).map((row) => row.reward);
      return rewards.reduce((a, b) => a + b, 0) / rewards.length;
    },
    pathOf,
    async scored(name, flags = []) {
      const known =
        runs.get(name) ?? rredcotHere(['score', input, '-o', pathOf(name), ...flags], { cwd: folder });
      runs.set(name, known);
      const run = await known;
      expect(run.code, run.stderr).toBe(0);
      return readScored(pathOf(name));
    },
  };
}

/** (T) text positions of a fixture's tokens: bytes of ASCII text, tags of several characters, an end token of none. */
function spans(row: FixtureRow): [start: number, end: number][] {
  let at = 0;
  return row.completion_ids.map((id) => {
    const length = id === 256 ? '<think>'.length : id === 257 ? '</think>'.length : id === 258 ? 0 : 1;
    const start = at;
    at += length;
    return [start, at];
  });
}

/**
 * @param everyGroup of the fixtures' groups every first, second …
 * @param traces compared with the flags' defaults, and with few segments
 * @param others compared with each other set of flags
 */
export function describeAgainstOracle(everyGroup: number, traces: number, others: number): void {
  describe('score against the float64 oracle', () => {
    const model = loadOracleModel(EMBEDDED);
    let fixtures: Fixtures;
    let template: Awaited<ReturnType<typeof exitTemplate>>;
    beforeAll(async () => {
      fixtures = await openFixtures(everyGroup);
      template = await exitTemplate();
    });

    /** Compares a scored row with the oracle's account of the same trace. */
    function compare(
      row: ScoredRow,
      fixture: FixtureRow,
      opts: {
        maxSegments?: number;
        estimator?: 'pr' | 'pr-mean' | 'joint';
        rule?: 'rudder' | 'share';
        solution?: boolean;
        residual?: 'answer';
        within?: 'entropy';
      },
    ): { resegmented: boolean } {
      const input = {
        promptIds: fixture.prompt_ids,
        completionIds: fixture.completion_ids,
        text: fixture.completion,
        spans: spans(fixture),
        references: [
          {
            answerIds: tokenIds(fixture.answer),
            ...(opts.solution ? { solutionIds: tokenIds(fixture.solution) } : {}),
          },
        ],
        template,
        reward: fixture.reward,
        baseline: fixtures.groupMean(fixture.group),
        ...opts,
      };
      let oracle = scoreTrace(model, input);
      const ends = row.segments.map((segment) => segment.end);
      // entropies that agree to 1e-4 may still merge in another order where two sums are that close
      const resegmented = ends.join() !== oracle.segmentEnds.join();
      if (resegmented) {
        const thoughtEnds = row.segments.filter((s) => s.kind === 'thought').map((s) => s.end as number);
        oracle = scoreTrace(model, { ...input, thoughtEnds });
        expect(ends).toEqual(oracle.segmentEnds);
      }
      const values = storedValues(row);
      for (const name of ['logprobs', 'entropies'] as const)
        expect(differences(row[name], oracle[name]).most, name).toBeLessThan(TOLERANCE);
      expect(values.length).toBe(oracle.values.length);
      // log v̂ of a solution of n tokens sums n log-probabilities: 1e-4 relative to its size
      for (const [k, value] of values.entries())
        expect(Math.abs(value - (oracle.values[k] as number))).toBeLessThan(
          TOLERANCE * Math.max(1, Math.abs(value)),
        );
      for (const [k, delta] of oracle.deltas.entries())
        expect(Math.abs((row.segments[k]?.delta as number) - delta)).toBeLessThan(TOLERANCE);
      for (const [t, sigma] of row.sigma.entries()) {
        const expected = oracle.sigma[t] as number;
        expect(Math.abs(sigma - expected)).toBeLessThan(TOLERANCE * Math.max(1, Math.abs(expected)));
      }
      expect(row.status.startsWith('uniform:')).toBe(oracle.uniformBecause !== undefined);
      return { resegmented };
    }

    it(`log-probs, entropies, segments, values, differences and σ of ${traces} traces, 40 segments`, async () => {
      const rows = await fixtures.scored('whole', ['--estimator', 'pr']);
      let resegmented = 0;
      for (const [i, fixture] of spread(fixtures.rows, traces).entries()) {
        const row = spread(rows, traces)[i] as ScoredRow;
        expect(row.id).toBe(fixture.id);
        if (compare(row, fixture, { maxSegments: 40 }).resegmented) resegmented++;
      }
      expect(resegmented).toBe(0);
    });

    it('the same traces at --max-segments 4', async () => {
      const rows = await fixtures.scored('four', ['--estimator', 'pr', '--max-segments', '4']);
      let resegmented = 0;
      for (const [i, fixture] of spread(fixtures.rows, traces).entries()) {
        const row = spread(rows, traces)[i] as ScoredRow;
        expect(row.segments.filter((s) => s.kind === 'thought').length).toBeLessThanOrEqual(4);
        if (compare(row, fixture, { maxSegments: 4 }).resegmented) resegmented++;
      }
      expect(resegmented).toBeLessThanOrEqual(1);
    });

    it.each([
      ['pr-mean', 'rudder --within entropy', { rule: 'rudder', within: 'entropy' }],
      [
        'joint',
        'rudder --residual answer --max-segments 2',
        { solution: true, rule: 'rudder', residual: 'answer', maxSegments: 2 },
      ],
    ] as const)(`%s with its flags, ${others} traces`, async (name, flags, opts) => {
      const rows = await fixtures.scored(name, `--estimator ${name} --sigma ${flags}`.split(' '));
      for (const [i, fixture] of spread(fixtures.rows, others).entries())
        compare(spread(rows, others)[i] as ScoredRow, fixture, { estimator: name, ...opts });
    });
  });
}
