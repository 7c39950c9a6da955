// Builds the decoding graph of a policy: rows that stand at exit points of prefixes write on, token by token, inside one run.

import { type Architecture, layerWindow } from '../graph/architecture.js';
import type { KeysAndValues } from '../graph/branch-attention.js';
import { cast, DTYPE, Graph, MICROSOFT, type Precision } from '../graph/onnx.js';
import { rowLayers, type Weight } from '../graph/operators.js';
import { sampler } from './sampler.js';

const CPU = 'policy.decode.onnx';
const CUDA = 'policy.decode.cuda.onnx';

/** What `policy build` adds to a folder for the policy to write. */
export function decodingParts(
  {
    architecture,
    weights,
  }: { readonly architecture: Architecture; readonly weights: ReadonlyMap<string, Weight> },
  precision: Precision,
) {
  const graphs: readonly (readonly [name: string, build: () => Graph])[] = [
    [CPU, () => buildDecodingGraph(architecture, weights, 'f32')],
    [CUDA, () => buildDecodingGraph(architecture, weights, precision)],
  ];
  return { graphs, decoding: { graph: CPU, cudaGraph: CUDA } };
}

/**
 * The decoding graph: a Loop over at most `steps` tokens of G groups of R rows, N = G·R. A group's rows share the prefix that
 * an earlier run of the scoring graph has read, whose keys stand in memory once; a row sees the first `exit` of them. The
 * Loop ends when no row has a token left to write.
 *
 * in  token [G,R] i64, the last token so far, at `pos` [G,R] · exit, left [G,R] i64: keys of the prefix in sight, tokens that the
 *     row may still write · prefix_k_i, prefix_v_i [G,kvHeads,T,headDim], past_k_i, past_v_i [G,kvHeads,R,P,headDim] f32 per layer, keys
 *     after rotation: the prefix's, and what the rows have written · uniform [steps,N] f32 in [0,1), a number a token
 *     stops [n] i64: tokens after which a row ends · inverse_temperature, top_p: f32 · cos, sin [M,headDim/2] f32
 * out tokens [t,N] i64, logprobs [t,N] f32: t ≤ steps, under the policy itself · k_i, v_i [G,kvHeads,R,t,headDim] f32 per layer,
 *     of the tokens that were read: the last one written is the next run's first
 */
function buildDecodingGraph(
  arch: Architecture,
  weights: ReadonlyMap<string, Weight>,
  precision: Precision = 'f32',
): Graph {
  const { layers, kvHeads, headDim } = arch;
  const g = new Graph('decode');
  const body = new Graph('step');
  const grouped = (name: string) => g.input(name, 'i64', ['G', 'R']);
  const [token, pos, exit, left] = [grouped('token'), grouped('pos'), grouped('exit'), grouped('left')];
  const uniform = g.input('uniform', 'f32', ['steps', 'N']);
  const stops = g.input('stops', 'i64', ['n']);
  const inverseTemperature = g.input('inverse_temperature', 'f32', []);
  const topP = g.input('top_p', 'f32', []);
  const cos = g.input('cos', 'f32', ['M', headDim / 2]);
  const sin = g.input('sin', 'f32', ['M', headDim / 2]);
  const pairs = (kind: string, shape: readonly (string | number)[]) =>
    Array.from({ length: layers }, (_, i) => ({
      k: g.input(`${kind}_k_${i}`, 'f32', shape),
      v: g.input(`${kind}_v_${i}`, 'f32', shape),
    }));
  const prefix = pairs('prefix', ['G', kvHeads, 'T', headDim]);
  const past = pairs('past', ['G', kvHeads, 'R', 'P', headDim]);

  // one token of every row; what a body graph does not take as an input it sees from outside
  const step = body.input('step.number', 'i64', []);
  body.input('step.goes_on', 'bool', []);
  const current = body.input('step.token', 'i64', ['N']);
  const stillLeft = body.input('step.left', 'i64', ['N']);
  const block = Array.from({ length: layers }, (_, i) => ({
    k: body.input(`step.k_${i}`, 'f32', ['G', kvHeads, 'R', 't', headDim]),
    v: body.input(`step.v_${i}`, 'f32', ['G', kvHeads, 'R', 't', headDim]),
  }));
  const layer = rowLayers(g, arch, weights, precision, body);
  const sight = { pos: body.node('Add', [pos, step]), exit, cos, sin, prefix, past, block };
  const attend = rowAttention(body, arch, sight, precision);
  let x = layer.embed(current); // [N,d]
  const written: { k: string; v: string }[] = [];
  for (let i = 0; i < layers; i++) {
    const { q, k, v } = layer.project(i, x);
    const { attended, ...own } = attend(i, q, k, v);
    written.push(own);
    x = layer.finish(i, x, attended);
  }
  const chosen = sampler(body, arch.vocab, {
    logits: layer.logits(x),
    uniform: body.node('Gather', [uniform, step]),
    inverseTemperature,
    topP,
  });
  const { nextLeft, isOn } = countDown(body, { token: chosen.token, stops, left: stillLeft });
  body.output('step.is_on', isOn, 'bool', []);
  body.output('step.next_token', chosen.token, 'i64', ['N']);
  body.output('step.next_left', nextLeft, 'i64', ['N']);
  for (const [i, { k, v }] of written.entries())
    for (const [name, value] of Object.entries({ k, v }))
      body.output(`step.next_${name}_${i}`, value, 'f32', ['G', kvHeads, 'R', 't_next', headDim]);
  body.output('step.out_token', chosen.token, 'i64', ['N']);
  body.output('step.out_logprob', chosen.logprob, 'f32', ['N']);

  const flat = (t: string) => g.node('Reshape', [t, g.ints([-1])]);
  const groups = g.node('Slice', [g.node('Shape', [token]), g.ints([0]), g.ints([1]), g.ints([0])]);
  const rows = g.node('Slice', [g.node('Shape', [token]), g.ints([1]), g.ints([2]), g.ints([0])]);
  const nothing = g.node('ConstantOfShape', [
    g.node('Concat', [groups, g.ints([kvHeads]), rows, g.ints([0, headDim])], { axis: 0 }),
  ]);
  const steps = g.node('Gather', [g.node('Shape', [uniform]), g.ints([0], [])]);
  const cache = Array.from({ length: layers }, (_, i) => [`k_${i}`, `v_${i}`]).flat();
  g.node(
    'Loop',
    [steps, '', flat(token), flat(left), ...cache.map(() => nothing)],
    { body: { graph: body } },
    { outputs: ['decode.last_token', 'decode.last_left', ...cache, 'tokens', 'logprobs'] },
  );
  g.output('tokens', 'tokens', 'i64', ['t', 'N']);
  g.output('logprobs', 'logprobs', 'f32', ['t', 'N']);
  for (const name of cache) g.output(name, name, 'f32', ['G', kvHeads, 'R', 't', headDim]);
  return g;
}

