// Builds the two scoring graphs of a Llama-style policy: the trunk reads traces, the branch graph scores references at exits.
import type { Architecture } from './architecture.js';
import { FAMILIES, windowOf } from './families.js';
import { cutFlatHeads, cutHeads, paddedHeadDim, padHeads } from './head-padding.js';
import { DTYPE, type Dtype, type ExternalData, Graph } from './onnx.js';

/** A tensor of the checkpoint with the file (beside the graph) that holds it. */
export interface Weight extends ExternalData {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
}

/** Every tensor name the graphs need, with the shape that the architecture demands of it. */
export function expectedWeights(arch: Architecture): Map<string, readonly number[]> {
  const { hidden: d, heads, kvHeads, headDim, intermediate: f, vocab } = arch;
  const { qkvBias, qkNorm } = FAMILIES[arch.family];
  const shapes = new Map<string, readonly number[]>([
    ['model.embed_tokens.weight', [vocab, d]],
    ['model.norm.weight', [d]],
  ]);
  if (!arch.tiedHead) shapes.set('lm_head.weight', [vocab, d]);
  for (let layer = 0; layer < arch.layers; layer++) {
    const at = `model.layers.${layer}.`;
    shapes.set(`${at}input_layernorm.weight`, [d]);
    shapes.set(`${at}self_attn.q_proj.weight`, [heads * headDim, d]);
    shapes.set(`${at}self_attn.k_proj.weight`, [kvHeads * headDim, d]);
    shapes.set(`${at}self_attn.v_proj.weight`, [kvHeads * headDim, d]);
    shapes.set(`${at}self_attn.o_proj.weight`, [d, heads * headDim]);
    if (qkvBias) {
      shapes.set(`${at}self_attn.q_proj.bias`, [heads * headDim]);
      shapes.set(`${at}self_attn.k_proj.bias`, [kvHeads * headDim]);
      shapes.set(`${at}self_attn.v_proj.bias`, [kvHeads * headDim]);
    }
    if (qkNorm) {
      shapes.set(`${at}self_attn.q_norm.weight`, [headDim]);
      shapes.set(`${at}self_attn.k_norm.weight`, [headDim]);
    }
    shapes.set(`${at}post_attention_layernorm.weight`, [d]);
    shapes.set(`${at}mlp.gate_proj.weight`, [f, d]);
    shapes.set(`${at}mlp.up_proj.weight`, [f, d]);
    shapes.set(`${at}mlp.down_proj.weight`, [d, f]);
  }
  return shapes;
}

/**
 * The trunk: B traces of S tokens, causal, each read once.
 *
 * in  ids [B,S] i64 · cos, sin [M, headDim/2] f32, M ≥ S · rows, targets [n,C] i64: the rows of the flattened [B·S]
 *     positions to reduce and the token that follows each
 * out entropies, logprobs [n,C] f32 (nats) · k_i, v_i [B,kvHeads,S,headDim] f32 per layer, keys after rotation
 */
