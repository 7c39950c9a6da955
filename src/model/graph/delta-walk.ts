// The delta nets of the scoring graph: rows go through convolution and state in turns, each from the state that another has left.
import type { GraphParts } from './architecture.js';
import type { DeltaInputs, DeltaSizes } from './family.js';
import { cast, type Dim, Graph, MICROSOFT } from './onnx.js';

/** States that are held: the first is always that of no token. */
const HELD = 4;

/** What is added to the square of a query's or a key's length, in the kernels that the models were trained with. */
const ADDED = 1e-6;

/**
 * A walk over rows that stand in any order. `walk` [n,4], of each turn: its first row and the one behind its last, which of the held
 * states it goes on from and which it leaves; `walk_places` [rows]: where a row's output is among those of the walk, 0 for one without.
 * All of it is computed in float32.
 */
export function deltaWalk({ g, precision }: GraphParts, sizes: DeltaSizes) {
  const { keyHeads, keyDim, valueHeads, valueDim, taps } = sizes;
  const width = valueHeads * valueDim;
  const walk = g.input('walk', 'i64', ['turns', 4]);
  const places = g.input('walk_places', 'i64', ['E']);
  const count = g.node('Shape', [walk], { start: 0, end: 1 });
  const list = (shape: readonly number[], length: number) =>
    g.node('SequenceConstruct', Array<string>(length).fill(g.node('Expand', [g.float(0), g.ints(shape)])));
  const past = [1, 2 * keyHeads * keyDim + width, taps - 1];
  const state = [1, valueHeads, keyDim, valueDim];
  const starts = [list(past, HELD), list(state, HELD), list([1, 1, width], 1)];
  const shapes: readonly (readonly Dim[])[] = [past, state, [1, 'L', width]];

  return (i: number, { mixed, taps, rate, decay, logSpeed }: DeltaInputs): string => {
    const float = (x: string) => cast(g, x, precision, 'f32');
    const speed = g.node('Neg', [g.node('Exp', [float(logSpeed)])]);
    const fading = g.node('Mul', [g.node('Softplus', [float(decay)]), speed]);
    const rows = [float(mixed), fading, g.node('Sigmoid', [float(rate)])];
    const kernel = float(taps);

    const body = new Graph(`walk_${i}`);
    const name = (n: string) => `walk_${i}.${n}`;
    const n = body.input(name('n'), 'i64', []);
    const goesOn = body.input(name('goes_on'), 'bool', []);
    const [pasts, states, done] = shapes.map((shape, j) =>
      body.input(name(`before_${j}`), 'f32', shape, 'sequence'),
    ) as [string, string, string];
    const turn = body.node('Gather', [walk, n]);
    const [first, end, from, to] = [0, 1, 2, 3].map((at) =>
      body.node('Slice', [turn, body.ints([at]), body.ints([at + 1])]),
    ) as [string, string, string, string];
    const own = rows.map((all) =>
      body.node('Unsqueeze', [body.node('Slice', [all, first, end, body.ints([0])]), body.ints([0])]),
    );
    const held = (all: string) => body.node('SequenceAt', [all, body.node('Squeeze', [from])]);
    const after = netOver(body, sizes, own, kernel, [held(pasts), held(states)]);
    const place = body.node('Squeeze', [to]);
    const left = (all: string, one: string) =>
      body.node('SequenceInsert', [body.node('SequenceErase', [all, place]), one, place]);
    const added = body.node('SequenceInsert', [done, after.out]);
    const lists = [left(pasts, after.past), left(states, after.state), added];
    body.output(name('still'), goesOn, 'bool', []);
    for (const [j, all] of lists.entries())
      body.output(name(`after_${j}`), all, 'f32', shapes[j] as readonly Dim[], 'sequence');
    const outputs = lists.map((_, j) => name(`last_${j}`));
    g.node('Loop', [count, '', ...starts], { body: { graph: body } }, { outputs });
    const all = g.node('ConcatFromSequence', [outputs[2] as string], { axis: 1 });
    const found = g.node('Squeeze', [g.node('Gather', [all, places], { axis: 1 }), g.ints([0])]);
    return cast(g, found, 'f32', precision);
  };
}

/** Convolution and state over rows [1,L,..] that follow one another: `mixed`, `decay`, `rate`, and what comes before them. */
function netOver(
  body: Graph,
  { keyHeads, keyDim, valueHeads }: DeltaSizes,
  [mixed = '', decay = '', rate = '']: readonly string[],
  kernel: string,
  [past, state]: readonly [past: string, state: string],
) {
  const after = { out: `${body.name}.out`, past: `${body.name}.past`, state: `${body.name}.state` };
  const turned = (x: string) => body.node('Transpose', [x], { perm: [0, 2, 1] });
  const convolved = `${body.name}.convolved`;
  body.node(
    'CausalConvWithState',
    [turned(mixed), kernel, '', past],
    { activation: 'silu' },
    { ...MICROSOFT, outputs: [convolved, after.past] },
  );
  const rows = turned(convolved);
  const part = (x: string, from: number, to: number) =>
    body.node('Slice', [x, body.ints([from]), body.ints([to]), body.ints([2])]);
  const keys = keyHeads * keyDim;
  // of length 1: an RMS norm, whose length is √keyDim, by 1/√keyDim
  const perHead = body.node('Reshape', [part(rows, 0, 2 * keys), body.ints([-1, keyDim])]);
  const scale = body.node('Expand', [body.float(1 / Math.sqrt(keyDim)), body.ints([keyDim])]);
  const epsilon = { float: ADDED / keyDim };
  const units = body.node('SimplifiedLayerNormalization', [perHead, scale], { axis: -1, epsilon });
  const both = body.node('Reshape', [units, body.ints([1, -1, 2 * keys])]);
  const values = part(rows, 2 * keys, 2 ** 31);
  body.node(
    'LinearAttention',
    [part(both, 0, keys), part(both, keys, 2 * keys), values, state, decay, rate],
    { q_num_heads: keyHeads, kv_num_heads: valueHeads, update_rule: 'gated_delta' },
    { ...MICROSOFT, outputs: [after.out, after.state] },
  );
  return after;
}