/** Tokens that each row [N] may still write after this one, and whether any row may: a stop token ends its row. */
function countDown(body: Graph, { token, stops, left }: Record<'token' | 'stops' | 'left', string>) {
  const anyOf = (flags: string, axis: number): string => {
    const ones = body.node('Cast', [flags], { to: DTYPE.f32 });
    const sum = body.node('ReduceSum', [ones, body.ints([axis])], { keepdims: 0 });
    return body.node('Greater', [sum, body.float(0)]);
  };
  const isStop = body.node('Equal', [body.node('Unsqueeze', [token, body.ints([1])]), stops]); // [N,n]
  const nextLeft = body.node('Where', [
    anyOf(isStop, 1),
    body.ints([0], []),
    body.node('Sub', [left, body.ints([1], [])]),
  ]);
  return { nextLeft, isOn: anyOf(body.node('Greater', [nextLeft, body.ints([0], [])]), 0) };
}

// ------ attention: a row sees a prefix up to its exit point, and all tokens that it has written itself

/** What rows see, by name; float32. G groups of R rows; keys and values of every layer. */
interface Sight {
  /** [G,R] position of the rows' tokens, and keys of the prefix in sight */
  readonly pos: string;
  readonly exit: string;
  /** [M, headDim/2] */
  readonly cos: string;
  readonly sin: string;
  /** [G,kvHeads,T,headDim] */
  readonly prefix: readonly KeysAndValues[];
  /** what rows wrote in earlier runs [G,kvHeads,R,P,headDim], and in this one [G,kvHeads,R,t,headDim] */
  readonly past: readonly KeysAndValues[];
  readonly block: readonly KeysAndValues[];
}

const HIDDEN = -1e30;

/**
 * One token of every row: q [G·R,heads·hd], k, v [G·R,kvHeads·hd] → attended [G·R,heads·hd], and the block with the new
 * keys and values. Softmax and products are float32, as those of branches are.
 *
 * The keys' order is prefix, earlier tokens, tokens of this run: padding at a prefix's end, in multiples of 64, then moves no
 * key of a row to another lane of a vector, so that a row's bits do not depend on how long its neighbours' prefixes are.
 */