export function buildTrunkGraph(arch: Architecture, weights: ReadonlyMap<string, Weight>): Graph {
  const g = new Graph('trunk');
  const kv = ['B', arch.kvHeads, 'S', arch.headDim] as const;
  const ids = g.input('ids', 'i64', ['B', 'S']);
  const cos = g.input('cos', 'f32', ['M', arch.headDim / 2]);
  const sin = g.input('sin', 'f32', ['M', arch.headDim / 2]);
  const layer = decoder(g, arch, weights);

  const batchAndLength = g.node('Shape', [ids]); // [B,S]
  const perToken = g.node('Concat', [batchAndLength, g.ints([-1])], { axis: 0 }); // [B,S,-1]
  const batch = g.node('Gather', [batchAndLength, g.ints([0])]); // [1]
  const length = g.node('Gather', [batchAndLength, g.ints([1], [])]); // scalar
  const total = g.node('Cast', [length], { to: 6 });
  // padding stands at the end of short traces: causal rows before it never see it, so every length is S
  const lastIndex = g.node('Cast', [g.node('Sub', [length, g.ints([1], [])])], { to: 6 });
  const seqlens = g.node('Expand', [lastIndex, batch]);

  // ONNX Runtime's attention rotates heads of a multiple of 16 only; others are rotated before it
  const rotates = arch.headDim % 16 === 0;
  const isPadded = paddedHeadDim(arch.headDim) !== arch.headDim;
  const threeDims = (flat: string) => g.node('Reshape', [flat, perToken]);
  const rotated = (flat: string) =>
    rotates
      ? threeDims(flat)
      : g.node('RotaryEmbedding', [threeDims(flat), g.ints([0]), cos, sin], {}, { domain: 'com.microsoft' });

  let x = layer.embed(g.node('Reshape', [ids, g.ints([-1])])); // [B·S, d]
  for (let i = 0; i < arch.layers; i++) {
    const { q, k, v } = layer.project(i, x);
    const window = windowOf(arch, i);
    const [attended, key, value] = [`trunk.attended_${i}`, `trunk.k_${i}`, `trunk.v_${i}`] as const;
    g.node(
      'GroupQueryAttention',
      [
        padHeads(g, rotated(q), arch.heads, arch.headDim),
        padHeads(g, rotated(k), arch.kvHeads, arch.headDim),
        padHeads(g, threeDims(v), arch.kvHeads, arch.headDim),
        '',
        '',
        seqlens,
        total,
        ...(rotates ? [cos, sin] : []),
      ],
      {
        num_heads: arch.heads,
        kv_num_heads: arch.kvHeads,
        do_rotary: rotates ? 1 : 0,
        ...(isPadded ? { scale: { float: 1 / Math.sqrt(arch.headDim) } } : {}),
        ...(window === undefined ? {} : { local_window_size: window }),
      },
      { outputs: [attended, key, value], domain: 'com.microsoft' },
    );
    g.output(`k_${i}`, cutHeads(g, key, arch.headDim), 'f32', kv);
    g.output(`v_${i}`, cutHeads(g, value, arch.headDim), 'f32', kv);
    const narrow = cutFlatHeads(g, attended, arch.heads, arch.headDim);
    const flat = g.node('Reshape', [narrow, g.ints([-1, arch.heads * arch.headDim])]);
    x = layer.finish(i, x, flat);
  }
  const { entropies, logprobs } = layer.head(x);
  g.output('entropies', entropies, 'f32', ['n', 'C']);
  g.output('logprobs', logprobs, 'f32', ['n', 'C']);
  return g;
}

/**
 * The branches: G groups of C' rows; a branch is a run of rows inside one group that sees its trace's trunk up to its
 * exit point, and itself.
 *
 * in  ids, pos, exit, branch [G,R] i64: token, position, number of trunk tokens in sight, branch number of each row ·
 *     trace, keys [G,1] i64: which of the B traces the group belongs to, how many of its keys the group needs at most ·
 *     cos, sin [M, headDim/2] · rows, targets [n,C] as in the trunk, over the flattened [G·R] · k_i, v_i of the trunk
 * out logprobs [n,C] f32
 */
