// What `npm run fidelity` computes by itself, against enumeration, resampling, projections, and by hand.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { centredPearson } from '../oracle/compare.js';
import { seeded } from '../oracle/toy.js';
import { FIXTURES, type FixtureRow, ROOT, readJsonl } from '../support/program.js';
import { madeTraces, scoredLine } from '../support/scored-traces.js';

// JavaScript without types: bench is run as it is
const part = (name: string) => import(join(ROOT, `bench/fidelity/${name}.mjs`));
const { bestCut, kept, keptOf, keptWithin, valueCurve } = await part('cuts');
const { ceilingWithInterval } = await part('ceiling');
const samples = await part('samples');
const { fineRows, sampledEnds, splitGroups } = await part('traces');
const { firstMistake } = await part('known-lines');
const { featureStudy } = await part('feature-study');
const { figuresOf, measuredPart, storedFigures } = await part('page');
const { csvOf, policyRows } = await part('tables');

const random = seeded(7);
const curveOf = (n: number) => Float64Array.from({ length: n + 1 }, random);
const everyToken = (n: number) => Array.from({ length: n }, (_, t) => t + 1);

/** All cuts of n tokens into K segments. */
function allCuts(n: number, K: number): number[][] {
  if (K === 1) return [[n]];
  return Array.from({ length: n - 1 }, (_, i) => i + 1).flatMap((last) =>
    last < K - 1 ? [] : allCuts(last, K - 1).map((cuts) => [...cuts, n]),
  );
}