function rowAttention(g: Graph, arch: Architecture, sight: Sight, precision: Precision) {
  const { kvHeads, headDim } = arch;
  const shared = arch.heads / kvHeads;
  const { pos, exit, cos, sin } = sight;
  const of = (i: number) =>
    [sight.prefix[i], sight.past[i], sight.block[i]] as [KeysAndValues, KeysAndValues, KeysAndValues];
  const dim = (t: string, axis: number) => g.node('Gather', [g.node('Shape', [t]), g.ints([axis], [])]);
  const one = (t: string) => g.node('Unsqueeze', [t, g.ints([0])]);
  const range = (to: string) => g.node('Range', [g.ints([0], []), to, g.ints([1], [])]);
  const bias = (visible: string) => g.node('Where', [visible, g.float(0), g.float(HIDDEN)]);
  const over = (t: string) => g.node('Unsqueeze', [t, g.ints([1, 3, 4])]); // [G,R] → [G,1,R,1,1]

  const [keys, earlier] = [dim(of(0)[0].k, 2), dim(of(0)[1].k, 3)];
  const perRow = (heads: number) =>
    g.node('Concat', [g.node('Shape', [pos]), g.ints([kvHeads, heads, headDim])], { axis: 0 });
  const [asQueries, asKeys] = [perRow(shared), perRow(1)]; // [G,R,kv,shared or 1,hd]
  const asRows = g.node('Concat', [g.ints([0, 0, -1, shared]), one(keys)], { axis: 0 }); // [G,kv,R,shared,T]
  const seesPrefix = g.node('Less', [range(keys), over(exit)]); // [G,1,R,1,T]
  const prefixBias = new Map<number | undefined, string>();
  const prefixBiasOf = (window: number | undefined): string => {
    const known = prefixBias.get(window);
    if (known !== undefined) return known;
    const visible =
      window === undefined
        ? seesPrefix
        : g.node('And', [
            seesPrefix,
            g.node('Greater', [range(keys), g.node('Sub', [over(pos), g.ints([window], [])])]),
          ]);
    const made = bias(visible);
    prefixBias.set(window, made);
    return made;
  };
  /** of the tokens that a row wrote, P + t of them, the newest sees the last `window` */
  const ownBiasOf = (own: string, window: number): string => {
    const count = dim(own, 4);
    const last = g.node('Sub', [count, g.ints([window], [])]); // newest index is count - 1
    return bias(g.node('GreaterOrEqual', [range(count), last]));
  };
  const rotated = (flat: string): string => {
    // rows are sequences of one token: of longer ones the operator wants tables at least as long
    const wide = g.node('Reshape', [cast(g, flat, precision, 'f32'), g.ints([0, 1, -1])]);
    return g.node(
      'RotaryEmbedding',
      [wide, g.node('Reshape', [pos, g.ints([-1, 1])]), cos, sin],
      {},
      MICROSOFT,
    );
  };
  /** a row's heads → [G,kvHeads,R,shared or 1,hd] */
  const perHead = (t: string, shape: string): string =>
    g.node('Transpose', [g.node('Reshape', [t, shape])], { perm: [0, 2, 1, 3, 4] });
  const scores = (q: string, k: string): string =>
    g.node('FusedMatMul', [q, k], { transB: 1, alpha: { float: 1 / Math.sqrt(headDim) } }, MICROSOFT);

  return (i: number, q: string, k: string, v: string): { attended: string } & KeysAndValues => {
    const window = layerWindow(arch, i);
    const [prefix, past, block] = of(i);
    const queries = perHead(rotated(q), asQueries);
    const grouped = g.node('Reshape', [queries, g.ints([0, 0, -1, headDim])]); // [G,kv,R·shared,hd]
    const blockK = g.node('Concat', [block.k, perHead(rotated(k), asKeys)], { axis: 3 });
    const blockV = g.node('Concat', [block.v, perHead(cast(g, v, precision, 'f32'), asKeys)], { axis: 3 });

    const onPrefix = g.node('Add', [
      g.node('Reshape', [scores(grouped, prefix.k), asRows]),
      prefixBiasOf(window),
    ]);
    let onOwn = g.node('Concat', [scores(queries, past.k), scores(queries, blockK)], { axis: 4 });
    if (window !== undefined) onOwn = g.node('Add', [onOwn, ownBiasOf(onOwn, window)]);
    const weights = g.node('Softmax', [g.node('Concat', [onPrefix, onOwn], { axis: 4 })], { axis: -1 });

    const sizes = g.node('Concat', [one(keys), one(earlier), one(dim(blockK, 3))], { axis: 0 });
    const parts = ['prefix', 'past', 'block'].map((part) => `${g.name}.weights_${part}_${i}`);
    g.node('Split', [weights, sizes], { axis: 4 }, { outputs: parts });
    const [ofPrefix, ofPast, ofBlock] = parts as [string, string, string];
    const flatPrefix = g.node('Concat', [g.ints([0, 0, -1]), one(keys)], { axis: 0 });
    const fromPrefix = g.node('MatMul', [g.node('Reshape', [ofPrefix, flatPrefix]), prefix.v]);
    const prefixPart = g.node('Reshape', [fromPrefix, g.ints([0, 0, -1, shared, headDim])]);
    const fromOwn = g.node('Add', [g.node('MatMul', [ofPast, past.v]), g.node('MatMul', [ofBlock, blockV])]);
    const mixed = g.node('Transpose', [g.node('Add', [prefixPart, fromOwn])], { perm: [0, 2, 1, 3, 4] });
    const attended = g.node('Reshape', [mixed, g.ints([-1, arch.heads * headDim])]);
    return { attended: cast(g, attended, 'f32', precision), k: blockK, v: blockV };
  };
}
