/** The canary over a policy that takes no time: what it sees and what it lets pass. */
import { describe, expect, test } from 'vitest';
import {
  beyond,
  type CanaryPass,
  describeFinding,
  disproved,
  makeCanary,
  noteProof,
  type Proof,
  prove,
  repeated,
  stored,
} from '../../../dist/model/onnx/canary.js';
import type { PackedTrace, TraceScores } from '../../../dist/model/onnx/placed.js';
import type { Log } from '../../../dist/report/log.js';
import { FakePolicy } from '../../support/fake-policy.js';

const TEXT = Int32Array.from({ length: 90 }, (_, i) => (i * 7) % 50);
const TEXTS = { ids: TEXT, other: Int32Array.of(3, 4, 5) };
const SIZE = { vocab: 40, maxTokens: 4096 };

/** What a device makes of one kind of number of a trace's token or a branch's. */
type Fault = (
  value: number,
  at: { token: number; length: number; branch: number | null; kind: string; isShared: boolean },
) => number;

/** The fake policy on a device with a fault. */
class Faulty extends FakePolicy {
  constructor(private readonly fault: Fault) {
    super();
  }
  override async run(traces: readonly PackedTrace[], keep?: number): Promise<TraceScores[]> {
    return this.spoil(await super.run(traces, keep), traces);
  }
  override async branches(kept: number, branches: Parameters<FakePolicy['branches']>[1]) {
    const traces = (this.kept.get(kept) ?? []).map((trace, b) => ({ ...trace, branches: branches[b] ?? [] }));
    return this.spoil(await super.branches(kept, branches), traces);
  }
  private spoil(scores: TraceScores[], traces: readonly PackedTrace[]): TraceScores[] {
    return scores.map(({ entropies, logprobs, branches }, i) => {
      const { ids, promptLength, branches: asked, shares } = traces[i] as PackedTrace;
      const { length } = ids;
      const isShared = shares !== undefined;
      const own = (kind: string) => (value: number, t: number) =>
        this.fault(value, { token: promptLength + t, length, branch: null, kind, isShared });
      return {
        entropies: entropies.map(own('entropy')),
        logprobs: logprobs.map(own('log p')),
        branches: branches.map((values, b) => {
          const { exit, scoredFrom } = asked[b] as PackedTrace['branches'][number];
          const at = { length, branch: exit, kind: 'branch log p', isShared };
          return values.map((value, t) => this.fault(value, { ...at, token: exit + scoredFrom + t }));
        }),
      };
    });
  }
}

const canary = await makeCanary(new FakePolicy(), TEXTS, SIZE);
const shown = async (fault: Fault, precision: Parameters<typeof prove>[2] = 'f32') =>
  prove(new Faulty(fault), canary, precision);

describe('the tokens of a canary', () => {
  test('short traces in a padded batch, one of several hundred tokens in two runs, a branch far out', () => {
    const [batch, long] = canary.passes as [CanaryPass, CanaryPass];
    expect(batch.split).toBe(false);
    const lengths = batch.traces.map(({ ids }) => ids.length);
    expect(lengths[0]).toBeGreaterThan(32); // the tile of an attention kernel
    expect(lengths[1]).toBeLessThan(32);
    expect(long.split).toBe(true);
    expect(long.traces[0]?.ids.length).toBeGreaterThanOrEqual(256);
    expect(long.traces[0]?.branches.at(-1)?.gap?.tokens).toBeGreaterThan(500);
    for (const { traces } of canary.passes)
      for (const { ids, entropies, logprobs, branches } of traces) {
        expect(Math.max(...Array.from(ids))).toBeLessThan(SIZE.vocab);
        expect(entropies?.length).toBe(logprobs?.length);
        expect(branches.length).toBeGreaterThan(0);
        for (const branch of branches)
          expect(branch.logprobs?.length).toBe(branch.ids.length - branch.scoredFrom);
      }
  });

  test('fit into a context of a few tokens, and come of the vocabulary where the text has none of it', async () => {
    const small = await makeCanary(new FakePolicy(), TEXTS, { vocab: 40, maxTokens: 5 });
    for (const { traces } of small.passes)
      for (const { ids } of traces) expect(ids.length).toBeLessThanOrEqual(5);
    expect(beyond((await prove(new FakePolicy(), small, 'f32')).findings)).toEqual([]);
    expect([...repeated(Int32Array.of(90, 91), 3, 5)]).toEqual([0, 1, 2, 0, 1]);
    expect([...repeated(Int32Array.of(90, 2, 1), 3, 5)]).toEqual([2, 1, 2, 1, 2]);
  });

  test('a policy that gives no number has none', () => {
    expect(() => stored({ a: Float32Array.of(0.5, Number.NaN) })).toThrow(RangeError);
  });
});

