/** The graphs of attention and gradient against a float64 pass: its attention weights, and finite differences of it. */
import { readFile, writeFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { type Ablated, overSegments, posteriors, sequenceOf } from '../../../dist/estimate/attributed.js';
import { openPolicyFolder } from '../../../dist/model/onnx/folder.js';
import { ModelSession } from '../../../dist/model/onnx/session.js';
import { attentionMass, gradientNorms, type OracleTrace } from '../../oracle/attribution.js';
import { familyScores, type loadFamily } from '../../oracle/families.js';
import { seeded } from '../../oracle/toy.js';
import { type Json, LLAMA, type TensorType } from '../../support/checkpoints.js';
import { openFamily } from '../../support/family-checks.js';

const SMALL: Json = { ...LLAMA, hidden_size: 8, intermediate_size: 9, vocab_size: 61 };
const HEADS: Json = { num_attention_heads: 4, num_key_value_heads: 2, head_dim: 6 };
const random = seeded(17);
const randomIds = (length: number) => Int32Array.from({ length }, () => Math.floor(random() * 61));

/** Three segments after a prompt of two tokens; two references, whose first scored token is the given one. */
function madeTrace(model: ReturnType<typeof loadFamily>, scoredFrom: number) {
  const trace: Ablated = {
    promptIds: randomIds(2),
    completionIds: randomIds(11),
    exits: Int32Array.of(1, 3, 4, 7),
    continuations: [
      { ids: randomIds(4), scoredFrom, utility: 1 },
      { ids: randomIds(3), scoredFrom, utility: 0.5 },
    ],
  };
  const ids = [...trace.promptIds, ...trace.completionIds.subarray(0, 7)];
  const oracle: OracleTrace = {
    ids,
    exits: Array.from(trace.exits, (exit) => 2 + exit),
    references: trace.continuations.map(({ ids: own, utility }) => ({
      ...{ ids: [...own], utility, scored: own.length - scoredFrom },
    })),
  };
  const logprobs = trace.continuations.map(({ ids: own }) =>
    Float32Array.from(familyScores(model, [...ids, ...own]).logprobs.slice(ids.length + scoredFrom)),
  );
  return { trace, oracle, logprobs };
}

const CASES: readonly (readonly [string, TensorType, Json])[] = [
  ['key heads that several queries share, a head of its own', 'F32', HEADS],
  [
    'biases, a tied head, BF16',
    'BF16',
    { ...HEADS, architectures: ['Qwen2ForCausalLM'], tie_word_embeddings: true },
  ],
  [
    'norms of heads, stretched positions',
    'F32',
    {
      ...HEADS,
      architectures: ['Qwen3ForCausalLM'],
      rope_scaling: { type: 'yarn', factor: 4, original_max_position_embeddings: 64 },
    },
  ],
  ['a window', 'F16', { ...HEADS, architectures: ['MistralForCausalLM'], sliding_window: 5 }],
];

describe('attention and gradient', () => {
  it.each(CASES)('%s', async (_, dtype, more) => {
    await using opened = await openFamily({ ...SMALL, ...more }, { dtype });
    const { session, model } = opened;
    for (const scoredFrom of more === HEADS ? [1, 0] : [1]) {
      const { trace, oracle, logprobs } = madeTrace(model, scoredFrom);
      const found = async (
        kind: 'attention' | 'gradient',
        { continuations, ...rest } = trace,
        lp = logprobs,
      ) => {
        await session.openAttribution(kind);
        const own = { ...rest, continuations };
        const weights = posteriors(lp, continuations);
        return session.attribute(sequenceOf(own, weights, kind === 'attention'));
      };
      const mass = await found('attention');
      const expected = attentionMass(model, oracle);
      for (const [k, a] of overSegments(mass, trace).entries())
        expect(a).toBeCloseTo(expected[k] as number, 6);
      // all keys, the prompt's and the references' own among them
      expect(mass.reduce((sum, m) => sum + m, 0)).toBeCloseTo(1, 5);

      const squares = await found('gradient');
      const norms = gradientNorms(model, oracle);
      for (const [k, sum] of overSegments(squares, trace).entries())
        expect(Math.abs(Math.sqrt(sum) / (norms[k] as number) - 1)).toBeLessThan(1e-4);

      // the bank is a set: its order changes nothing
      const turned = { ...trace, continuations: [...trace.continuations].reverse() };
      for (const [kind, tokens] of [
        ['attention', mass],
        ['gradient', squares],
      ] as const) {
        const again = overSegments(await found(kind, turned, [...logprobs].reverse()), trace);
        for (const [k, a] of overSegments(tokens, trace).entries())
          expect(Math.abs((again[k] as number) - a)).toBeLessThan(1e-5 * Math.max(1e-3, a));
      }
    }
  });

  it('a segment that nobody sees counts for nothing', async () => {
    const alone = {
      ...HEADS,
      architectures: ['MistralForCausalLM'],
      sliding_window: 2,
      num_hidden_layers: 1,
    };
    await using opened = await openFamily({ ...SMALL, ...alone });
    const { session, model } = opened;
    const { trace, logprobs } = madeTrace(model, 2);
    const weights = posteriors(logprobs, trace.continuations);
    for (const kind of ['attention', 'gradient'] as const) {
      await session.openAttribution(kind);
      const tokens = await session.attribute(sequenceOf(trace, weights, kind === 'attention'));
      const segments = overSegments(tokens, trace);
      // one layer, two keys: the answer's rows see its template alone
      expect([...segments]).toEqual([0, 0, 0]);
      expect(Math.max(...tokens)).toBeGreaterThan(0);
    }
  });
});

it('a folder of an earlier version says how to get the graphs', async () => {
  await using built = await openFamily({ ...SMALL, ...HEADS });
  const path = `${built.folder.path}/policy.json`;
  const { attribution: _, ...older } = JSON.parse(await readFile(path, 'utf8'));
  await writeFile(path, JSON.stringify(older));
  const session = await ModelSession.open(await openPolicyFolder(built.folder.path));
  const asked = session.openAttribution('gradient').finally(() => session.close());
  await expect(asked).rejects.toThrow(/has no graph that attributes/);
});