export function buildBranchGraph(arch: Architecture, weights: ReadonlyMap<string, Weight>): Graph {
  const g = new Graph('branch');
  const half = arch.headDim / 2;
  const ids = g.input('ids', 'i64', ['G', 'R']);
  const pos = g.input('pos', 'i64', ['G', 'R']);
  const exit = g.input('exit', 'i64', ['G', 'R']);
  const branch = g.input('branch', 'i64', ['G', 'R']);
  const trace = g.input('trace', 'i64', ['G', 1]);
  const keys = g.input('keys', 'i64', ['G', 1]);
  const cos = g.input('cos', 'f32', ['M', half]);
  const sin = g.input('sin', 'f32', ['M', half]);
  const layer = decoder(g, arch, weights);

  const grouped = g.node('Concat', [g.node('Shape', [ids]), g.ints([-1, arch.headDim])], { axis: 0 }); // [G,R,-1,hd]
  const cosRows = g.node('Unsqueeze', [g.node('Gather', [cos, pos]), g.ints([1])]); // [G,1,R,hd/2]
  const sinRows = g.node('Unsqueeze', [g.node('Gather', [sin, pos]), g.ints([1])]);
  /** [G·R, heads·hd] → [G,heads,R,hd] */
  const perHead = (flat: string) =>
    g.node('Transpose', [g.node('Reshape', [flat, grouped])], { perm: [0, 2, 1, 3] });

  let x = layer.embed(g.node('Reshape', [ids, g.ints([-1])])); // [G·R, d]
  for (let i = 0; i < arch.layers; i++) {
    const trunkK = g.input(`k_${i}`, 'f32', ['B', arch.kvHeads, 'S', arch.headDim]);
    const trunkV = g.input(`v_${i}`, 'f32', ['B', arch.kvHeads, 'S', arch.headDim]);
    const { q, k, v } = layer.project(i, x);
    const attended = g.node(
      'Scan',
      [
        rotate(g, perHead(q), cosRows, sinRows, half),
        rotate(g, perHead(k), cosRows, sinRows, half),
        perHead(v),
        exit,
        branch,
        pos,
        trace,
        keys,
      ],
      { body: { graph: branchAttention(arch, i, trunkK, trunkV) }, num_scan_inputs: 8 },
    ); // [G,R,heads·hd]
    const flat = g.node('Reshape', [attended, g.ints([-1, arch.heads * arch.headDim])]);
    x = layer.finish(i, x, flat);
  }
  g.output('logprobs', layer.head(x).logprobs, 'f32', ['n', 'C']);
  return g;
}

/** Half-split rotary embedding (Hugging Face convention) of x [G,heads,R,hd] by cos, sin [G,1,R,hd/2]. */
function rotate(g: Graph, x: string, cos: string, sin: string, half: number): string {
  const low = g.node('Slice', [x, g.ints([0]), g.ints([half]), g.ints([3])]);
  const high = g.node('Slice', [x, g.ints([half]), g.ints([2 * half]), g.ints([3])]);
  const turnedLow = g.node('Sub', [g.node('Mul', [low, cos]), g.node('Mul', [high, sin])]);
  const turnedHigh = g.node('Add', [g.node('Mul', [high, cos]), g.node('Mul', [low, sin])]);
  return g.node('Concat', [turnedLow, turnedHigh], { axis: 3 });
}

