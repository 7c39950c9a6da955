// The whole program on the fixtures: every number against the float64 oracle, every invariant of the file.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { openPolicyFolder } from '../dist/policy/folder.js';
import { PolicySession } from '../dist/policy/session.js';
import { readWithHyparquet } from './io-helpers.js';
import { loadOracleModel, type OracleModel } from './oracle/llama.js';
import { scoreTrace } from './oracle/rredcot.js';
import {
  EMBEDDED,
  FIXTURES,
  type FixtureRow,
  type Run,
  readJsonl,
  readScored,
  rredcot,
  type ScoredRow,
  storedValues,
  temporaryFolder,
} from './program.js';

const TOLERANCE = 1e-4;
const ORACLE_TRACES = 104;

const bytes = (text: string) => [...Buffer.from(text)];
/** The embedded tokenizer as its model card describes it: bytes, and two tags. */
const tokenIds = (text: string) =>
  text
    .split(/(<think>|<\/think>)/)
    .flatMap((part) => (part === '<think>' ? [256] : part === '</think>' ? [257] : bytes(part)));

let folder: string;
let fixtures: FixtureRow[];
let model: OracleModel;
let template: { close: number[]; open: number[]; closer: number[] };

/** Scores the fixtures with flags, once a name; the rows in order. */
function scored(name: string, flags: readonly string[] = []): Promise<ScoredRow[]> {
  const path = join(folder, `${name}.parquet`);
  const known = runs.get(name) ?? rredcot(['score', FIXTURES, '-o', path, ...flags], { cwd: folder });
  runs.set(name, known);
  return known.then((run) => {
    expect(run.code, run.stderr).toBe(0);
    return readScored(path);
  });
}
const runs = new Map<string, Promise<Run>>();

/** Every group's mean reward, from the fixtures. */
function groupMean(group: string): number {
  const rewards = fixtures.filter((row) => row.group === group).map((row) => row.reward);
  return rewards.reduce((a, b) => a + b, 0) / rewards.length;
}

/** Traces spread over the fixtures, both families, right and wrong ones. */
const spread = <T>(rows: readonly T[], n: number): T[] =>
  Array.from({ length: n }, (_, i) => rows[Math.floor((i * rows.length) / n)] as T);

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

