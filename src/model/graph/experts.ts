// Experts in a graph: which of them a row goes to, what they make of it, and how their weights lie: one expert behind the other.
import { z } from 'zod';
import { cast, type Dtype, Graph, MICROSOFT, type Precision } from './onnx.js';

const size = z.number().int().positive();

/** Of a model whose tokens go to some experts each, in the layers named. */
export const MixtureSchema = z.strictObject({
  experts: size,
  /** of them, those that a token goes to */
  chosen: size,
  /** inner size of an expert */
  intermediate: size,
  /** what a token takes from its experts sums to 1 */
  normalized: z.boolean(),
  layers: z.array(z.number().int().nonnegative()),
  /** inner size of an expert that every token goes to; absent: there is none */
  shared: size.exactOptional(),
});
export type Mixture = Readonly<z.infer<typeof MixtureSchema>>;

type Shape = readonly number[];

/** Where their weights come from. */
export interface ExpertSource {
  /** as it lies in its file, seen as a tensor of another shape of as many numbers */
  stored(name: string, shape: Shape, seen?: Shape): Stored;
  /** of the graph */
  readonly precision: Precision;
  /** what every expert of one layer after the other adds to every row, as a share [experts,N]; in float32 graphs */
  readonly shares: string[];
}
interface Stored {
  readonly value: string;
  readonly dtype: Dtype;
}

/** Of all experts of a layer: the rows of gate and up in turns, and the matrix behind them. */
export const GATE_UP = 'gate_up_interleaved';
export const DOWN = 'down_proj';

/** The logarithm of no share: in float32 e to it is 0. */
const NO_SHARE = -1e4;

/**
 * x [N,d] → [N,d]. The router is in float32 in all graphs: a softmax over all experts, of which the largest count. On a CPU each expert
 * multiplies its rows in its turn, and its weights are in float32 for as long as that takes: MoE would want a layer's at once, which are
 * 2.4 GB where a model has 30 billion. In half precision it is MoE, which gets the shares as logarithms.
 * @param router, name what their weights' names begin with
 */