/** Scan body: attention of one group's rows to the trunk before their exits and to their own branch. */
function branchAttention(arch: Architecture, layer: number, trunkK: string, trunkV: string): Graph {
  const { heads, kvHeads, headDim } = arch;
  const g = new Graph(`attend_${layer}`);
  const name = (n: string) => `attend_${layer}.${n}`;
  const q = g.input(name('q'), 'f32', [heads, 'R', headDim]);
  const k = g.input(name('k'), 'f32', [kvHeads, 'R', headDim]);
  const v = g.input(name('v'), 'f32', [kvHeads, 'R', headDim]);
  const exit = g.input(name('exit'), 'i64', ['R']);
  const branch = g.input(name('branch'), 'i64', ['R']);
  const pos = g.input(name('pos'), 'i64', ['R']);
  const trace = g.input(name('trace'), 'i64', [1]);
  const keys = g.input(name('keys'), 'i64', [1]);

  const starts = g.node('Concat', [trace, g.ints([0])], { axis: 0 });
  const ends = g.node('Concat', [g.node('Add', [trace, g.ints([1])]), keys], { axis: 0 });
  /** [B,kvHeads,S,hd] → this trace's first `keys` positions, then the branch rows' own: [kvHeads,E,hd] */
  const withTrunk = (trunk: string, own: string) => {
    const seen = g.node('Slice', [trunk, starts, ends, g.ints([0, 2])]);
    return g.node('Concat', [g.node('Squeeze', [seen, g.ints([0])]), own], { axis: 1 });
  };
  const allK = withTrunk(trunkK, k);
  const allV = withTrunk(trunkV, v);

  const column = (t: string) => g.node('Unsqueeze', [t, g.ints([1])]);
  const row = (t: string) => g.node('Unsqueeze', [t, g.ints([0])]);
  const positions = g.node('Range', [g.ints([0], []), g.node('Squeeze', [keys]), g.ints([1], [])]);
  const seesTrunk = g.node('Less', [row(positions), column(exit)]); // [R,keys]
  const sameBranch = g.node('Equal', [row(branch), column(branch)]);
  const seesOwn = g.node('And', [sameBranch, g.node('LessOrEqual', [row(pos), column(pos)])]); // [R,R]
  let visible = g.node('Concat', [seesTrunk, seesOwn], { axis: 1 }); // [R,E]
  const window = windowOf(arch, layer);
  if (window !== undefined) {
    const keyPositions = g.node('Concat', [positions, pos], { axis: 0 }); // [E]
    const before = g.node('Sub', [pos, g.ints([window], [])]); // [R], the last position out of sight
    visible = g.node('And', [visible, g.node('Greater', [row(keyPositions), column(before)])]);
  }
  const bias = g.node('Where', [visible, g.float(0), g.float(-1e30)]);

  // query heads that share a key head lie together: [heads,R,hd] = [kvHeads, shared·R, hd], one batched MatMul
  const shared = heads / kvHeads;
  const scaled = g.node('Mul', [q, g.float(1 / Math.sqrt(headDim))]);
  const queries = g.node('Reshape', [scaled, g.ints([kvHeads, -1, headDim])]);
  const scores = g.node('MatMul', [queries, g.node('Transpose', [allK], { perm: [0, 2, 1] })]); // [kvHeads,shared·R,E]
  const rowsAndKeys = g.node('Concat', [g.ints([kvHeads, shared]), g.node('Shape', [bias])], { axis: 0 });
  const weights = g.node(
    'Softmax',
    [g.node('Add', [g.node('Reshape', [scores, rowsAndKeys]), bias])], // [kvHeads,shared,R,E]
    { axis: -1 },
  );
  const mixed = g.node('MatMul', [g.node('Reshape', [weights, g.node('Shape', [scores])]), allV]);
  const perRow = g.node('Transpose', [g.node('Reshape', [mixed, g.ints([heads, -1, headDim])])], {
    perm: [1, 0, 2],
  });
  const flat = g.node('Reshape', [perRow, g.ints([0, -1])]);
  g.output(name('out'), flat, 'f32', ['R', heads * headDim]);
  return g;
}

