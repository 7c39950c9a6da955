// Builds the graphs of two attributions: how much attention tokens get from the scored ones, and the gradient of these.
import type { Architecture } from './architecture.js';
import { gradients } from './backward.js';
import { asNumbers, sequenceInputs, sequenceLayers } from './forward.js';
import { type Weight, weightSource } from './layers.js';
import { Graph } from './onnx.js';

/**
 * The attention graph: one sequence of S tokens, a trace and behind it its references, each of which sees the trace and itself.
 *
 * in  ids, pos, number [S] i64, rows [n] i64, weights [n] f32, cos, sin [M,headDim/2] f32: `SequenceInputs`
 * out mass [S] f32: Σ_rows weight · attention to the token, the mean over heads and layers
 */
export function buildAttentionGraph(arch: Architecture, weights: ReadonlyMap<string, Weight>): Graph {
  const g = new Graph('attention');
  const inputs = sequenceInputs(g, arch);
  const source = weightSource(g, weights, 'f32');
  const layers = sequenceLayers(g, arch, source, inputs);
  const counted = layers.column(inputs.weights); // [n,1]
  let x = layers.embedded();
  const masses: string[] = []; // [S] each
  for (let i = 0; i < arch.layers; i++) {
    const { attention, out } = layers.layer(i, x);
    const picked = g.node('Gather', [layers.byHead(attention), inputs.rows], { axis: 2 }); // [G,H/G,n,S]
    const mass = g.node('ReduceSum', [g.node('Mul', [picked, counted]), g.ints([2])], { keepdims: 0 });
    masses.push(g.node('ReduceMean', [mass, g.ints([0, 1])], { keepdims: 0 }));
    x = out;
  }
  const total = masses.reduce((sum, mass) => g.node('Add', [sum, mass]));
  g.output('mass', g.node('Div', [total, g.float(arch.layers)]), 'f32', ['S']);
  return g;
}

/**
 * The gradient graph: the same sequence, φ = Σ_rows weight · log p(target), and its exact gradient by reverse mode. Of the
 * forward pass the layers' inputs are kept; the rest of a layer is computed again when its turn comes, so that the
 * attention weights of one layer alone are held.
 *
 * in  as the attention graph · targets [n] i64: the token that follows each row
 * out squares [S] f32: the squared norm of ∂φ/∂E of each token's input embedding
 */
export function buildGradientGraph(arch: Architecture, weights: ReadonlyMap<string, Weight>): Graph {
  const g = new Graph('gradient');
  const inputs = sequenceInputs(g, arch);
  const targets = g.input('targets', 'i64', ['n']);
  const source = weightSource(g, weights, 'f32');
  const layers = sequenceLayers(g, arch, source, inputs);
  const back = gradients(g, arch, source, layers);

  const xs = [layers.embedded()]; // what each layer takes
  for (let i = 0; i < arch.layers; i++) xs.push(layers.layer(i, xs[i] as string).out);

  // the head: ∂ log p(target) / ∂h = W_target − Σ_v p_v W_v
  const head = arch.tiedHead ? 'model.embed_tokens.weight' : 'lm_head.weight';
  const last = g.node('Gather', [xs[arch.layers] as string, inputs.rows]); // [n,d]
  const p = g.node('Softmax', [layers.linear(layers.norm(last, 'model.norm.weight'), head)], { axis: 1 });
  const expected = g.node('MatMul', [p, source.weight(head)]);
  const pull = g.node('Sub', [source.rowsOf(head, targets), expected]);
  const dhead = g.node('Mul', [pull, layers.column(inputs.weights)]);
  const drows = back.norm(last, 'model.norm.weight', dhead); // [n,d]
  // back to their places; several rows may be one
  const places = g.node('Equal', [layers.column(layers.all), layers.row(inputs.rows)]); // [S,n]
  let dx = g.node('MatMul', [asNumbers(g, places), drows]); // [S,d]

  for (let i = arch.layers - 1; i >= 0; i--) {
    // 0·dx: the layer is computed again behind the gradient that needs it, and is no expression that was there before
    const again = g.node('Add', [xs[i] as string, g.node('Mul', [dx, g.float(0)])]);
    dx = back.layer(i, layers.layer(i, again), dx);
  }
  g.output('squares', g.node('ReduceSumSquare', [dx, g.ints([1])], { keepdims: 0 }), 'f32', ['S']);
  return g;
}
