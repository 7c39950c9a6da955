// What a policy writes: its log-probabilities, the tokens that it chooses, and that neither depends on what is written beside.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type Begun,
  type ContinueOptions,
  continueTraces,
  type WritingSession,
  withDecoder,
} from '../../../dist/model/decode/continue.js';
import { rowKey, type Written } from '../../../dist/model/decode/sampling.js';
import { type OracleModel, tokenStats } from '../../oracle/llama.js';
import { choosing } from '../../oracle/sampling.js';
import { seeded } from '../../oracle/toy.js';
import { type Json, LLAMA } from '../../support/checkpoints.js';
import { FAMILIES, openFamily, ROPES } from '../../support/family-checks.js';

const NATS = 1e-4;
const random = seeded(5);
const randomIds = (length: number, vocab = 131) =>
  Int32Array.from({ length }, () => Math.floor(random() * vocab));

let built = 0;
async function openPolicy(config: Json) {
  const opened = await openFamily(config, { seed: ++built });
  return { ...opened, session: await withDecoder(opened.session) };
}

const PLAIN: ContinueOptions = { temperature: 1, topP: 1, stops: [], batch: 64 };
const same = (written: readonly (readonly Written[])[]) =>
  written.map((rows) => rows.map(({ ids, logprobs, finish }) => [[...ids], [...logprobs], finish]));

describe.each([
  ['Llama', 'llama3', {}],
  ['Mistral', 'yarn', { sliding_window: 12 }],
  ['Qwen2', 'linear', { use_sliding_window: true, max_window_layers: 1 }],
  ['Qwen3', 'default', {}],
])('%s, rope %s', (family, rope, more) => {
  let session: WritingSession;
  let model: OracleModel;
  let traces: Begun[];
  let written: Written[][];
  beforeAll(async () => {
    ({ session, model } = await openPolicy({ ...FAMILIES[family], ...ROPES[rope], ...more }));
    // states of 1 to 70 tokens, some of them within a longer trace; more tokens than a block has
    traces = [[1], [5, 2, 5], [17], [70, 30, 64, 65]].map((exits, trace) => ({
      ids: randomIds(Math.max(...exits)),
      starts: exits.map((exit, k) => ({ exit, key: rowKey(1, trace, k), most: trace === 2 ? 7 : 40 })),
    }));
    written = await continueTraces(session, traces, PLAIN);
  });
  afterAll(() => session.close());

  test('has the log-probabilities of the scoring graph, and of the float64 pass', async () => {
    for (const [b, { ids, starts }] of traces.entries())
      for (const [n, { exit, most }] of starts.entries()) {
        const own = written[b]?.[n] as Written;
        expect(own.ids.length).toBe(most);
        const whole = Int32Array.of(...ids.subarray(0, exit), ...own.ids);
        const [scored] = await session.run([{ ids: whole, promptLength: exit, branches: [] }]);
        const exact = tokenStats(model, [...whole]).logprobs.subarray(exit);
        for (const [t, logprob] of own.logprobs.entries()) {
          expect(Math.abs(logprob - (scored?.logprobs[t] as number))).toBeLessThan(NATS);
          expect(Math.abs(logprob - (exact[t] as number))).toBeLessThan(NATS);
        }
      }
  });

  test('writes the same, to the last bit, whatever is written beside it', async () => {
    for (const batch of [1, 3])
      expect(same(await continueTraces(session, traces, { ...PLAIN, batch }))).toEqual(same(written));
    const nucleus = { ...PLAIN, temperature: 0.8, topP: 0.9 };
    const alone = await continueTraces(session, traces, { ...nucleus, batch: 1 });
    expect(same(await continueTraces(session, traces, nucleus))).toEqual(same(alone));
    expect(same(alone)).not.toEqual(same(written));
  });

  test('takes the likeliest token at temperature 0', async () => {
    const most = 6;
    const short = traces.map(({ ids, starts }) => ({ ids, starts: starts.map((s) => ({ ...s, most })) }));
    const greedy = await continueTraces(session, short, { ...PLAIN, temperature: 0 });
    for (const [b, { ids, starts }] of short.entries())
      for (const [n, { exit }] of starts.entries()) {
        const whole = [...ids.subarray(0, exit)];
        const own = greedy[b]?.[n] as Written;
        for (const id of own.ids) {
          const { next } = tokenStats(model, whole);
          expect(next[id] as number).toBeGreaterThan(Math.max(...next) - 1e-5);
          whole.push(id);
        }
      }
  });
});