/** The parts both graphs share: everything that acts on single rows. */
function decoder(g: Graph, arch: Architecture, weights: ReadonlyMap<string, Weight>) {
  const placed = new Map<string, string>();
  const stored = (name: string): string => {
    const weight = weights.get(name);
    if (weight === undefined) throw new Error(`graph builder asked for the unknown weight ${name}`);
    const { location, offset, length } = weight;
    if (!placed.has(name))
      placed.set(name, g.weight(name, weight.dtype, weight.shape, { location, offset, length }));
    return name;
  };
  const widened = new Map<string, string>();
  const isFloat32 = (name: string) => weights.get(name)?.dtype === 'f32';
  /** a weight as float32; half-precision ones are cast in the main graph, where bodies see them too */
  const float32 = (name: string): string => {
    if (isFloat32(name)) return stored(name);
    const cast = widened.get(name) ?? g.node('Cast', [stored(name)], { to: DTYPE.f32 });
    widened.set(name, cast);
    return cast;
  };
  const norm = (x: string, name: string, graph = g) =>
    graph.node('SimplifiedLayerNormalization', [x, float32(name)], {
      axis: -1,
      epsilon: { float: arch.rmsNormEps },
    });
  const linear = (x: string, name: string, bias?: string) =>
    g.node('Gemm', [x, float32(name), ...(bias === undefined ? [] : [float32(bias)])], { transB: 1 });
  const { qkvBias, qkNorm } = FAMILIES[arch.family];
  /** RMS norm of each head on its own: x [N,heads·hd], weight [hd] */
  const normHeads = (x: string, name: string, heads: number) => {
    const perHead = g.node('Reshape', [x, g.ints([-1, arch.headDim])]);
    return g.node('Reshape', [norm(perHead, name), g.ints([-1, heads * arch.headDim])]);
  };
  const at = (i: number) => `model.layers.${i}`;
  return {
    /** ids [N] → [N,d] */
    embed(ids: string) {
      const name = 'model.embed_tokens.weight';
      const rows = g.node('Gather', [stored(name), ids]); // cast after it: only the rows in use
      return isFloat32(name) ? rows : g.node('Cast', [rows], { to: DTYPE.f32 });
    },
    /** x [N,d] → q [N,heads·hd], k and v [N,kvHeads·hd], before rotation */
    project(i: number, x: string) {
      const h = norm(x, `${at(i)}.input_layernorm.weight`);
      const projected = (letter: 'q' | 'k' | 'v') => {
        const name = `${at(i)}.self_attn.${letter}_proj`;
        return linear(h, `${name}.weight`, qkvBias ? `${name}.bias` : undefined);
      };
      const [q, k, v] = [projected('q'), projected('k'), projected('v')] as const;
      if (!qkNorm) return { q, k, v };
      return {
        q: normHeads(q, `${at(i)}.self_attn.q_norm.weight`, arch.heads),
        k: normHeads(k, `${at(i)}.self_attn.k_norm.weight`, arch.kvHeads),
        v,
      };
    },
    /** output projection and SwiGLU, both residual: x [N,d], attended [N,heads·hd] → [N,d] */
    finish(i: number, x: string, attended: string) {
      const y = g.node('Add', [x, linear(attended, `${at(i)}.self_attn.o_proj.weight`)]);
      const h = norm(y, `${at(i)}.post_attention_layernorm.weight`);
      const gate = linear(h, `${at(i)}.mlp.gate_proj.weight`);
      const silu = g.node('Mul', [gate, g.node('Sigmoid', [gate])]);
      const mixed = g.node('Mul', [silu, linear(h, `${at(i)}.mlp.up_proj.weight`)]);
      return g.node('Add', [y, linear(mixed, `${at(i)}.mlp.down_proj.weight`)]);
    },
    /** Adds the inputs rows and targets [n,C]; x [N,d] → entropies and logprobs [n,C], C rows of logits at a time. */
    head(x: string) {
      const rows = g.input('rows', 'i64', ['n', 'C']);
      const targets = g.input('targets', 'i64', ['n', 'C']);
      const body = new Graph('head');
      const blockRows = body.input('head.rows', 'i64', ['C']);
      const blockTargets = body.input('head.targets', 'i64', ['C']);
      const h = norm(body.node('Gather', [x, blockRows]), 'model.norm.weight', body); // [C,d]
      const matrix = float32(arch.tiedHead ? 'model.embed_tokens.weight' : 'lm_head.weight');
      const logp = body.node('LogSoftmax', [body.node('Gemm', [h, matrix], { transB: 1 })], { axis: 1 }); // [C,V]
      const plogp = body.node('Mul', [body.node('Exp', [logp]), logp]);
      const entropy = body.node('Neg', [body.node('ReduceSum', [plogp, body.ints([1])], { keepdims: 0 })]);
      const picked = body.node(
        'GatherElements',
        [logp, body.node('Unsqueeze', [blockTargets, body.ints([1])])],
        {
          axis: 1,
        },
      );
      body.output('head.entropy', entropy, 'f32', ['C']);
      body.output('head.logprob', body.node('Squeeze', [picked, body.ints([1])]), 'f32', ['C']);
      const outputs = ['head.entropies', 'head.logprobs'] as const;
      g.node('Scan', [rows, targets], { body: { graph: body }, num_scan_inputs: 2 }, { outputs });
      return { entropies: outputs[0], logprobs: outputs[1] };
    },
  };
}
