// The graph for CUDA, whose branches stand in lanes, beside the CPU's, whose groups cut their keys: in float32 the same numbers.
import { readFileSync, writeFileSync } from 'node:fs';
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { describe, expect, test } from 'vitest';
import { buildPolicyFolder } from '../../../dist/model/onnx/build.js';
import { fromFloat16 } from '../../../dist/model/onnx/float16.js';
import type { PolicyFolder } from '../../../dist/model/onnx/folder.js';
import { packBranches } from '../../../dist/model/onnx/pack.js';
import type { Branch, PackedTrace, TraceScores } from '../../../dist/model/onnx/placed.js';
import { ModelSession } from '../../../dist/model/onnx/session.js';
import { seeded } from '../../oracle/toy.js';
import { type Json, writeCheckpoint } from '../../support/checkpoints.js';
import { emulateHalf } from '../../support/emulated-half.js';
import { differences, FAMILIES } from '../../support/family-checks.js';
import { temporaryFolder } from '../../support/program.js';

const TEMPLATE = { close: '\u0001', open: '', closer: '\u0002' };
const SHAPES: Record<string, Json> = {
  ...FAMILIES,
  'Mistral, a window': { ...FAMILIES.Mistral, sliding_window: 9 },
  'Qwen3, windows in some layers': {
    ...{ ...FAMILIES.Qwen3, use_sliding_window: true, sliding_window: 7, num_hidden_layers: 3 },
    layer_types: ['full_attention', 'sliding_attention', 'full_attention'],
  },
};

/** A policy's folder, and a copy whose CPU graph is the one for CUDA, computed in float32. */
async function folders(config: Json) {
  const at = await temporaryFolder();
  writeCheckpoint(`${at}/checkpoint`, config, { dtype: 'F32' });
  const own = await buildPolicyFolder(`${at}/checkpoint`, `${at}/policy`, TEMPLATE);
  await cp(own.path, `${at}/lanes`, { recursive: true });
  const lanes: PolicyFolder = { ...own, path: `${at}/lanes` };
  const graph = readFileSync(join(own.path, 'policy.cuda.onnx'));
  writeFileSync(join(lanes.path, 'policy.onnx'), emulateHalf(graph, false));
  return { own, lanes };
}

const random = seeded(11);
const anyIds = (length: number) => Int32Array.from({ length }, () => Math.floor(random() * 131));
const branchesAt = (...exits: number[]): Branch[] =>
  exits.map((exit, n) => ({ exit, ids: anyIds(3 + ((n * 5) % 9)), scoredFrom: 1 + (n % 2) }));

/** Alone and behind a prompt that two of them share; one has no branch, one a gap, another two of one exit. */
function anyTraces(): PackedTrace[] {
  const prompt = anyIds(13);
  const shared = [21, 8].map((length) => ({
    ...{ ids: Int32Array.of(...prompt, ...anyIds(length)), promptLength: 13, shares: 4 },
    branches: branchesAt(13, 12, 17, 13 + length, 17),
    states: [13, 15],
  }));
  const gap = { ...(branchesAt(30)[0] as Branch), gap: { before: 1, tokens: 3 } };
  return [
    { ids: anyIds(41), promptLength: 3, branches: [...branchesAt(3, 41, 3, 20), gap], states: [3, 40] },
    ...shared,
    { ids: anyIds(11), promptLength: 2, branches: [], states: [] },
    { ids: anyIds(19), promptLength: 1, branches: branchesAt(7), states: [19] },
  ];
}

/** Of every trace what was said of it, and the numbers of its states. */
function numbersOf(scores: readonly TraceScores[]): [nats: number[], states: Float32Array] {
  const nats = scores.flatMap(({ entropies, logprobs, branches }) => [
    ...[...entropies, ...logprobs, ...branches.flatMap((own) => [...own])],
  ]);
  const halves = scores.flatMap(({ states = [] }) => [...states]);
  const states = new Float32Array(halves.length);
  fromFloat16(Uint16Array.from(halves), states);
  return [nats, states];
}

type Numbers = ReturnType<typeof numbersOf>;