/** χ² of first tokens against their exact distribution, in standard deviations from its mean; rare tokens count together. */
function excess(ids: readonly number[], p: Float64Array): number {
  const counts = new Float64Array(p.length);
  for (const id of ids) counts[id] = (counts[id] as number) + 1;
  const bins: [found: number, expected: number][] = [];
  const rare: [number, number] = [0, 0];
  for (const [id, share] of p.entries()) {
    const [found, expected] = [counts[id] as number, share * ids.length];
    if (expected === 0) expect(found, `token ${id}, which cannot be`).toBe(0);
    if (expected >= 5) bins.push([found, expected]);
    else [rare[0], rare[1]] = [rare[0] + found, rare[1] + expected];
  }
  if (rare[1] > 0) bins.push(rare);
  const chi2 = bins.reduce((sum, [found, expected]) => sum + (found - expected) ** 2 / expected, 0);
  const df = bins.length - 1;
  return (chi2 - df) / Math.sqrt(2 * df);
}

describe.each([131, 2600])('a vocabulary of %i', (vocab) => {
  let session: WritingSession;
  let model: OracleModel;
  const N = 4096;
  const ids = randomIds(9, vocab);
  const starts = Array.from({ length: N }, (_, m) => ({ exit: 9, key: rowKey('χ²', vocab, m), most: 1 }));
  beforeAll(async () => {
    // weights of a wide vocabulary's head are small, so that a nucleus may hold most of it
    ({ session, model } = await openPolicy({ ...LLAMA, vocab_size: vocab }));
  });
  afterAll(() => session.close());

  test.each([
    [1, 1],
    [1.3, 0.7],
    // the nucleus of a wide vocabulary is found in blocks of it
    ...(vocab === 131 ? [[0.6, 1] as const, [5, 0.97] as const] : []),
  ] as const)(
    'first tokens at temperature %d and top-p %d have their exact distribution',
    async (temperature, topP) => {
      const how = { ...PLAIN, temperature, topP, batch: 2048 };
      const [rows] = await continueTraces(session, [{ ids, starts }], how);
      const { next } = tokenStats(model, [...ids]);
      const first = (rows as Written[]).map((row) => row.ids[0] as number);
      expect(excess(first, choosing(next, temperature, topP))).toBeLessThan(4.5);
      // what is told is the policy's own, whatever tokens were chosen among
      for (const { ids: own, logprobs } of (rows as Written[]).slice(0, 50))
        expect(Math.abs((logprobs[0] as number) - (next[own[0] as number] as number))).toBeLessThan(NATS);
    },
  );
});

test('a row ends with the first stop token, which it keeps, and others go on', async () => {
  await using opened = await openPolicy(LLAMA);
  const { session } = opened;
  const ids = randomIds(4);
  const starts = Array.from({ length: 16 }, (_, m) => ({ exit: 4, key: rowKey('stop', m), most: 50 }));
  const [free] = await continueTraces(session, [{ ids, starts }], PLAIN);
  const stops = [3, 17, 60];
  let written = 0;
  const onTokens = (count: number): void => {
    written += count;
  };
  const [rows] = await continueTraces(session, [{ ids, starts }], { ...PLAIN, stops, onTokens });
  for (const [n, { ids: own, finish }] of (rows as Written[]).entries()) {
    const whole = [...((free as Written[])[n] as Written).ids];
    const at = whole.findIndex((id) => stops.includes(id));
    expect([...own]).toEqual(at < 0 ? whole : whole.slice(0, at + 1));
    expect(finish).toBe(at < 0 ? 'length' : 'stop');
  }
  const finishes = (rows as Written[]).map(({ finish }) => finish);
  expect(new Set(finishes).size).toBe(2);
  expect(written).toBe((rows as Written[]).reduce((sum, row) => sum + row.ids.length, 0));
});
