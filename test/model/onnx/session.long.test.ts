// As session.test.ts: a trace of over 1,024 tokens, for which the rope tables grow and the head has a second block.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openPolicyFolder } from '../../../dist/model/onnx/folder.js';
import { ModelSession } from '../../../dist/model/onnx/session.js';
import { continuationLogprobs, fork, loadOracleModel, tokenStats } from '../../oracle/llama.js';
import { seeded } from '../../oracle/toy.js';
import { EMBEDDED } from '../../support/program.js';

/** On what the policy was not trained on, float32 itself is this far from float64; a wrong mask or position gives .1 and more. */
const NATS = 5e-4;
let session: ModelSession;

beforeAll(async () => {
  session = await ModelSession.open(await openPolicyFolder(EMBEDDED));
});
afterAll(() => session.close());

function expectClose(found: ArrayLike<number>, expected: ArrayLike<number>): void {
  expect(found.length).toBe(expected.length);
  for (let i = 0; i < expected.length; i++)
    expect(Math.abs((found[i] as number) - (expected[i] as number)), `at ${i}`).toBeLessThan(NATS);
}

/** Bytes of sums: a long text that repeats itself. */
function sumIds(random: () => number, length: number): Int32Array {
  let text = '';
  while (text.length < length) {
    const [a, b] = [random(), random()].map((x) => Math.floor(x * 90)) as [number, number];
    text += `${a}+${b}=${a + b}\n`;
  }
  return Int32Array.from(Buffer.from(text).subarray(0, length));
}

it('has the numbers of the float64 pass, in prefix and branch', async () => {
  const model = loadOracleModel(EMBEDDED);
  const random = seeded(2);
  const ids = sumIds(random, 1060);
  const branch = { exit: 1050, ids: sumIds(random, 9), scoredFrom: 2 };
  const [prefix] = await session.run([{ ids, promptLength: 1, branches: [] }], 0);
  const expected = tokenStats(model, [...ids]);
  expectClose(prefix?.entropies ?? [], expected.entropies.slice(1));
  expectClose(prefix?.logprobs ?? [], expected.logprobs.slice(1));
  const [kept] = await session.branches(0, [[branch]]);
  const scored = continuationLogprobs(model, fork(expected.state, 1050), [...branch.ids]).slice(2);
  expectClose(kept?.branches[0] ?? [], scored);
  await session.release(0);
});
