// The attention of a prefix in the scoring graph: causal over its tokens.
import { type Architecture, type GraphParts, layerWindow } from './architecture.js';
import { cast, Graph, MICROSOFT, type Precision } from './onnx.js';

/**
 * Fewest rows of a block of the prefix's attention, and the most blocks: ONNX Runtime's kernel multiplies every row of a call with
 * every key of it, so blocks leave out what lies above the diagonal and keep a head's scores in the cache; each copies the keys so far.
 */
const BLOCK_ROWS = 128;
const MOST_BLOCKS = 32;

/** Causal attention of the prefix: q [B·S,heads·hd], k, v [B·S,kvHeads·hd] → the same shape; keys rotated [B,kvHeads,S,hd]. */
export function prefixAttention({ g, arch, precision, rope }: GraphParts, ids: string) {
  const cos = cast(g, rope.cos, 'f32', precision);
  const sin = cast(g, rope.sin, 'f32', precision);
  const batchAndLength = g.node('Shape', [ids]); // [B,S]
  const perToken = g.node('Concat', [batchAndLength, g.ints([-1])], { axis: 0 }); // [B,S,-1]
  const batch = g.node('Gather', [batchAndLength, g.ints([0])]); // [1]
  const length = g.node('Gather', [batchAndLength, g.ints([1])]); // [1]

  // ONNX Runtime's attention rotates a multiple of 16 of heads of such a multiple; others are rotated before it
  const { headDim, rotaryDim = headDim } = arch;
  const inKernel = headDim % 16 === 0 && rotaryDim % 16 === 0;
  const isRotated = (i: number) => !arch.unrotated?.includes(i);
  const isPadded = paddedHeadDim(arch.headDim) !== arch.headDim;
  const threeDims = (flat: string) => g.node('Reshape', [flat, perToken]);
  const rotated = (i: number, flat: string, heads: number) =>
    inKernel || !isRotated(i)
      ? threeDims(flat)
      : rotatedRows({ g, arch, rope: { cos, sin } }, threeDims(flat), g.ints([0]), heads);
  /** What the kernel asks of the rows before `end` [1]: the last one of every trace [B], and how many they are. */
  const boundsOf = (of: Graph, end: string): readonly string[] => {
    // padding stands at the end of short traces: causal rows before it never see it, so every length is S
    const last = of.node('Cast', [of.node('Sub', [end, of.ints([1])])], { to: 6 });
    return [of.node('Expand', [last, batch]), of.node('Cast', [of.node('Squeeze', [end])], { to: 6 })];
  };
  /** One call, in a graph or in a body of it: q, k, v of rows, the keys and values before them, and their bounds. */
  const kernel = (of: Graph, i: number, inputs: readonly string[]): Outputs => {
    const outputs = outputsOf(of, i);
    const window = layerWindow(arch, i);
    const rotates = inKernel && isRotated(i);
    of.node(
      'GroupQueryAttention',
      [...inputs, ...(rotates ? [cos, sin] : [])],
      {
        num_heads: arch.heads,
        kv_num_heads: arch.kvHeads,
        do_rotary: rotates ? 1 : 0,
        ...(isPadded ? { scale: { float: 1 / Math.sqrt(arch.headDim) } } : {}),
        ...(window === undefined ? {} : { local_window_size: window }),
      },
      { outputs, ...MICROSOFT, name: `prefix_attention_${i}` },
    );
    return outputs;
  };
  // CUDA's kernel leaves out by itself what lies above the diagonal
  const whole = precision === 'f32' ? undefined : ['', '', ...boundsOf(g, length)];
  const blocks = whole === undefined ? inBlocks(g, arch, batch, length) : undefined;
  const attend = (i: number, rows: readonly string[]): Outputs =>
    blocks?.(i, rows, (body, own, keys, end) => kernel(body, i, [...own, ...keys, ...boundsOf(body, end)])) ??
    kernel(g, i, [...rows, ...(whole ?? [])]);
  return (i: number, q: string, k: string, v: string) => {
    const rows = [
      padHeads(g, rotated(i, q, arch.heads), arch.heads, arch.headDim, precision),
      padHeads(g, rotated(i, k, arch.kvHeads), arch.kvHeads, arch.headDim, precision),
      padHeads(g, threeDims(v), arch.kvHeads, arch.headDim, precision),
    ];
    const outputs = attend(i, rows);
    const narrow = cutHeads(g, outputs[0], arch.headDim, arch.heads);
    const attended = g.node('Reshape', [narrow, g.ints([-1, arch.heads * arch.headDim])]);
    return { attended, k: cutHeads(g, outputs[1], arch.headDim), v: cutHeads(g, outputs[2], arch.headDim) };
  };
}