describe('cuts', () => {
  it('keep what is left of the credit when each segment spreads its difference evenly', () => {
    const curve = curveOf(6);
    const cuts = [1, 4, 6];
    const spread = [0, 1, 1, 1, 2, 2].map((k) => {
      const [from, to] = [[0, 1, 4][k] as number, cuts[k] as number];
      return ((curve[to] as number) - (curve[from] as number)) / (to - from);
    });
    expect(kept(curve, curve, cuts)).toBeCloseTo(
      spread.reduce((sum, x) => sum + x * x, 0),
      12,
    );
    const changes = everyToken(6).map((t) => (curve[t] as number) - (curve[t - 1] as number));
    expect(kept(curve, curve, everyToken(6))).toBeCloseTo(
      changes.reduce((sum, x) => sum + x * x, 0),
      12,
    );
  });

  it('with weights inside give what a token gets: even ones as above, all of it where they are the credit itself', () => {
    const [curve, cuts] = [curveOf(6), [2, 6]];
    const [along, own] = keptWithin(curve, curve, cuts, new Float64Array(6).fill(1));
    expect(along).toBeCloseTo(kept(curve, curve, cuts), 12);
    expect(own).toBeCloseTo(along, 12);
    // by hand: .3 falls on the second token of the first two, -.4 on all of the last two, a quarter on the first of them
    const steps = Float64Array.of(0.2, 0.2, 0.5, 0.4, 0.1);
    const weights = Float64Array.of(0, 2, 0.5, 1.5);
    const truth = keptWithin(steps, steps, [2, 4], weights);
    expect(truth[0]).toBeCloseTo(0.3 ** 2 + 0.1 ** 2 + 0.3 ** 2, 12);
    expect(truth[1]).toBeCloseTo(truth[0], 12);
    const other = Float64Array.of(0.2, 0.4, 0.4, 0.5, 0.6);
    // given .3 · 2/2 and -.4/2 · (.5, 1.5), held against (.2, 0, .1, .1); with itself by .2 and .2 of the other
    const [mixed, both] = keptWithin(steps, other, [2, 4], weights);
    expect(mixed).toBeCloseTo(0.3 * 0 + -0.1 * 0.1 + -0.3 * 0.1, 12);
    expect(both).toBeCloseTo(0.15 * 0.1 * 4 + -0.2 * 0.1 * (0.25 + 2.25), 12);
  });

  it('of dynamic programming are the best of all cuts', () => {
    for (const n of [1, 2, 5, 8])
      for (let K = 1; K <= n; K++) {
        const curve = curveOf(n);
        const best = Math.max(...allCuts(n, K).map((cuts) => kept(curve, curve, cuts) as number));
        const found = bestCut(curve, K);
        expect(found).toHaveLength(K);
        expect(kept(curve, curve, found)).toBeCloseTo(best, 12);
      }
    expect(bestCut(curveOf(3), 9)).toEqual([1, 2, 3]);
  });

  it('are judged by completions that did not choose them, without a part for noise', () => {
    // it rises evenly, so that any cut keeps all of it
    const [truth, cuts] = [Float64Array.from({ length: 13 }, (_, t) => t / 12), [4, 8, 12]];
    const sums = [0, 0];
    const own = [0, 0];
    for (let n = 0; n < 4000; n++) {
      const noisy = () => truth.map((value) => value + (random() - 0.5) / 2);
      const curves = [noisy(), noisy(), noisy(), noisy()];
      const seen: string[] = [];
      const [part, all] = keptOf(curves, (a: number, b: number) => {
        seen.push(`${a}${b}`);
        return cuts;
      });
      if (n === 0) expect(seen).toEqual(['01', '02', '03', '12', '13', '23']);
      sums[0] = (sums[0] as number) + part;
      sums[1] = (sums[1] as number) + all;
      own[0] = (own[0] as number) + kept(curves[0], curves[0], cuts);
      own[1] = (own[1] as number) + kept(curves[0], curves[0], everyToken(12));
    }
    expect((sums[1] as number) / 24000).toBeCloseTo(1 / 12, 2);
    expect((sums[0] as number) / (sums[1] as number)).toBeCloseTo(1, 1);
    // a curve with itself has one
    expect((own[0] as number) / (own[1] as number)).toBeLessThan(0.3);
  });

  it('are judged by the two quarters that nobody looked at', () => {
    const base = curveOf(5);
    const curves = [2, 3, 5, 7].map((scale) => base.map((value) => scale * value));
    const fine = kept(base, base, everyToken(5));
    const coarse = kept(base, base, [5]);
    const [part, all] = keptOf(curves, (a: number, b: number) => (a === 0 && b === 1 ? everyToken(5) : [5]));
    expect(part).toBeCloseTo(5 * 7 * fine + (6 + 10 + 14 + 15 + 21) * coarse, 10);
    expect(all).toBeCloseTo((35 + 6 + 10 + 14 + 15 + 21) * fine, 10);
  });

  it('look for the value of a boundary at the next exit', () => {
    expect([...valueCurve([2, 5, 6, 9], [0.1, 0.2, 0.3, 0.4])]).toEqual([
      0.1, 0.2, 0.2, 0.2, 0.3, 0.4, 0.4, 0.4,
    ]);
  });
});

/** A trace of three exits with the utilities and lengths of its completions. */
function sampledRow(utilities: (number | null)[][], lengths: number[][]) {
  const value = (k: number) =>
    (utilities[k] as (number | null)[]).reduce<number>((sum, u) => sum + (u ?? 0), 0) /
    (utilities[k] as unknown[]).length;
  const of = utilities.flatMap((own, exit) =>
    own.map((utility, m) => {
      const length = lengths[exit]?.[m] as number;
      return {
        exit,
        utility,
        completion_ids: new Array(length).fill(1),
        finish_reason: utility === null ? 'length' : 'stop',
      };
    }),
  );
  const segments = [4, 9].map((end, k) => ({ kind: 'thought', end, value: value(k + 1) }));
  const answer = { kind: 'answer', end: 12, value: null };
  return { id: 'a', value_start: value(0), segments: [...segments, answer], samples: of };
}

