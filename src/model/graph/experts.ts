// Experts in a graph: which of them a row goes to, and what they make of it; and how checkpoints have their weights.
import type { Experts, Shape } from './family.js';
import { cast, type Dtype, Graph, MICROSOFT, type Precision } from './onnx.js';
import { product } from './safetensors.js';

interface ExpertParts {
  readonly g: Graph;
  readonly precision: Precision;
  /** a weight as it lies in its file, seen as a tensor of another shape of as many numbers */
  seen(name: string, shape?: Shape): { readonly value: string; readonly dtype: Dtype };
  /** gets what every expert adds to every row, as a share [experts,N] */
  readonly shares: string[];
}

/** The logarithm of no share: in float32 e to it is 0. */
const NO_SHARE = -1e4;

/**
 * x [N,d] → [N,d]. The router is in float32 in all graphs: a softmax over all experts, of which the largest count. On a CPU each expert
 * multiplies its rows in its turn, and its weights are in float32 for as long as that takes: MoE would want a layer's at once, which are
 * 2.4 GB where a model has 30 billion. In half precision it is MoE, which gets the shares as logarithms.
 */
export function expertNodes(parts: ExpertParts, x: string, of: Experts): string {
  const { g, precision, seen } = parts;
  const { experts, chosen, intermediate, normalized } = of;
  const [name, [, , hidden]] = of.gateUp as readonly [string, readonly [number, number, number]];
  const router = seen(of.router[0]);
  const factors = [cast(g, x, precision, 'f32'), cast(g, router.value, router.dtype, 'f32')];
  const all = g.node('Softmax', [g.node('Gemm', factors, { transB: 1 })], { axis: 1 }); // [N,experts]
  const [largest, numbers] = [`${name}.largest`, `${name}.numbers`]; // [N,chosen]
  g.node('TopK', [all, g.ints([chosen])], { axis: 1 }, { outputs: [largest, numbers] });
  const total = g.node('ReduceSum', [largest, g.ints([1])]); // [N,1]
  const none = g.node('Mul', [all, g.float(0)]);
  /** values of the chosen among that of the others [N,experts] */
  const spread = (others: string, values: string) =>
    g.node('ScatterElements', [others, numbers, values], { axis: 1 });
  const down = seen(of.down[0]);
  if (precision === 'f32') {
    const ofRows = spread(none, normalized ? g.node('Div', [largest, total]) : largest);
    const ofExperts = g.node('Transpose', [ofRows], { perm: [1, 0] });
    parts.shares.push(ofExperts);
    // every row of the gate beside the one of `up` that it belongs to
    const pairs = seen(name, [experts, intermediate, 2 * hidden]);
    const scanned = [g.node('Mul', [x, g.float(0)]), ofExperts, pairs.value, down.value];
    const body = oneExpert(name, x, [pairs.dtype, intermediate, hidden], down.dtype);
    return g.node('Scan', scanned, { body: { graph: body }, num_scan_inputs: 3 });
  }
  const first = g.node('Slice', [largest, g.ints([0]), g.ints([1]), g.ints([1])]);
  const logarithms = g.node('Log', [g.node('Div', [largest, first])]);
  const logits = spread(g.node('Add', [none, g.float(NO_SHARE)]), logarithms);
  const [wide, narrow] = [seen(name), down].map(({ value, dtype }) => cast(g, value, dtype, precision));
  const mixed = g.node(
    'MoE',
    [x, cast(g, logits, 'f32', precision), wide as string, '', narrow as string],
    {
      ...{ k: chosen, activation_type: 'swiglu', swiglu_fusion: 1 },
      // silu(gate)·up; other numbers make GPT-OSS' of it
      ...{ activation_alpha: { float: 1 }, activation_beta: { float: 0 } },
      swiglu_limit: { float: Number.POSITIVE_INFINITY },
    },
    MICROSOFT,
  );
  return normalized ? mixed : g.node('Mul', [mixed, cast(g, total, 'f32', precision)]);
}

/** The body of a scan over experts: to the sum so far [N,d] it adds what one makes of those rows of x that it has a share in. */
function oneExpert(
  name: string,
  x: string,
  [type, intermediate, hidden]: readonly [Dtype, number, number],
  downType: Dtype,
): Graph {
  const body = new Graph(`${name}.expert`);
  const input = (part: string, dtype: Dtype, shape: readonly (number | string)[]) =>
    body.input(`${body.name}.${part}`, dtype, shape);
  const sum = input('sum', 'f32', ['X', hidden]);
  const share = input('share', 'f32', ['X']);
  const pairs = input('pairs', type, [intermediate, 2 * hidden]);
  const down = input('down', downType, [hidden, intermediate]);
  const rows = body.node('Transpose', [body.node('NonZero', [share])], { perm: [1, 0] }); // [n,1]
  const numbers = body.node('Squeeze', [rows, body.ints([1])]); // [n]
  const own = body.node('Gather', [x, numbers]); // [n,d]
  const times = (from: number) => {
    const half = body.node('Slice', [pairs, body.ints([from]), body.ints([from + hidden]), body.ints([1])]);
    return body.node('Gemm', [own, cast(body, half, type, 'f32')], { transB: 1 });
  };
  const gate = times(0);
  const inner = body.node('Mul', [body.node('Mul', [gate, body.node('Sigmoid', [gate])]), times(hidden)]);
  const made = body.node('Gemm', [inner, cast(body, down, downType, 'f32')], { transB: 1 });
  const ownShare = body.node('Unsqueeze', [body.node('Gather', [share, numbers]), body.ints([1])]);
  const added = body.node('Mul', [made, ownShare]);
  const next = body.node('ScatterND', [sum, rows, added], { reduction: 'add' });
  body.output(`${body.name}.next`, next, 'f32', ['X', hidden]);
  return body;
}

/** Rows of a tensor of a checkpoint, from one on; of three dimensions the first two count as one. */
export interface Rows {
  readonly name: string;
  readonly shape: Shape;
  readonly first: number;
  readonly count: number;
}

/**
 * What a tensor of a policy is made of: groups one behind the other, the rows of a group's parts in turns. Most are tensors of the
 * checkpoint as they are. Of experts published checkpoints have matrices of each; transformers may write one tensor, in which an
 * expert's gate stands before its `up`.
 * @param has whether the checkpoint has a tensor
 */
export function partsOf(name: string, shape: Shape, has: (name: string) => boolean): Rows[][] {
  const [experts = 1, rows = 1, width = 1] = shape;
  const [, at, isDown] = /^(.+\.experts)\.(?:gate_up_interleaved|(down_proj))$/.exec(name) ?? [];
  if (at === undefined || (isDown && has(name)))
    return [[{ name, shape, first: 0, count: product(shape.slice(0, -1)) }]];
  const joined = `${at}.gate_up_proj`;
  const isJoined = !isDown && has(joined);
  return Array.from({ length: experts }, (_, e) =>
    (isDown ? ['down'] : ['gate', 'up']).map((kind, i, { length }) => {
      const count = rows / length;
      if (isJoined) return { name: joined, shape, first: e * rows + i * count, count };
      return { name: `${at}.${e}.${kind}_proj.weight`, shape: [count, width], first: 0, count };
    }),
  );
}
