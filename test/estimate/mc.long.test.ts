// `mc`: unbiased and better with a prior, on a language model small enough to sum; what is asked for; the judge's command; the whole way with an engine that samples.

import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { openJudge } from '../../dist/estimate/judge.js';
import { allotted, mcValues } from '../../dist/estimate/mc.js';
import { loadOracleModel } from '../oracle/llama.js';
import { smoothedWalk } from '../oracle/sigma.js';
import { type Continuation, drawn, exactValue, randomToy, seeded, type ToyModel } from '../oracle/toy.js';
import { type AskedLine, answersOf, linesOf } from '../support/oracle-engine.js';
import { EMBEDDED, type ScoredRow, storedValues } from '../support/program.js';
import { fixtureRows, openScene } from '../support/scene.js';
import { fitted } from '../support/scored-traces.js';

type Row = ScoredRow & Record<'mc_samples' | 'mc_right' | 'lost_fraction', number[]>;

const zeta = (_s: string, { y }: Continuation) => Number(y === '1');
const sum = (list: readonly number[]) => list.reduce((a, b) => a + b, 0);

/** How a toy goes on, to its answer. */
function goneOn(model: ToyModel, s: string, random: () => number): string {
  if (/\|./.test(s)) return s;
  const next = model.next(s);
  return goneOn(model, s + [...next.keys()][drawn(next.values(), random)], random);
}

describe('on a toy', () => {
  const STATES = ['', 'a', 'ab', 'abc', 'abca'];
  /** Values of one draw, plain and given estimates whose logits are off by 1 in the mean. */
  function once(model: ToyModel, exact: readonly number[], random: () => number) {
    const outcomes = STATES.map((s) => {
      return { count: 1, right: Number(goneOn(model, s, random).endsWith('1')), lost: 0 };
    });
    const pi = Float64Array.from(STATES.slice(1), (s) => model.next(s.slice(0, -1)).get(s.slice(-1)) ?? 0);
    const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    const values = Float32Array.from(exact, (v) => 1 / (1 + ((1 - v) / v) * Math.exp(normal())));
    const plain = mcValues({ pi, prior: undefined }, outcomes).values;
    return { plain, shrunk: mcValues({ pi, prior: { values, isMade: true } }, outcomes).values };
  }

  it('the mean of many draws is the value itself, and one draw is nearer to it where a prior is heard', () => {
    const error = { plain: 0, shrunk: 0 };
    for (const seed of [1, 2, 3]) {
      const random = seeded(seed);
      const model = randomToy(random);
      const exact = STATES.map((s) => exactValue(model, s, zeta));
      const sums = exact.map(() => 0);
      const N = 300;
      for (let n = 0; n < N; n++) {
        const found = once(model, exact, random);
        for (const [k, v] of exact.entries()) {
          sums[k] = (sums[k] as number) + (found.plain[k] as number);
          for (const how of ['plain', 'shrunk'] as const) error[how] += ((found[how][k] as number) - v) ** 2;
        }
      }
      for (const [k, v] of exact.entries())
        expect(Math.abs((sums[k] as number) / N - v)).toBeLessThan(3 * Math.sqrt((v * (1 - v)) / N));
    }
    expect(error.shrunk).toBeLessThan(error.plain / 5);
  });
});

it('completions are allotted as the best of all ways to spend the tokens has it, and never more', () => {
  const random = seeded(5);
  for (let n = 0; n < 40; n++) {
    const weights = Float64Array.from({ length: 3 }, random);
    const [most, tokens] = [1 + Math.floor(3 * random()), 10 * Math.floor(8 * random()) + 5];
    const counts = allotted(weights, Int32Array.of(10, 10, 10), most, tokens);
    const worth = (each: readonly number[]) =>
      sum(each.map((c, k) => ((weights[k] as number) * c) / (c + 1)));
    const all = Array.from({ length: (most + 1) ** 3 }, (_, i) =>
      [0, 1, 2].map((k) => Math.floor(i / (most + 1) ** k) % (most + 1)),
    );
    const best = Math.max(...all.filter((each) => 10 * sum(each) <= tokens).map(worth));
    expect(worth([...counts])).toBeCloseTo(best, 12);
  }
  // what a long completion tells has to be worth it
  expect([...allotted(Float64Array.of(0.2, 0.1, 0), Int32Array.of(100, 10, 1), 4, 45)]).toEqual([0, 4, 0]);
});