describe('completions', () => {
  const row = sampledRow(
    [
      [1, 0, 1, 1],
      [1, null, 1, 0],
      [0, 0, 1, 1],
    ],
    [
      [9, 12, 20, 8],
      [5, 30, 8, 7],
      [3, 4, 3, 4],
    ],
  );

  it('give the values that the program stored, and others are refused', () => {
    const compact = samples.compactSamples(row);
    expect(compact).toMatchObject({ ends: [null, 4, 9], written: 113 });
    expect(samples.valuesBy(compact, 0, 4)).toEqual([0.75, 0.5, 0.5]);
    expect(samples.valuesBy(compact, 2, 4)).toEqual([1, 0.5, 1]);
    expect(() => samples.compactSamples({ ...row, value_start: 0.5 })).toThrow(
      'a: exit 0 has the value 0.5, its 4 completions 0.75',
    );
    expect(samples.atEnds(compact, [9])).toMatchObject({ ends: [null, 9] });
    expect(() => samples.atEnds(compact, [5])).toThrow('a: no completions at token 5');
  });

  it('that are cut off count 0, and those that a limit has cut already are longer than any', () => {
    const compact = samples.compactSamples(row);
    expect(samples.truncatedValues(compact, 8, 0, 4)).toEqual([0.25, 0.5, 0.5]);
    expect(samples.truncatedValues(compact, 7, 0, 4)).toEqual([0, 0.25, 0.5]);
    // what is left of the trace itself: 10, 8 and 3 tokens from exits at 2, 4 and 9
    const trace = { ...compact, start: 2, tokens: 12 };
    expect(samples.lostBy([trace], 8, [0, 0.5, 1, 2])).toEqual([
      { exits: 1, lost: 0 },
      { exits: 0, lost: Number.NaN },
      { exits: 2, lost: (3 / 4 + 1 / 4) / 2 },
    ]);
  });

  it('have the standard deviation that resampling them has', () => {
    const utilities = [Array.from({ length: 16 }, () => (random() < 0.3 ? 1 : 0))];
    const M = 5;
    const means = Array.from({ length: 20_000 }, () => {
      let sum = 0;
      for (let m = 0; m < M; m++) sum += utilities[0]?.[Math.floor(random() * 16)] as number;
      return sum / M;
    });
    const middle = samples.mean(means);
    const found = Math.sqrt(samples.mean(means.map((x) => (x - middle) ** 2)));
    expect(samples.bootstrapDeviation([{ utilities }], M, () => [0])).toBeCloseTo(found, 2);
  });

  it('have the ceiling that the halves find, and one of fewer', () => {
    const traces = Array.from({ length: 30 }, () => {
      const chances = Array.from({ length: 6 }, random);
      return {
        utilities: chances.map((p) => Array.from({ length: 16 }, () => (random() < p ? 1 : 0))),
      };
    });
    const every = (E: number) => samples.spread(E, E);
    const changesOf = (from: number) =>
      traces.map(({ utilities }) => {
        const values = utilities.map((own) => samples.mean(own.slice(from, from + 8)) as number);
        return values.slice(1).map((value, k) => value - (values[k] as number));
      });
    const whole = samples.ceilingOf(traces, 16, every);
    const found = ceilingWithInterval(
      traces.map(() => ({ reward: 1 })),
      changesOf(0),
      changesOf(8),
    );
    expect(whole).toBeCloseTo(found.value, 10);
    expect(samples.ceilingOf(traces, 4, every)).toBeLessThan(whole);
    expect(samples.spread(9, 3)).toEqual([0, 4, 8]);
    expect(samples.spread(3, 5)).toEqual([0, 1, 2]);
  });

  it('have the ceiling that their own noise makes of a perfect credit, with an interval over groups', () => {
    const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    const changes = (values: readonly number[]) =>
      values.slice(1).map((value, k) => value - (values[k] as number));
    const real = Array.from({ length: 400 }, () => Array.from({ length: 12 }, normal));
    const noisy = () => real.map((values) => changes(values.map((value) => value + normal() * 0.85)));
    const [a, b] = [noisy(), noisy()];
    const both = real.map((values, i) =>
      changes(values).map((x, k) => [x, (a[i]?.[k] as number) + (b[i]?.[k] as number)] as const),
    );
    const rows = (group: (i: number) => string | undefined) =>
      real.map((_, i) => ({ reward: 1, group: group(i) }));
    const { value, low, high } = ceilingWithInterval(
      rows(() => undefined),
      a,
      b,
    );
    expect(value).toBeCloseTo(centredPearson(both), 1);
    expect([low < value, value < high]).toEqual([true, true]);
    const alone = ceilingWithInterval(
      rows((i) => `${i % 20}`),
      a,
      b,
    );
    expect([alone.value, alone.low === low]).toEqual([value, false]);
    const one = ceilingWithInterval(
      rows(() => 'one'),
      a,
      b,
    );
    expect(one.low).toBeNaN();
  });
});