/** Rotary embedding (half-split, as Hugging Face has it) of rows [B,S,heads·headDim] at positions [B,S], or from one on [1]. */
export function rotatedRows(
  { g, arch: { headDim, rotaryDim = headDim }, rope: { cos, sin } }: Omit<GraphParts, 'precision'>,
  rows: string,
  positions: string,
  heads: number,
): string {
  const part = rotaryDim === headDim ? {} : { num_heads: heads, rotary_embedding_dim: rotaryDim };
  return g.node('RotaryEmbedding', [rows, positions, cos, sin], part, MICROSOFT);
}

type Block = (body: Graph, rows: readonly string[], keys: readonly string[], end: string) => Outputs;
type Outputs = ReturnType<typeof outputsOf>;

const outputsOf = ({ name }: Graph, i: number) =>
  [`${name}.attended_${i}`, `${name}.key_${i}`, `${name}.value_${i}`] as const;

/** The same call in blocks of rows, each behind the keys of those before it; of several traces in one, as they have to be. */
function inBlocks(g: Graph, arch: Architecture, batch: string, length: string) {
  const { kvHeads, heads } = arch;
  const headDim = paddedHeadDim(arch.headDim);
  const ceilings = (x: string, by: string) =>
    g.node('Div', [g.node('Sub', [g.node('Add', [x, by]), g.ints([1])]), by]);
  const least = g.node('Max', [ceilings(length, g.ints([MOST_BLOCKS])), g.ints([BLOCK_ROWS])]);
  const isOne = g.node('Equal', [batch, g.ints([1])]);
  const whole = g.node('Max', [length, g.ints([1])]); // of no trace at all, too
  const size = g.node('Where', [isOne, least, whole]); // [1]
  const count = g.node('Squeeze', [ceilings(length, size)]);
  const empty = (...shape: readonly number[]) =>
    g.node('Expand', [g.float(0), g.node('Concat', [batch, g.ints(shape)], { axis: 0 })]);
  const none = [empty(0, heads * headDim), empty(kvHeads, 0, headDim)] as const;
  return (i: number, rows: readonly string[], block: Block): Outputs => {
    const body = new Graph(`blocks_${i}`);
    const name = (n: string) => `blocks_${i}.${n}`;
    const state = (n: string) =>
      body.input(name(n), 'f32', n === 'done' ? ['B', 'D', heads * headDim] : ['B', kvHeads, 'P', headDim]);
    const n = body.input(name('n'), 'i64', []);
    const goesOn = body.input(name('goes_on'), 'bool', []);
    const [done, keys, values] = [state('done'), state('keys'), state('values')];
    const from = body.node('Mul', [body.node('Unsqueeze', [n, body.ints([0])]), size]);
    const end = body.node('Min', [body.node('Add', [from, size]), length]);
    const own = rows.map((x) => body.node('Slice', [x, from, end, body.ints([1])]));
    const [attended, k, v] = block(body, own, [keys, values], end);
    body.output(name('still'), goesOn, 'bool', []);
    const all = body.node('Concat', [done, attended], { axis: 1 });
    body.output(name('all'), all, 'f32', ['B', 'E', heads * headDim]);
    for (const each of [k, v]) body.output(name(`next_${each}`), each, 'f32', ['B', kvHeads, 'Q', headDim]);
    const outputs = outputsOf(g, i);
    g.node('Loop', [count, '', none[0], none[1], none[1]], { body: { graph: body } }, { outputs });
    return outputs;
  };
}

// ------ heads of widths that the kernel does not take

/** head sizes that the operator takes are multiples of this; a few checkpoints have others, such as 100 */
const MULTIPLE = 8;

function paddedHeadDim(headDim: number): number {
  return Math.ceil(headDim / MULTIPLE) * MULTIPLE;
}

/** x [B,S,heads·headDim] → [B,S,heads·paddedHeadDim]; x itself where nothing is missing. */
function padHeads(g: Graph, x: string, heads: number, headDim: number, precision: Precision): string {
  const padded = paddedHeadDim(headDim);
  if (padded === headDim) return x;
  const apart = g.node('Reshape', [x, g.ints([0, 0, heads, headDim])]);
  // in float32: CUDA has no kernel of Pad in bfloat16
  const float = cast(g, apart, precision, 'f32');
  const wide = g.node('Pad', [float, g.ints([0, padded - headDim]), '', g.ints([3])]);
  return g.node('Reshape', [cast(g, wide, 'f32', precision), g.ints([0, 0, heads * padded])]);
}

/** Cuts the last axis of x [..,paddedHeadDim] of four, or of [B,S,heads·paddedHeadDim] where `heads` are given, back to headDim. */
function cutHeads(g: Graph, x: string, headDim: number, heads?: number): string {
  const padded = paddedHeadDim(headDim);
  if (padded === headDim) return x;
  const apart = heads === undefined ? x : g.node('Reshape', [x, g.ints([0, 0, heads, padded])]);
  return g.node('Slice', [apart, g.ints([0]), g.ints([headDim]), g.ints([3])]);
}