describe('a judge command', () => {
  const judge = (code: string, patienceMs?: number, signal = new AbortController().signal) =>
    openJudge(`${process.execPath} -e '${code}'`, signal, patienceMs);
  const LINES =
    'let n = 0; require("readline").createInterface({ input: process.stdin }).on("line", (line) => ';
  const three = ['a', 'b', 'c'].map((id) => ({ id }));

  it('is started once, and answers in order; something else costs the trace alone', async () => {
    await using own = judge(`${LINES} console.log(n++ === 5 ? "maybe" : n / 16 + line.includes("b") / 2))`);
    expect(await own.verdicts(three)).toEqual([0.0625, 0.625, 0.1875]);
    expect(await own.verdicts([])).toEqual([]);
    await expect(own.verdicts(three)).rejects.toMatchObject({
      code: 'judge',
      reason: expect.stringContaining('said "maybe", expected a number'),
    });
    expect(await own.verdicts(three.slice(0, 2))).toEqual([0.4375, 1]);
    await expect(own.verdicts(three.slice(0, 2))).rejects.toThrow('said "1.125"');
  });

  it('that is gone ends the run, and one that stalls the trace, once it has answered at all', async () => {
    await using gone = judge(`${LINES} { console.log(1); process.exit(3); })`);
    const why = expect.stringContaining('has ended at completion 1');
    await expect(gone.verdicts(three)).rejects.toMatchObject({ exitCode: 69, message: why });
    await using own = judge(`${LINES} { if (line.includes("a")) console.log(1); })`, 800);
    await expect(own.verdicts(three.slice(1))).rejects.toMatchObject({ exitCode: 69 });
    await expect(own.verdicts(three)).rejects.toMatchObject({ code: 'judge' });
    // started anew: nothing is left of the lines before
    expect(await own.verdicts(three.slice(0, 1))).toEqual([1]);
  });

  it('ends with the program', async () => {
    const interrupt = new AbortController();
    await using own = judge('setInterval(() => {}, 1000)', undefined, interrupt.signal);
    setTimeout(() => interrupt.abort(), 200);
    await expect(own.verdicts(three)).rejects.toMatchObject({ exitCode: 75 });
  });
});