describe('a session', () => {
  test('that gives its numbers again is proved, whatever it keeps', async () => {
    const policy = new FakePolicy();
    const { findings } = await prove(policy, canary, 'f32');
    expect(beyond(findings)).toEqual([]);
    expect(policy.kept.size).toBe(0);
    expect(findings.map(({ what }) => what)).toEqual(['log p', 'entropy', 'branch log p']);
    for (const { off, count } of findings) {
      expect(off).toBeLessThan(1e-6);
      expect(count).toBeGreaterThan(20);
    }
  });

  test.each([
    ['an entropy is off', 'entropy', 12],
    ['a log-probability is off', 'log p', 39],
    ['a branch is off', 'branch log p', 23],
  ])('is refused where %s, by kind, token and numbers, not within bounds', async (_, kind, token) => {
    const by = (nats: number) => (value: number, at: { kind: string; token: number; length: number }) =>
      at.kind === kind && at.token === token && at.length === 40 ? value + nats : value;
    expect(beyond((await shown(by(9e-4))).findings)).toEqual([]);
    const wrong = beyond((await shown(by(2e-3))).findings);
    expect(wrong.map(({ what }) => what)).toEqual([kind]);
    const said = describeFinding(wrong[0] as (typeof wrong)[0]);
    expect(said).toMatch(
      /token \d+ of (40|a branch at 20 of 40) is -?\d\S*, expected -?\d\S*: 2\.0e-3 nats off/,
    );
    if (kind !== 'branch log p') expect(said).toContain(`token ${token} of 40`);
  });

  test.each(['log p', 'entropy', 'branch log p'])(
    'is refused where %s is wrong behind a prompt',
    async (kind) => {
      const wrong: Fault = (value, at) => (at.isShared && at.kind === kind ? value + 0.1 : value);
      expect(beyond((await shown(wrong)).findings).map(({ what }) => what)).toEqual([kind]);
    },
  );

  test('is refused where it gives no number, or not as many', async () => {
    const nan = beyond((await shown((value, { token }) => (token === 7 ? Number.NaN : value))).findings);
    expect(nan.map(({ found }) => found)).toEqual([Number.NaN, Number.NaN]);
    const fewer = structuredClone(canary) as unknown as { passes: { traces: { logprobs: number[] }[] }[] };
    fewer.passes[0]?.traces[0]?.logprobs.pop();
    const { findings } = await prove(new FakePolicy(), fewer as unknown as typeof canary, 'f32');
    expect(beyond(findings).map(({ what }) => what)).toEqual(['log p']);
    const none = await prove(new FakePolicy(), { passes: [] }, 'f32');
    expect(beyond(none.findings)).toHaveLength(3);
  });

  test('in half precision may be off at a token that is unlikely, and not in the mean', async () => {
    const bf16 = 'bf16';
    const single: Fault = (value, { token }) => (token === 30 ? value + 1 : value);
    expect(beyond((await shown(single, bf16)).findings)).toEqual([]);
    expect(beyond((await shown(single)).findings)).not.toEqual([]);
    const all: Fault = (value) => value + 0.25;
    const { findings, noise } = await shown(all, bf16);
    expect([noise > 0.25, (await shown(all)).noise]).toEqual([true, 0]);
    const wrong = beyond(findings);
    expect(wrong.map(({ what }) => what)).toEqual(['log p', 'entropy', 'branch log p']);
    expect(describeFinding(wrong[0] as (typeof wrong)[0])).toContain('2.5e-1 in the mean, allowed 0.2');
  });
});

test('a refusal names folder, device, token and numbers; a record keeps the largest differences', async () => {
  const proof: Proof = await shown((value, { token }) => (token === 35 ? value - 3 : value));
  const device = { name: 'cuda', deviceId: 1 } as const;
  const error = disproved('a/folder', device, beyond(proof.findings));
  expect(error.exitCode).toBe(69);
  expect(error.message).toMatch(
    /^a\/folder: on cuda:1 the policy does not give the numbers of its canary: log p of token 35/,
  );
  expect(error.hint).toContain('--device cpu');
  const records: Record<string, unknown>[] = [];
  const record = (_: string, fields: Record<string, unknown>) => void records.push(fields);
  const log = { info: () => {}, record } as unknown as Log;
  noteProof(log, { device, precision: 'f32', proof }, 'policy');
  expect(records).toMatchObject([{ device: 'cuda:1', precision: 'f32' }]);
  expect((records[0] as { off: Record<string, number> }).off['log p']).toBeCloseTo(3, 3);
});