describe('traces', () => {
  it('are split by whole groups, so many of each family', async () => {
    const rows = await readJsonl<FixtureRow>(FIXTURES);
    const { fit, judge } = splitGroups(rows, { fitEvery: 8, judged: 20 });
    const groups = (of: FixtureRow[]) => new Set(of.map(({ group }) => group));
    expect([fit.length, judge.length]).toEqual([64, 320]);
    expect([groups(fit).size, groups(judge).size]).toEqual([8, 40]);
    for (const group of groups(fit)) expect(groups(judge)).not.toContain(group);
  });

  const scored = (group: string, reward: number, end: number, logprobs: number[] = []) => ({
    ...{ group, reward, logprobs },
    segments: [
      { kind: 'thought', end: end - 2 },
      { kind: 'thought', end },
      { kind: 'answer', end: end + 3 },
    ],
  });

  it('are looked at token by token where a group has a long wrong one', () => {
    const rows = [scored('a', 1, 90), scored('a', 0, 50), scored('a', 0, 60), scored('b', 1, 300)];
    rows.push(scored('b', 1, 70), scored('c', 0, 40), scored('b', 1, 80));
    expect([...fineRows(rows, 9)]).toEqual([6, 2, 5]);
    expect([...fineRows(rows, 1)]).toEqual([6]);
  });

  it('are sampled at the ends of lines, and before tokens that were not sure', () => {
    const logprobs = [-1, -0.0005, -0.002, -0.0005, -0.5, 0, -9, 0, 0];
    expect(sampledEnds(scored('a', 1, 6, logprobs), false)).toEqual([4, 6]);
    expect(sampledEnds(scored('a', 1, 6, logprobs), true)).toEqual([2, 4, 6]);
  });
});

describe('the first mistake of the bundled policy', () => {
  const prompt = 'start 6: a*2 b+2 c-1 top?\n';
  const found = (...lines: string[]) =>
    firstMistake(prompt, `<think>\n${lines.join('\n')}\n</think>\nanswer: 4\n`);

  it('is the first line that does not carry the chain on', () => {
    expect(found('a: 6*2=2 top 2', 'so far so good.', 'b: 2+2=4 top 4', 'c: 4-1=3 top 4')).toBe(null);
    expect(found('a: 6*2=2 top 2', 'b: 2+2=5 top 5', 'c: 5-1=4 top 5')).toBe(1);
    expect(found('a: 6*2=2 top 2', 'b: 2+2=4 top 2', 'c: 4-1=3 top 4')).toBe(1);
    expect(found('a: 6*2=2 top 2', 'b: 2+2=4 top 4')).toBe(1);
  });

  it('is none where the next line puts it right', () => {
    expect(found('a: 6*2=3 top 3', 'wait, a: 6*2=2 top 2', 'b: 2+2=4 top 4', 'c: 4-1=3 top 4')).toBe(null);
    expect(found('a: 6*2=3 top 3', 'wait, a: 6*2=4 top 4', 'b: 4+2=6 top 6', 'c: 6-1=5 top 6')).toBe(1);
  });
});