describe('lanes beside groups, in one run and in two', () => {
  test.each(Object.keys(SHAPES))('%s', async (name) => {
    const { own, lanes } = await folders(SHAPES[name] as Json);
    await using groups = await ModelSession.openUnproved(own);
    await using session = await ModelSession.openUnproved(lanes);
    const traces = anyTraces();
    const bare = traces.map((trace) => ({ ...trace, branches: [] }));
    const asked = traces.map(({ branches }) => branches);
    const found = await Promise.all(
      [groups, session].map(async (each) => {
        const once = await each.run(traces);
        const one = await each.run(traces.slice(1, 2));
        return [...once, ...one, ...(await each.run(bare, 1)), ...(await each.branches(1, asked))];
      }),
    );
    const [[nats, states], [expected, ofGroups]] = found.map(numbersOf) as [Numbers, Numbers];
    expect(differences(nats, expected).most).toBeLessThan(1e-5);
    // of one number float16 may have neighbours
    expect(states.length).toBeGreaterThan(0);
    expect(differences(states, ofGroups).most).toBeLessThan(4e-3);
  });
});

test('a lane of more rows than there are positions: its table is as long', async () => {
  const { own, lanes } = await folders(FAMILIES.Llama as Json);
  await using groups = await ModelSession.openUnproved(own);
  await using session = await ModelSession.openUnproved(lanes);
  const exits = Array.from({ length: 350 }, (_, n) => n % 9);
  const trace = { ids: anyIds(9), promptLength: 1, branches: branchesAt(...exits.map((exit) => exit + 1)) };
  const [[nats], [expected]] = (await Promise.all([session, groups].map((each) => each.run([trace])))).map(
    numbersOf,
  ) as [Numbers, Numbers];
  expect(trace.branches.flatMap(({ ids }) => [...ids]).length).toBeGreaterThan(1024);
  expect(differences(nats, expected).most).toBeLessThan(1e-5);
});

/** Log-probabilities of branches, by lanes of which so many scores of a head have room at once; and how many groups that makes. */
async function inRoom(session: InferenceSession, traces: readonly PackedTrace[], scores: number) {
  const [B, S] = [traces.length, Math.max(...traces.map(({ ids }) => ids.length))];
  const branches = traces.map((trace) => trace.branches);
  const packed = packBranches(branches, undefined, undefined, { keys: S, scores });
  const { groups: G, lanes: W, rowsPerGroup: R } = packed;
  const int64 = (values: Iterable<number | bigint>, ...dims: number[]) =>
    new Tensor('int64', BigInt64Array.from(values as Iterable<bigint>, BigInt), dims);
  const n = packed.rows.length;
  const given: Record<string, Tensor> = {
    ids: int64(
      traces.flatMap(({ ids }) => [...ids, ...new Array(S - ids.length).fill(0)]),
      B,
      S,
    ),
    ...{ branch_ids: int64(packed.ids, G, W, R), branch_pos: int64(packed.pos, G, W, R) },
    ...{ branch_exit: int64(packed.exit, G, W, R), branch_number: int64(packed.number, G, W, R) },
    rows: int64(
      packed.rows.map((row) => B * S + row),
      1,
      n,
    ),
    targets: int64(packed.targets, 1, n),
  };
  for (const [name, values] of Object.entries(packed.places)) given[name] = int64(values, G, W);
  const sizes: Record<string, number> = { B, N: B, M: 128, P: 0, Q: 0, L: 0, m: 0 };
  for (const {
    name,
    type,
    shape,
  } of session.inputMetadata as readonly InferenceSession.TensorValueMetadata[]) {
    const dims = shape.map((dim) => (typeof dim === 'number' ? dim : (sizes[dim] as number)));
    const size = dims.reduce((product, dim) => product * dim, 1);
    given[name] ??=
      type === 'int64'
        ? int64([], ...dims)
        : new Tensor(
            'float32',
            Float32Array.from({ length: size }, (_, i) => Math.sin(i)),
            dims,
          );
  }
  const { logprobs } = await session.run(given, ['logprobs']);
  return { groups: G, logprobs: logprobs?.data as Float32Array };
}

test('lanes that have no room at once stand in groups, and their numbers are the same', async () => {
  const { lanes } = await folders({ ...FAMILIES.Mistral, sliding_window: 9 } as Json);
  const session = await InferenceSession.create(join(lanes.path, 'policy.onnx'));
  const traces = [30, 17, 24].map((length) => {
    return { ids: anyIds(length), promptLength: 1, branches: branchesAt(1, 5, length, 5, 12) };
  });
  const [whole, ...parts] = await Promise.all([1e6, 4000, 500].map((room) => inRoom(session, traces, room)));
  expect([whole?.groups, ...parts.map(({ groups }) => groups)]).toEqual([1, 2, 9]);
  for (const { logprobs } of parts)
    expect(differences(logprobs, whole?.logprobs ?? []).most).toBeLessThan(1e-5);
});
