// The forward pass of one sequence in plain nodes, with everything within reach that attention and gradients are read from.
import type { Architecture } from './architecture.js';
import { rotate } from './branch-attention.js';
import { FAMILIES, layerWindow } from './families.js';
import type { WeightSource } from './layers.js';
import { type Graph, MICROSOFT } from './onnx.js';

const HIDDEN = -1e30;

/** A graph's inputs by name. S tokens of a trace and its references, n of them scored. */
export interface SequenceInputs {
  /** [S] i64 token, position, and whose it is: −1 the trace's, else its reference's */
  readonly ids: string;
  readonly pos: string;
  readonly number: string;
  /** [M,headDim/2] f32 */
  readonly cos: string;
  readonly sin: string;
  /** [n] rows that predict a scored token, i64 */
  readonly rows: string;
  /** [n] f32 what each of them counts for */
  readonly weights: string;
}

export function sequenceInputs(g: Graph, { headDim }: Architecture): SequenceInputs {
  return {
    ids: g.input('ids', 'i64', ['S']),
    pos: g.input('pos', 'i64', ['S']),
    number: g.input('number', 'i64', ['S']),
    cos: g.input('cos', 'f32', ['M', headDim / 2]),
    sin: g.input('sin', 'f32', ['M', headDim / 2]),
    rows: g.input('rows', 'i64', ['n']),
    weights: g.input('weights', 'f32', ['n']),
  };
}

/** What one layer made of x [S,d]; H heads on G key heads, R = H/G·S rows a key head. */
export interface LayerNodes {
  readonly x: string;
  /** [S,H·hd], [S,G·hd] before norms of heads and rotation */
  readonly q: string;
  readonly k: string;
  /** [G,R,hd], [G,S,hd], [G,S,hd] as attention takes them */
  readonly queries: string;
  readonly keys: string;
  readonly values: string;
  /** [G,R,S] attention weights */
  readonly attention: string;
  /** [G,R,hd] */
  readonly mixed: string;
  /** [S,d] between attention and MLP */
  readonly y: string;
  /** [S,f] */
  readonly gate: string;
  readonly up: string;
  /** [S,d] */
  readonly out: string;
}

