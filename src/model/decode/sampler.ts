// The nodes that choose a token of every row from its logits, by a number between 0 and 1 that comes from outside.
import { DTYPE, Graph } from '../graph/onnx.js';

/** Entries of a block of the vocabulary: sums of blocks first, then inside one, lose less than one sum over all. */
const BLOCK = 512;
/** Entries that a nucleus nearly always lies in; where it does not, all are sorted. */
const LIKELIEST = 1024;
/** Just below 1 as float32: keeps a target below the sum that it is a share of, however that was rounded. */
const BELOW_ONE = 1 - 2 ** -22;

/** By name: logits [N,V] f32, uniform [N] f32 in [0,1), and scalars f32; a topP that is tiny takes the likeliest token. */
export interface SamplerInputs {
  readonly logits: string;
  readonly uniform: string;
  readonly inverseTemperature: string;
  readonly topP: string;
}

/**
 * Token [N] i64 by inversion of the distribution function, and its log-probability [N] under the policy itself (temperature
 * 1, all tokens). With topP below 1 only the smallest set of likeliest tokens that holds so much probability is left, the
 * lower id first where two are alike.
 */
export function sampler(g: Graph, vocab: number, { logits, uniform, ...how }: SamplerInputs) {
  const column = (t: string) => g.node('Unsqueeze', [t, g.ints([1])]);
  const scaled = g.node('Mul', [logits, how.inverseTemperature]);
  const p = g.node('Softmax', [scaled], { axis: 1 }); // [N,V]
  const u = column(uniform); // [N,1]
  const isWhole = g.node('GreaterOrEqual', [how.topP, g.float(1)]);
  const token = g.node('If', [isWhole], {
    then_branch: { graph: fromAll(new Graph(`${g.name}.all`), vocab, p, u) },
    else_branch: { graph: fromNucleus(new Graph(`${g.name}.nucleus`), vocab, p, u, how.topP) },
  });
  const logp = g.node('LogSoftmax', [logits], { axis: 1 });
  const picked = g.node('GatherElements', [logp, column(token)], { axis: 1 });
  return { token, logprob: g.node('Squeeze', [picked, g.ints([1])]) };
}

/** First index at which the running sum [N,n] of what is not negative goes beyond a target [N,1] below its end: [N] i64. */
function firstBeyond(g: Graph, sums: string, target: string): string {
  const isBefore = g.node('Cast', [g.node('LessOrEqual', [sums, target])], { to: DTYPE.f32 });
  const count = g.node('ReduceSum', [isBefore, g.ints([1])], { keepdims: 0 }); // whole numbers below 2^24
  return g.node('Cast', [count], { to: DTYPE.i64 });
}

const lastOf = (g: Graph, t: string) => g.node('Slice', [t, g.ints([-1]), g.ints([2 ** 31]), g.ints([1])]);
const belowEnd = (g: Graph, end: string) => g.node('Mul', [end, g.float(BELOW_ONE)]);

function fromAll(g: Graph, vocab: number, p: string, u: string): Graph {
  const column = (t: string) => g.node('Unsqueeze', [t, g.ints([1])]);
  const cumulate = (t: string, exclusive = 0) => g.node('CumSum', [t, g.ints([1], [])], { exclusive });
  const missing = (BLOCK - (vocab % BLOCK)) % BLOCK;
  const whole = missing === 0 ? p : g.node('Pad', [p, g.ints([0, missing]), '', g.ints([1])]);
  const blocks = g.node('Reshape', [whole, g.ints([0, -1, BLOCK])]); // [N,blocks,BLOCK]
  const sums = g.node('ReduceSum', [blocks, g.ints([2])], { keepdims: 0 });
  const running = cumulate(sums);
  const end = lastOf(g, running);
  const target = g.node('Min', [g.node('Mul', [u, end]), belowEnd(g, end)]);
  const block = firstBeyond(g, running, target); // [N]
  const before = g.node('GatherElements', [cumulate(sums, 1), column(block)], { axis: 1 });
  const inside = cumulate(g.node('GatherND', [blocks, column(block)], { batch_dims: 1 })); // [N,BLOCK]
  const rest = g.node('Min', [g.node('Sub', [target, before]), belowEnd(g, lastOf(g, inside))]);
  const offset = firstBeyond(g, inside, rest);
  const token = g.node('Add', [g.node('Mul', [block, g.ints([BLOCK], [])]), offset]);
  g.output(`${g.name}.token`, token, 'i64', ['N']);
  return g;
}

function fromNucleus(g: Graph, vocab: number, p: string, u: string, topP: string): Graph {
  const few = sorted(g, p, g.ints([Math.min(vocab, LIKELIEST)]), `${g.name}.few`);
  let { values, ids } = few;
  if (vocab > LIKELIEST) {
    const held = g.node('ReduceSum', [few.values, g.ints([1])], { keepdims: 0 });
    const isShort = g.node('Cast', [g.node('Less', [held, topP])], { to: DTYPE.f32 });
    const shortRows = g.node('ReduceSum', [isShort, g.ints([0])], { keepdims: 0 });
    const all = new Graph(`${g.name}.every`);
    const every = sorted(all, p, all.ints([vocab]), `${all.name}.sorted`);
    all.output(`${all.name}.values`, every.values, 'f32', ['N', 'n']);
    all.output(`${all.name}.ids`, every.ids, 'i64', ['N', 'n']);
    const same = new Graph(`${g.name}.same`);
    same.output(`${same.name}.values`, few.values, 'f32', ['N', 'n']);
    same.output(`${same.name}.ids`, few.ids, 'i64', ['N', 'n']);
    const outputs = [`${g.name}.values`, `${g.name}.ids`] as const;
    g.node(
      'If',
      [g.node('Greater', [shortRows, g.float(0)])],
      { then_branch: { graph: all }, else_branch: { graph: same } },
      { outputs },
    );
    [values, ids] = outputs;
  }
  const cumulate = (t: string, exclusive = 0) => g.node('CumSum', [t, g.ints([1], [])], { exclusive });
  const isIn = g.node('Less', [cumulate(values, 1), topP]); // the first always
  const kept = g.node('Mul', [values, g.node('Cast', [isIn], { to: DTYPE.f32 })]);
  const running = cumulate(kept);
  const end = lastOf(g, running);
  const target = g.node('Min', [g.node('Mul', [u, end]), belowEnd(g, end)]);
  const rank = g.node('Unsqueeze', [firstBeyond(g, running, target), g.ints([1])]);
  const token = g.node('Squeeze', [g.node('GatherElements', [ids, rank], { axis: 1 }), g.ints([1])]);
  g.output(`${g.name}.token`, token, 'i64', ['N']);
  return g;
}

/** The k [1] likeliest of p [N,V], from the top. */
function sorted(g: Graph, p: string, k: string, name: string): { values: string; ids: string } {
  const outputs = [`${name}_values`, `${name}_ids`] as const;
  g.node('TopK', [p, k], { axis: 1 }, { outputs });
  return { values: outputs[0], ids: outputs[1] };
}