describe('further features', () => {
  const TOLD = { figures: [] };
  const rowsOf = (groups: number, seed: number) =>
    madeTraces(groups, 4, seed).map((trace) => ({
      ...scoredLine(trace),
      entropies: trace.logprobs.map((logprob) => -logprob),
    }));
  /** As a run by another estimator has them: K+1 values, which know the reward from the second segment on. */
  const knowing = (rows: ReturnType<typeof rowsOf>) =>
    rows.map((row) => ({
      ...row,
      value_start: 0.5,
      segments: row.segments.map((segment, k) => ({ ...segment, value: k === 0 ? 0.5 : row.reward })),
    }));

  it('are fitted to some traces and judged on others; what knows the outcome is told apart', async () => {
    const [fit, judged] = [rowsOf(12, 1), rowsOf(6, 2)];
    const by = (rows: typeof fit) =>
      new Map<string, object[]>([
        ['pr', rows],
        ['prm', knowing(rows)],
        ['gradient', knowing(rows)],
      ]);
    const truth = judged.map(({ segments }) => segments.map(() => 0.5));
    const credits: Record<string, number[][]>[] = [];
    const compared = (_: string, named: Record<string, number[][]>) => {
      credits.push(named);
      return TOLD;
    };
    const levelError = (values: number[][]) => values.length;
    const found = await featureStudy({ fitted: by(fit), scored: by(judged), truth, compared, levelError });
    const names = ['', 'entropy,highest_entropy', 'prm', 'lowest:prm', 'gradient'];
    expect(found.map(({ text }: { text: string }) => text)).toEqual(names);
    const [none, entropy, prm, , gradient] = found;
    expect(prm.leftOut).toBeLessThan(0.8 * none.leftOut);
    expect(prm.loss).toBeLessThan(0.8 * none.loss);
    expect(gradient.loss).toBeCloseTo(prm.loss, 9);
    expect([entropy.looksAhead, prm.looksAhead, gradient.looksAhead]).toEqual([false, false, true]);
    expect(none.level).toBe(judged.length);
    expect(Object.keys(credits[0] ?? {})).toEqual(['mc', ...names.map((_, n) => `set_${n}`)]);
    expect(credits[0]?.set_2?.[0]).toHaveLength((judged[0]?.segments.length ?? 0) - 1);
  });
});