beforeAll(async () => {
  folder = await temporaryFolder();
  fixtures = await readJsonl<FixtureRow>(FIXTURES);
  model = loadOracleModel(EMBEDDED);
  const exit = JSON.parse(await readFile(join(EMBEDDED, 'policy.json'), 'utf8')).exitTemplate;
  template = { close: tokenIds(exit.close), open: tokenIds(exit.open), closer: tokenIds(exit.closer) };
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
    baseline: groupMean(fixture.group),
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
  expect(row.logprobs.length).toBe(fixture.completion_ids.length);
  for (const t of row.logprobs.keys()) {
    expect(Math.abs((row.logprobs[t] as number) - (oracle.logprobs[t] as number))).toBeLessThan(TOLERANCE);
    expect(Math.abs((row.entropies[t] as number) - (oracle.entropies[t] as number))).toBeLessThan(TOLERANCE);
  }
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

describe('score against the float64 oracle', () => {
  it(`log-probs, entropies, segments, values, differences and σ of ${ORACLE_TRACES} traces, 40 segments`, async () => {
    const rows = await scored('whole');
    let resegmented = 0;
    for (const [i, fixture] of spread(fixtures, ORACLE_TRACES).entries()) {
      const row = spread(rows, ORACLE_TRACES)[i] as ScoredRow;
      expect(row.id).toBe(fixture.id);
      if (compare(row, fixture, { maxSegments: 40 }).resegmented) resegmented++;
    }
    expect(resegmented).toBe(0);
  }, 240_000);

  it(`the same traces at --max-segments 4`, async () => {
    const rows = await scored('four', ['--max-segments', '4']);
    let resegmented = 0;
    for (const [i, fixture] of spread(fixtures, ORACLE_TRACES).entries()) {
      const row = spread(rows, ORACLE_TRACES)[i] as ScoredRow;
      expect(row.segments.filter((s) => s.kind === 'thought').length).toBeLessThanOrEqual(4);
      if (compare(row, fixture, { maxSegments: 4 }).resegmented) resegmented++;
    }
    expect(resegmented).toBeLessThanOrEqual(1);
  }, 240_000);

  it.each([
    ['pr-mean', ['--estimator', 'pr-mean', '--sigma', 'share'], { estimator: 'pr-mean', rule: 'share' }],
    [
      'joint',
      ['--estimator', 'joint', '--residual', 'answer', '--max-segments', '4'],
      { estimator: 'joint', solution: true, residual: 'answer', maxSegments: 4 },
    ],
    ['within', ['--within', 'entropy', '--sigma', 'rudder'], { within: 'entropy' }],
  ] as const)(
    '%s with its flags, 12 traces',
    async (name, flags, opts) => {
      const rows = await scored(name, flags);
      for (const [i, fixture] of spread(fixtures, 12).entries())
        compare(spread(rows, 12)[i] as ScoredRow, fixture, opts);
    },
    120_000,
  );
});

describe('the scored file', () => {
  let rows: ScoredRow[];
  beforeAll(async () => {
    rows = await scored('whole');
  });

  it('holds every trace once, in input order, with its ids untouched', () => {
    expect(rows.map((row) => row.id)).toEqual(fixtures.map((row) => row.id));
    for (const [i, row] of rows.entries()) {
      expect(row.completion_ids).toEqual(fixtures[i]?.completion_ids);
      expect(row.prompt_ids).toEqual(fixtures[i]?.prompt_ids);
      expect(row.source_row).toBe(BigInt(i));
      expect(row.reward).toBe(fixtures[i]?.reward);
      expect(row.baseline).toBe(Math.fround(groupMean(row.group as string)));
    }
  });

  it('is the same for two independent readers', async () => {
    const other = await readWithHyparquet(join(folder, 'whole.parquet'));
    expect(other.map((row) => plainRow(row))).toEqual(rows.map((row) => plainRow({ ...row })));
  });

  it('has Σσ = 1 in every row, as stored', () => {
    for (const { sigma } of rows) {
      const sum = sigma.reduce((a, b) => a + b, 0);
      const mass = sigma.reduce((a, b) => a + Math.abs(b), 0);
      expect(Math.abs(sum - 1)).toBeLessThanOrEqual(1e-6 * Math.max(1, mass));
    }
  });

  it('has segments that tile the completion in tokens and in characters', () => {
    for (const row of rows) {
      expect(row.segments[0]?.start).toBe(0);
      expect(row.segments[0]?.char_start).toBe(0);
      expect(row.segments.at(-1)?.end).toBe(row.completion_ids.length);
      expect(row.segments.at(-1)?.char_end).toBe([...row.completion].length);
      for (const [k, segment] of row.segments.slice(1).entries()) {
        expect(segment.start).toBe(row.segments[k]?.end);
        expect(segment.char_start).toBe(row.segments[k]?.char_end);
      }
    }
  });

  it('says where σ is uniform, and only there it is', () => {
    for (const row of rows) {
      const T = row.completion_ids.length;
      const uniform = row.sigma.every((sigma) => sigma === Math.fround(1 / T));
      expect(uniform, row.id).toBe(row.status !== 'ok');
      expect(row.sigma_max_weight).toBeCloseTo(Math.max(...row.sigma.map((s) => Math.abs(s))) * T, 4);
      expect(row.sigma_ess).toBeCloseTo(1 / row.sigma.reduce((a, s) => a + s * s, 0), 3);
    }
    expect(rows.some((row) => row.status === 'ok')).toBe(true);
    expect(rows.some((row) => row.status === 'uniform:small-return')).toBe(true);
  });

  it('sums each reference at every exit, and the values follow from the sums', () => {
    for (const row of rows) {
      const values = storedValues(row);
      expect(row.reference_logprobs.length).toBe(values.length);
      for (const [k, sums] of row.reference_logprobs.entries())
        expect(
          sums.reduce((a, lp, n) => a + (row.reference_utilities[n] as number) * Math.exp(lp), 0),
        ).toBeCloseTo(values[k] as number, 5);
    }
  });

  it('is the same, byte for byte, when it is made again', async () => {
    await scored('again');
    const [a, b] = await Promise.all(
      ['whole', 'again'].map((name) => readFile(join(folder, `${name}.parquet`))),
    );
    expect((a as Buffer).equals(b as Buffer)).toBe(true);
  });
});

describe('branch scores', () => {
  it('equal naive re-encoding of every prefix', async () => {
    const rows = await scored('whole');
    const session = await PolicySession.open(await openPolicyFolder(EMBEDDED));
    try {
      for (const [i, fixture] of spread(fixtures, 24).entries()) {
        const row = spread(rows, 24)[i] as ScoredRow;
        const scoredIds = [...tokenIds(fixture.answer), ...template.closer];
        const exits = [2, ...row.segments.filter((s) => s.kind === 'thought').map((s) => s.end as number)];
        for (const [k, exit] of exits.entries()) {
          const prefix = [
            ...fixture.prompt_ids,
            ...fixture.completion_ids.slice(0, exit),
            ...template.close,
            ...template.open,
          ];
          const ids = Int32Array.from([...prefix, ...scoredIds]);
          const [reread] = await session.run([{ ids, promptLength: prefix.length, branches: [] }]);
          expect(reread?.logprobs).toHaveLength(scoredIds.length);
          const naive = reread?.logprobs.reduce((a, lp) => a + lp, 0) as number;
          expect(Math.abs((row.reference_logprobs[k]?.[0] as number) - naive)).toBeLessThan(TOLERANCE);
        }
      }
    } finally {
      await session.close();
    }
  }, 120_000);
});

/** Lists as plain arrays, int64 as numbers: what the two readers have in common. */
function plainRow(row: Record<string, unknown>): unknown {
  return JSON.parse(
    JSON.stringify(row, (_, value: unknown) => (typeof value === 'bigint' ? Number(value) : value)),
  );
}
