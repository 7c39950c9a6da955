// Builds the graph of a process reward model, which gives the probability that a step is right at each row that is asked for.
import type { Architecture, Head } from './architecture.js';
import { trunkAttention } from './attention.js';
import { rowLayers, type Weight } from './layers.js';
import { Graph } from './onnx.js';
import type { Precision } from './precision.js';

/**
 * in  ids [B,S] i64, causal: padding stands at the end · cos, sin [M,headDim/2] f32, a row a position · rows [n] i64 of the
 *     flattened [B·S]
 * out correct [n] f32: softmax over the labels, of the one that says right
 *
 * @param correct number of that label
 * @param precision as of the scoring graph; the softmax is float32
 */
export function buildRewardGraph(
  arch: Architecture,
  head: Head,
  correct: number,
  weights: ReadonlyMap<string, Weight>,
  precision: Precision = 'f32',
): Graph {
  const g = new Graph('prm');
  const ids = g.input('ids', 'i64', ['B', 'S']);
  const rope = {
    cos: g.input('cos', 'f32', ['M', arch.headDim / 2]),
    sin: g.input('sin', 'f32', ['M', arch.headDim / 2]),
  };
  const rows = g.input('rows', 'i64', ['n']);
  const layer = rowLayers(g, arch, weights, precision);
  const attend = trunkAttention(g, arch, ids, rope, precision);
  let x = layer.embed(g.node('Reshape', [ids, g.ints([-1])])); // [B·S,d]
  for (let i = 0; i < arch.layers; i++) {
    const { q, k, v } = layer.project(i, x);
    const { attended } = attend(i, q, k, v);
    // the last layer's output is wanted in the rows alone
    const pick = (t: string) => (i === arch.layers - 1 ? g.node('Gather', [t, rows]) : t);
    x = layer.finish(i, pick(x), pick(attended));
  }
  const shares = g.node('Softmax', [layer.classify(x, head)], { axis: 1 }); // [n,labels]
  g.output('correct', g.node('Gather', [shares, g.ints([correct], [])], { axis: 1 }), 'f32', ['n']);
  return g;
}