describe('the figures', () => {
  const figure = (of: string, credit: string, measure: string, value: number, more: object = {}) => ({
    ...{ of, credit, measure, value, last: 1, traces: 'all', low: value - 0.05, high: value + 0.05 },
    ...more,
  });
  const measured = {
    comparison: {
      ...{ traces: 3, right: 2, wrong: 1, segments: 9, ceiling: { value: 0.9, low: 0.8, high: 1 } },
      figures: [
        ...[1, 0.75, 0.5, 0.25].map((last) => figure('mc', 'pr', 'pearson', 0.12346 * last, { last })),
        figure('mc', 'pr', 'pearson', 0.5, { traces: 'wrong' }),
        figure('mc', 'pr', 'worst_segment', 0.4, { traces: 'wrong', chance: 0.2 }),
        figure('first_wrong', 'pr', 'hit_at_1', 0.3, { chance: 0.1 }),
        figure('first_wrong', 'mc', 'auc', 0.97),
      ],
    },
    byHalf: {
      figures: [figure('mc', 'mc_8', 'pearson', 0.6), figure('mc', 'mc_truncated_16', 'pearson', 0.2)],
    },
    levels: { pr: 0.25, mc_8: 0.1 },
    ...{
      fit: 5,
      samples: 64,
      taken: 119,
      tokens: 1234,
      calibration: { log_loss: { value: 0.7, constant: null } },
    },
    among: { gradient: { figures: [figure('gradient', 'loo', 'pearson', 0.2)] } },
    features: [
      { text: '', looksAhead: false, leftOut: 0.5, loss: 0.6, level: 0.1, pearson: { value: 0.5 } },
      { text: 'a,b', looksAhead: true, leftOut: 0.4, loss: 0.6, level: 0.1, pearson: { value: 0.4 } },
    ],
    noise: { exits: [3, 5.81], rows: [{ M: 2, deviations: [0.2, 0.3], ceilings: null }] },
    lengths: {
      edges: [0, 0.5, 1],
      limits: [{ limit: 16, all: 0.87, bins: [{ lost: Number.NaN }, { lost: 0.06 }] }],
    },
    segmenters: {
      within: [['unsure', { value: 0.5, low: 0.4, high: 0.6 }]],
      ...{ counts: [5], traces: 18, tokens: 73, exits: 20.7 },
      ways: [{ name: 'best', shares: [{ value: 0.9, low: 0.8, high: 1 }], segments: [4.5] }],
    },
    costs: [{ name: 'mc, M = 20', tokens: 100, seconds: 3 }],
  };

  it('are a line each, with what they are of and where; what is not known has none', () => {
    const text = csvOf(policyRows(measured)) as string;
    expect(text.split('\n')[0]).toBe('figure,of,at,value,low,high');
    for (const line of [
      'ceiling,,,0.9,0.8,1',
      'reliability,,,0.81,,',
      'sampling_minutes,,,2,,',
      'log_loss,value,,0.7,,',
      'pearson,pr,all,0.1235,0.07346,0.1735',
      'pearson,pr,last 0.25,0.03087,-0.01914,0.08087',
      'pearson,pr,wrong,0.5,,',
      'worst_segment,guessing,wrong,0.2,,',
      'known_worst,pr,,0.3,0.25,0.35',
      'known_auc,mc,,0.97,0.92,1.02',
      'half_level_error,mc 8,,0.1,,',
      'half_pearson,mc-truncated 16,all,0.2,0.15,0.25',
      'pearson_with,gradient,loo,0.2,0.15,0.25',
      'features_pearson,"a,b",looks ahead,0.4,,',
      'sd,2,"5.8 exits, all of them",0.3,,',
      'lost,16,0.5 to 1,0.06,,',
      'kept,best cut,5,0.9,0.8,1',
      'cut_into,best cut,5,4.5,,',
      'kept,"newline, within unsure",,0.5,0.4,0.6',
      'run_tokens,mc 20,,100,,',
    ])
      expect(text.split('\n'), line).toContain(line);
    expect(text).not.toMatch(/NaN|constant|lost,16,0 to 0.5/);
    const get = figuresOf(text);
    expect(get('features_pearson', 'a,b', 'looks ahead')).toEqual({ value: 0.4 });
    expect(get('pearson', 'pr', 'all').low).toBe(0.07346);
    expect(get('pearson', 'snis', 'all')).toBeUndefined();
    expect(get.names('half_pearson')).toEqual(['mc 8', 'mc-truncated 16']);
  });

  it('of docs/fidelity make the measured part of docs/fidelity.md', async () => {
    expect(await readFile(join(ROOT, 'docs/fidelity.md'), 'utf8')).toContain(measuredPart(storedFigures()));
  });

  it('of docs/fidelity are those that the scripts write', async () => {
    for (const name of ['puzzles', 'embedded']) {
      const text = await readFile(join(ROOT, `docs/fidelity/${name}.csv`), 'utf8');
      const get = figuresOf(text);
      const lines = text.trimEnd().split('\n').slice(1);
      const known = [...new Set(lines.map((line) => line.slice(0, line.indexOf(','))))];
      expect(known.reduce((sum, each) => sum + get.names(each).length, 0)).toBeGreaterThan(20);
      for (const line of lines)
        expect(line).toMatch(/^\w+,("[^"]*"|[^,"]*),("[^"]*"|[^,"]*),-?[\d.e-]+(,-?[\d.]+,-?[\d.]+|,,)$/);
    }
  });
});
