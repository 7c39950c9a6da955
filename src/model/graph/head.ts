// The head of the scoring graph: entropies and log-probabilities of rows, without their logits ever leaving the graph.
import type { Architecture, GraphParts } from './architecture.js';
import { CPU_ENTRIES, cast, Graph, type Precision } from './onnx.js';
import { type RowLayers, rowLayers, type Weight } from './operators.js';

/** x [n,C,d] of the graph's precision, targets [n,C] → outputs entropies and logprobs [n,C] f32, nats; C rows at a time. */
export function entropyHead(
  { g, arch: { hidden, vocab }, precision }: GraphParts,
  layers: RowLayers,
  x: string,
  targets: string,
) {
  const isInBlocks = precision === 'f32' && vocab >= 2 * CPU_ENTRIES;
  const body = new Graph('head');
  const blockX = body.input('head.x', precision, ['C', hidden]);
  const blockTargets = body.input('head.targets', 'i64', ['C']);
  const h = layers.last(blockX, body); // [C,d]
  const { entropy, logprob } = isInBlocks
    ? inBlocks(body, h, blockTargets, layers, vocab, hidden)
    : wholeVocabulary(body, h, blockTargets, layers, precision);
  body.output('head.entropy', entropy, 'f32', ['C']);
  body.output('head.logprob', logprob, 'f32', ['C']);
  const outputs = ['head.entropies', 'head.logprobs'] as const;
  g.node('Scan', [x, targets], { body: { graph: body }, num_scan_inputs: 2 }, { outputs });
  g.output('entropies', outputs[0], 'f32', ['n', 'C']);
  g.output('logprobs', outputs[1], 'f32', ['n', 'C']);
}

/**
 * The head alone, of whole distributions: rows [h,d] f32 of the last layer → logp [h,V] f32. A teacher's takes the policy's beside them, others
 * [h,V'] f32 of V' ≤ V tokens, and targets [h] i64 → kl [h] f32, KL(others ‖ its own), and logprobs [h] f32 of the targets.
 */
export function buildHeadGraph(
  arch: Architecture,
  weights: ReadonlyMap<string, Weight>,
  precision: Precision,
  isTeacher: boolean,
): Graph {
  const g = new Graph('distributions');
  const layers = rowLayers({ g, arch, precision }, weights);
  const x = cast(g, g.input('rows', 'f32', ['h', arch.hidden]), 'f32', precision);
  const { logp } = softmaxOf(g, layers.last(x, g), layers.headMatrix(), precision);
  if (!isTeacher) {
    g.output('logp', logp, 'f32', ['h', arch.vocab]);
    return g;
  }
  const others = g.input('others', 'f32', ['h', 'O']);
  const targets = g.node('Unsqueeze', [g.input('targets', 'i64', ['h']), g.ints([1])]);
  const O = g.node('Slice', [g.node('Shape', [others]), g.ints([1]), g.ints([2])]);
  const gaps = g.node('Sub', [others, g.node('Slice', [logp, g.ints([0]), O, g.ints([1])])]);
  const weighted = g.node('Mul', [g.node('Exp', [others]), gaps]);
  g.output('kl', g.node('ReduceSum', [weighted, g.ints([1])], { keepdims: 0 }), 'f32', ['h']);
  const picked = g.node('GatherElements', [logp, targets], { axis: 1 });
  g.output('logprobs', g.node('Squeeze', [picked, g.ints([1])]), 'f32', ['h']);
  return g;
}

/** All logits of a row at once. */
function wholeVocabulary(body: Graph, h: string, targets: string, layers: RowLayers, precision: Precision) {
  const { logp, negative } = softmaxOf(body, h, layers.headMatrix(), precision);
  const columns = body.node('Unsqueeze', [targets, body.ints([1])]);
  const picked = body.node('GatherElements', [logp, columns], { axis: 1 });
  return { entropy: body.node('Neg', [negative]), logprob: body.node('Squeeze', [picked, body.ints([1])]) };
}

/**
 * Logits of one block of the vocabulary after the other. With block b's log-sum-exp ℓ_b and the entropy H_b inside it,
 * log p(b) = ℓ_b − ℓ and H = Σ_b p(b) (H_b − log p(b)): the chain rule of entropy.
 */
function inBlocks(body: Graph, h: string, targets: string, layers: RowLayers, vocab: number, hidden: number) {
  const blocks = Math.floor(vocab / CPU_ENTRIES);
  const inner = new Graph('head_block');
  const blockMatrix = inner.input('head_block.matrix', 'f32', [CPU_ENTRIES, hidden]);
  const one = blockSums(inner, h, blockMatrix);
  inner.output('head_block.negative', one.negative, 'f32', ['C']);
  inner.output('head_block.total', one.total, 'f32', ['C']);
  const matrix = layers.headSlice('head.blocks', 0, [blocks, CPU_ENTRIES, hidden]);
  const outputs = ['head.negatives', 'head.totals'] as const;
  body.node('Scan', [matrix], { body: { graph: inner }, num_scan_inputs: 1 }, { outputs }); // [blocks,C] each
  let [negatives, totals]: readonly [string, string] = outputs;
  const first = blocks * CPU_ENTRIES;
  if (first < vocab) {
    const last = layers.headSlice('head.rest', first, [vocab - first, hidden]);
    const sums = blockSums(body, h, last);
    const joined = (all: string, own: string) =>
      body.node('Concat', [all, body.node('Unsqueeze', [own, body.ints([0])])], { axis: 0 });
    [negatives, totals] = [joined(negatives, sums.negative), joined(totals, sums.total)];
  }
  const logShares = body.node('LogSoftmax', [totals], { axis: 0 }); // log p(b), [blocks,C]
  const shares = body.node('Exp', [logShares]);
  const weighted = body.node('Mul', [shares, body.node('Add', [negatives, logShares])]);
  const entropy = body.node('Neg', [body.node('ReduceSum', [weighted, body.ints([0])], { keepdims: 0 })]);
  const total = logSumExpNodes(body, totals, logShares, 0); // [C]
  const products = body.node('Mul', [h, layers.headRows(targets, body)]);
  const logit = body.node('ReduceSum', [products, body.ints([1])], { keepdims: 0 });
  return { entropy, logprob: body.node('Sub', [logit, total]) };
}

/** Of one block: −H_b and ℓ_b of every row, [C]. */
function blockSums(graph: Graph, h: string, matrix: string) {
  const { logits, logp, negative } = softmaxOf(graph, h, matrix, 'f32');
  return { negative, total: logSumExpNodes(graph, logits, logp, 1) };
}

/** Logits of h [C,d] by matrix [N,d] in float32, their log-softmax, and Σ p log p [C] of it. */
function softmaxOf(graph: Graph, h: string, matrix: string, precision: Precision) {
  const logits = cast(graph, graph.node('Gemm', [h, matrix], { transB: 1 }), precision, 'f32'); // [C,N]
  const logp = graph.node('LogSoftmax', [logits], { axis: 1 });
  const plogp = graph.node('Mul', [graph.node('Exp', [logp]), logp]);
  return { logits, logp, negative: graph.node('ReduceSum', [plogp, graph.ints([1])], { keepdims: 0 }) };
}

/** log Σ exp x along an axis, from x and its log-softmax there: their difference is the same everywhere. */
function logSumExpNodes(graph: Graph, x: string, logSoftmax: string, axis: number): string {
  const first = (t: string) => graph.node('Gather', [t, graph.ints([0], [])], { axis });
  return graph.node('Sub', [first(x), first(logSoftmax)]);
}