describe('with an engine that samples', async () => {
  const scene = await openScene();
  const { done, fails, rows, text, write } = scene;
  const model = loadOracleModel(EMBEDDED);
  const random = seeded(11);
  const CUT = '--max-segments 4';
  // a right trace and a wrong one
  const fixtures = (await fixtureRows(0, 8)).filter((_, n) => n % 7 === 0);
  let asked: AskedLine[];
  let samples: Map<string, number[][]>;
  beforeAll(async () => {
    await write('t.jsonl', fixtures);
    await fitted(scene, 'calibration');
  });

  /** Asks and answers until nothing is left, and scores. */
  async function scored(flags: string, out: string): Promise<Row[]> {
    [asked, samples] = [[], new Map()];
    const files: string[] = [];
    for (;;) {
      const known = files.length === 0 ? '' : `--answers ${files}`;
      const { said } = await done(
        `requests t.jsonl --estimator mc ${CUT} ${flags} ${known} -o req.jsonl --overwrite`,
      );
      if (said.includes('nothing is left')) break;
      asked.push(...linesOf<AskedLine>(await text('req.jsonl')));
      const answers = answersOf(await text('req.jsonl'), model, random);
      for (const { id, ids = [] } of answers) samples.set(id.split('#')[0] as string, ids);
      files.push(`${out}.${files.length}`);
      await write(files.at(-1) as string, answers);
    }
    const score = `score t.jsonl --estimator mc ${CUT} ${flags} --answers ${files}`;
    const { said } = await done(`${score} -o ${out}`);
    expect(said).toMatch(/sampled [\d,]+ tokens, [\d.]+ times the traces'/);
    await done(`verify ${out}`);
    await done(`redistribute ${out} --sigma rudder -o again.jsonl --overwrite`);
    await done(`${score} --sigma rudder -o fresh.jsonl --overwrite`);
    await scene.expectSame('again.jsonl', 'fresh.jsonl');
    return rows<Row>(out);
  }
  const exitsOf = ({ segments }: ScoredRow): number[] => [
    2,
    ...segments.slice(0, -1).map((s) => s.end as number),
  ];
  const samplesOf = (row: ScoredRow) => exitsOf(row).map((exit) => samples.get(`${row.id}@${exit}:mc`) ?? []);
  /** the bundled policy ends with its answer, a newline and its end token */
  const rightOf = (row: ScoredRow) => {
    const end = [...Buffer.from(`answer: ${fixtures.find(({ id }) => id === row.id)?.answer}\n`), 258].join();
    return samplesOf(row).map((all) => all.filter((ids) => ids.join().endsWith(end)).length);
  };

  it('values are the share of completions that end right; nothing but the trace is asked besides', async () => {
    for (const row of await scored('--mc-samples 2', 'plain.jsonl')) {
      const right = rightOf(row);
      expect(row.mc_samples).toEqual(right.map(() => 2));
      expect(row.mc_right).toEqual(right);
      expect(storedValues(row)).toEqual(right.map((each) => each / 2));
      expect([row.lost_fraction, row.reference_logprobs.flat()]).toEqual([right.map(() => 0), []]);
      expect(row.baseline).toBe(row.value_start);
    }
    const lines = asked.filter((line) => line.samples !== undefined);
    expect(lines[0]).toMatchObject({ token_ids: [], samples: 2, max_tokens: 2048, stop: [258] });
    expect(asked.filter(({ id, from }) => from !== undefined && !id.startsWith('canary'))).toHaveLength(2);
  });

  it('says where each state has one completion again and again', async () => {
    await write('many.jsonl', await fixtureRows(0, 4));
    const flags = 'many.jsonl --estimator mc --max-segments 4 --mc-samples 2';
    await done(`requests ${flags} -o one.req.jsonl`);
    await write('one.jsonl', answersOf(await text('one.req.jsonl'), model));
    await done(`requests ${flags} --answers one.jsonl -o two.req.jsonl`);
    const states = linesOf<AskedLine>(await text('two.req.jsonl')).filter(
      ({ samples: n }) => n !== undefined,
    );
    expect(states.length).toBeGreaterThanOrEqual(16);
    const saidOf = async (second: number) => {
      await write(
        'two.jsonl',
        states.map(({ id }) => ({
          id,
          ids: [
            [97, 258],
            [second, 258],
          ],
        })),
      );
      return (await done(`score ${flags} --answers one.jsonl,two.jsonl -o alike.jsonl --overwrite`)).said;
    };
    expect(await saidOf(97)).toContain('one completion again and again');
    expect(await saidOf(98)).not.toContain('again and again');
  });

  it('with a calibration: within the budget, and the mean of the walk through all that is known', async () => {
    const flags = '--calibration calibration.json';
    const made = await scored(`--mc-tokens 1x --mc-max-tokens 60 ${flags}`, 'shrunk.jsonl');
    await done(`score t.jsonl --estimator calibrated ${CUT} ${flags} -o prior.jsonl`);
    const prior = await rows('prior.jsonl');
    for (const [n, row] of made.entries()) {
      const [exits, T] = [exitsOf(row), row.completion_ids.length];
      const expected = exits.map((exit) => Math.min(60, Math.max(16, T - exit)));
      const spent = sum(expected.map((length, k) => length * (row.mc_samples[k] as number)));
      expect(spent).toBeLessThanOrEqual(T);
      expect(spent).toBeGreaterThan(T - Math.max(...expected));
      const right = rightOf(row);
      expect(row.mc_right).toEqual(right);
      const pi = exits.slice(1).map((exit, k) => Math.exp(sum(row.logprobs.slice(k && exits[k], exit))));
      const outcomes = right.map((each, k) => [each, row.mc_samples[k] as number] as const);
      const walk = smoothedWalk(storedValues(prior[n] as ScoredRow), pi, outcomes);
      for (const [k, value] of storedValues(row).entries()) expect(value).toBeCloseTo(walk[k] as number, 3);
    }
  });

  it('what is cut counts 0, and a command of the user judges what is not', async () => {
    const worth =
      'c.startsWith("<think>") && prompt.includes("top?") && references[0].answer ? exit / 8 : -1';
    await write(
      'judge.mjs',
      `import { createInterface } from 'node:readline';
      for await (const line of createInterface({ input: process.stdin })) {
        const { completion: c, references, exit, prompt } = JSON.parse(line);
        console.log(${worth});
      }`,
    );
    const judge = `${process.execPath} ${scene.at('judge.mjs')}`;
    // what asks alone starts no judge, not even where all is answered
    const [command, mark] = [`--judge-command '${judge}'`, scene.at('started')];
    await scored(`--mc-samples 1 --judge-command 'touch ${mark}; ${judge}'`, 'marked.jsonl');
    expect(existsSync(mark)).toBe(true);
    await rm(mark);
    const again = `t.jsonl --estimator mc ${CUT} --mc-samples 1 --judge-command 'touch ${mark}; ${judge}'`;
    const { said } = await done(`requests ${again} --answers marked.jsonl.0,marked.jsonl.1 -o none.jsonl`);
    expect(said).toContain('nothing is left to ask');
    expect(existsSync(mark)).toBe(false);
    for (const row of await scored(`--mc-samples 1 --mc-max-tokens 20 ${command}`, 'cut.jsonl')) {
      const ended = samplesOf(row).map(([ids]) => Number(ids?.at(-1) === 258));
      expect([...ended].sort()).toEqual(expect.arrayContaining([0, 1]));
      expect(storedValues(row)).toEqual(ended.map((each, k) => (each * k) / 8));
      expect(row.lost_fraction).toEqual(ended.map((each) => 1 - each));
      expect(row.status).toContain('mc:lost');
    }
  });

  it('says what does not go together', async () => {
    const mc = 'score t.jsonl --estimator mc';
    await fails(`${mc} -o x.jsonl`, 2, /an engine samples[\s\S]*rredcot requests/);
    await fails(`${mc} --mc-tokens 2 -o x.jsonl`, 2, '--mc-tokens 2: expected a number above 0 and an x');
    await fitted(scene, 'back', () => ({ reward: 1 }));
    await fails(`${mc} --calibration back.json -o x.jsonl`, 2, '--calibration stands back (one-reward)');
    const few = `t.jsonl --estimator mc --mc-tokens 1.5x ${CUT}`;
    await done(`requests ${few} -o few.req.jsonl`);
    await write('few.jsonl', answersOf(await text('few.req.jsonl'), model));
    const why = /at each of its 5 exits takes [\d.]+ times its \d+ tokens: a larger/;
    await fails(`score ${few} --answers few.jsonl -o few.out.jsonl`, 65, why);
  });
});