/** The layers of a policy over one sequence, float32. */
export function sequenceLayers(
  g: Graph,
  arch: Architecture,
  { weight, rowsOf }: WeightSource,
  { ids, pos, number, cos, sin }: SequenceInputs,
) {
  const { heads, kvHeads, headDim } = arch;
  const { qkvBias, qkNorm } = FAMILIES[arch.family];
  const shared = heads / kvHeads;
  const length = g.node('Shape', [ids]); // [1]
  const column = (t: string) => g.node('Unsqueeze', [t, g.ints([1])]);
  const row = (t: string) => g.node('Unsqueeze', [t, g.ints([0])]);
  const all = g.node('Range', [g.ints([0], []), g.node('Squeeze', [length]), g.ints([1], [])]);

  const biasOf = attentionBias(g, { pos, number }, { all, column, row });
  const [cosRows, sinRows] = [cos, sin].map((table) => g.node('Gather', [table, pos])) as [string, string];
  const backSin = g.node('Neg', [sinRows]);
  /** half-split rotation of t [heads,S,hd] to its positions, or back from them: of a gradient that is the transpose */
  const turned = (t: string, isBack = false): string =>
    rotate(g, t, cosRows, isBack ? backSin : sinRows, headDim / 2, 2);
  /** [S,heads·hd] → [heads,S,hd], and back */
  const perHead = (t: string, count: number): string =>
    g.node('Transpose', [g.node('Reshape', [t, g.ints([0, count, headDim])])], { perm: [1, 0, 2] });
  const flat = (t: string): string =>
    g.node('Reshape', [g.node('Transpose', [t], { perm: [1, 0, 2] }), g.ints([0, -1])]);
  /** heads that share a key head lie together: [H,S,hd] → [G,R,hd], and back */
  const grouped = (t: string): string => g.node('Reshape', [t, g.ints([kvHeads, -1, headDim])]);
  const ungrouped = (t: string): string => g.node('Reshape', [t, g.ints([heads, -1, headDim])]);

  const norm = (x: string, name: string): string =>
    g.node('SimplifiedLayerNormalization', [x, weight(name)], {
      axis: -1,
      epsilon: { float: arch.rmsNormEps },
    });
  const linear = (x: string, name: string, bias?: string): string =>
    g.node('Gemm', [x, weight(name), ...(bias === undefined ? [] : [weight(bias)])], { transB: 1 });
  const normHeads = (t: string, name: string): string => {
    const apart = g.node('Reshape', [t, g.ints([-1, headDim])]);
    return g.node('Reshape', [norm(apart, name), g.node('Shape', [t])]);
  };
  const perRow = g.node('Concat', [g.ints([kvHeads, shared]), length, length], { axis: 0 });

  return {
    ...{ rotate: turned, perHead, flat, grouped, ungrouped, norm, linear, column, row },
    /** [S] 0, 1, … */
    all,
    /** [S,d] */
    embedded: () => rowsOf('model.embed_tokens.weight', ids),
    /** [G,R,S] → [G,H/G,S,S] */
    byHead: (attention: string) => g.node('Reshape', [attention, perRow]),
    /** One layer on x [S,d]. */
    layer(i: number, x: string): LayerNodes {
      const at = `model.layers.${i}`;
      const h = norm(x, `${at}.input_layernorm.weight`);
      const [q, k, v] = (['q', 'k', 'v'] as const).map((letter) => {
        const name = `${at}.self_attn.${letter}_proj`;
        return linear(h, `${name}.weight`, qkvBias ? `${name}.bias` : undefined);
      }) as [string, string, string];
      const normed = (t: string, letter: 'q' | 'k') =>
        qkNorm ? normHeads(t, `${at}.self_attn.${letter}_norm.weight`) : t;
      const queries = grouped(turned(perHead(normed(q, 'q'), heads)));
      const keys = turned(perHead(normed(k, 'k'), kvHeads));
      const values = perHead(v, kvHeads);
      const scale = { transB: 1, alpha: { float: 1 / Math.sqrt(headDim) } };
      const scores = g.node('FusedMatMul', [queries, keys], scale, MICROSOFT); // [G,R,S]
      const biased = g.node('Add', [g.node('Reshape', [scores, perRow]), biasOf(layerWindow(arch, i))]);
      const attention = g.node('Reshape', [
        g.node('Softmax', [biased], { axis: -1 }),
        g.node('Shape', [scores]),
      ]);
      const mixed = g.node('MatMul', [attention, values]);
      const attended = linear(flat(ungrouped(mixed)), `${at}.self_attn.o_proj.weight`);
      const y = g.node('Add', [x, attended]);
      const h2 = norm(y, `${at}.post_attention_layernorm.weight`);
      const gate = linear(h2, `${at}.mlp.gate_proj.weight`);
      const up = linear(h2, `${at}.mlp.up_proj.weight`);
      const silu = g.node('Mul', [gate, g.node('Sigmoid', [gate])]);
      const down = linear(g.node('Mul', [silu, up]), `${at}.mlp.down_proj.weight`);
      const out = g.node('Add', [y, down]);
      return { x, q, k, queries, keys, values, attention, mixed, y, gate, up, out };
    },
  };
}

export type SequenceLayers = ReturnType<typeof sequenceLayers>;

/** What is added to the attention scores [S,S] of a layer, by how far it sees; made once a window. */
function attentionBias(
  g: Graph,
  { pos, number }: Pick<SequenceInputs, 'pos' | 'number'>,
  { all, column, row }: { all: string; column(t: string): string; row(t: string): string },
): (window: number | undefined) => string {
  // a row sees what stands before it and is the trace's, or of its own reference
  const isTrace = g.node('Equal', [row(number), g.ints([-1])]);
  const isOwn = g.node('Equal', [row(number), column(number)]);
  const isBefore = g.node('LessOrEqual', [row(all), column(all)]);
  const visible = g.node('And', [isBefore, g.node('Or', [isTrace, isOwn])]); // [S,S]
  const biases = new Map<number | undefined, string>();
  return (window: number | undefined): string => {
    const known = biases.get(window);
    if (known !== undefined) return known;
    const inWindow =
      window === undefined
        ? visible
        : g.node('And', [
            visible,
            g.node('Greater', [row(pos), column(g.node('Sub', [pos, g.ints([window])]))]),
          ]);
    const made = g.node('Where', [inWindow, g.float(0), g.float(HIDDEN)]);
    biases.set(window, made);
    return made;
  };
}