export function expertNodes(
  g: Graph,
  { hidden, ...mixture }: Mixture & { readonly hidden: number },
  source: ExpertSource,
  x: string,
  [router, name]: readonly [string, string],
): string {
  const { experts, chosen, intermediate, normalized } = mixture;
  const { precision, stored } = source;
  const matrix = stored(`${router}.weight`, [experts, hidden]);
  const factors = [cast(g, x, precision, 'f32'), cast(g, matrix.value, matrix.dtype, 'f32')];
  const all = g.node('Softmax', [g.node('Gemm', factors, { transB: 1 })], { axis: 1 }); // [N,experts]
  const [largest, numbers] = [`${name}.largest`, `${name}.numbers`]; // [N,chosen]
  g.node('TopK', [all, g.ints([chosen])], { axis: 1 }, { outputs: [largest, numbers] });
  const total = g.node('ReduceSum', [largest, g.ints([1])]); // [N,1]
  const none = g.node('Mul', [all, g.float(0)]);
  /** values of the chosen beside that of the others [N,experts] */
  const spread = (others: string, values: string) =>
    g.node('ScatterElements', [others, numbers, values], { axis: 1 });
  const gateUp = (seen?: Shape) => stored(`${name}.${GATE_UP}`, [experts, 2 * intermediate, hidden], seen);
  const down = stored(`${name}.${DOWN}`, [experts, hidden, intermediate]);
  if (precision === 'f32') {
    const shares = spread(none, normalized ? g.node('Div', [largest, total]) : largest);
    const ofExperts = g.node('Transpose', [shares], { perm: [1, 0] });
    source.shares.push(ofExperts);
    // every row of the gate beside the one of `up` that it belongs to
    const pairs = gateUp([experts, intermediate, 2 * hidden]);
    const body = oneExpert(name, x, { hidden, intermediate }, pairs.dtype, down.dtype);
    const scanned = [g.node('Mul', [x, g.float(0)]), ofExperts, pairs.value, down.value];
    return g.node('Scan', scanned, { body: { graph: body }, num_scan_inputs: 3 });
  }
  const first = g.node('Slice', [largest, g.ints([0]), g.ints([1]), g.ints([1])]);
  const logarithms = g.node('Log', [g.node('Div', [largest, first])]);
  const logits = spread(g.node('Add', [none, g.float(NO_SHARE)]), logarithms);
  const [wide, narrow] = [gateUp(), down].map((of) => cast(g, of.value, of.dtype, precision));
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
  { hidden, intermediate }: Readonly<Record<'hidden' | 'intermediate', number>>,
  pairType: Dtype,
  downType: Dtype,
): Graph {
  const body = new Graph(`${name}.expert`);
  const named = (part: string) => `${name}.expert.${part}`;
  const sum = body.input(named('sum'), 'f32', ['X', hidden]);
  const share = body.input(named('share'), 'f32', ['X']);
  const pairs = body.input(named('pairs'), pairType, [intermediate, 2 * hidden]);
  const down = body.input(named('down'), downType, [hidden, intermediate]);
  const rows = body.node('Transpose', [body.node('NonZero', [share])], { perm: [1, 0] }); // [n,1]
  const numbers = body.node('Squeeze', [rows, body.ints([1])]); // [n]
  const own = body.node('Gather', [x, numbers]); // [n,d]
  const times = (from: number) => {
    const half = body.node('Slice', [pairs, body.ints([from]), body.ints([from + hidden]), body.ints([1])]);
    return body.node('Gemm', [own, cast(body, half, pairType, 'f32')], { transB: 1 });
  };
  const gate = times(0);
  const inner = body.node('Mul', [body.node('Mul', [gate, body.node('Sigmoid', [gate])]), times(hidden)]);
  const made = body.node('Gemm', [inner, cast(body, down, downType, 'f32')], { transB: 1 });
  const ownShare = body.node('Unsqueeze', [body.node('Gather', [share, numbers]), body.ints([1])]);
  const added = body.node('Mul', [made, ownShare]);
  const next = body.node('ScatterND', [sum, rows, added], { reduction: 'add' });
  body.output(named('next'), next, 'f32', ['X', hidden]);
  return body;
}

// ------ the same weights as checkpoints have them

/** Rows of a tensor of a checkpoint, from one on; of three dimensions two count as one. */
export interface Rows {
  readonly name: string;
  readonly shape: Shape;
  readonly first: number;
  readonly count: number;
}

/**
 * What a tensor of experts is stacked of: groups one behind the other, the rows of a group's parts in turns. Published checkpoints have a
 * matrix for each expert; transformers 5 has all in one, in which an expert's gate stands before its `up`.
 * @param has whether the checkpoint has a tensor @returns undefined for what is no such tensor
 */
export function stackOf(name: string, shape: Shape, has: (name: string) => boolean): Rows[][] | undefined {
  const [, at, kind] = /^(.+\.experts)\.(\w+)$/.exec(name) ?? [];
  if (at === undefined) return undefined;
  const [experts, rows, width] = shape as [number, number, number];
  const numbers = Array.from({ length: experts }, (_, e) => e);
  if (kind === DOWN) {
    if (has(name)) return [[{ name, shape, first: 0, count: experts * rows }]];
    const matrix = { shape: [rows, width], first: 0, count: rows };
    return numbers.map((e) => [{ ...matrix, name: `${at}.${e}.down_proj.weight` }]);
  }
  const half = rows / 2;
  const joined = `${at}.gate_up_proj`;
  if (has(joined)) {
    const from = (first: number) => ({ name: joined, shape, first, count: half });
    return numbers.map((e) => [from(e * rows), from(e * rows + half)]);
  }
  const matrix = { shape: [half, width], first: 0, count: half };
  return numbers.map((e) =>
    ['gate', 'up'].map((of) => ({ ...matrix, name: `${at}.${e}.${of}_proj.weight` })),
  );
}
