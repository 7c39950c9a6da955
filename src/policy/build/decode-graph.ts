// Builds the decoding graph of a policy: rows that stand at exit points of trunks write on, token by token, inside one run.
import type { Architecture } from './architecture.js';
import { rowAttention } from './decode-attention.js';
import { rowLayers, type Weight } from './layers.js';
import { DTYPE, Graph } from './onnx.js';
import type { Precision } from './precision.js';
import { sampler } from './sampler.js';

/**
 * The decoding graph: a Loop over at most `steps` tokens of G groups of R rows, N = G·R. A group's rows share the trunk that
 * an earlier run of the scoring graph has read, whose keys stand in memory once; a row sees the first `exit` of them. The
 * Loop ends when no row has a token left to write.
 *
 * in  token [G,R] i64, the last token so far, at `pos` [G,R] · exit, left [G,R] i64: keys of the trunk in sight, tokens that the
 *     row may still write · trunk_k_i, trunk_v_i [G,kvHeads,T,headDim], past_k_i, past_v_i [G,kvHeads,R,P,headDim] f32 per layer, keys
 *     after rotation: the trunk's, and what the rows have written · uniform [steps,N] f32 in [0,1), a number a token
 *     stops [n] i64: tokens after which a row ends · inverse_temperature, top_p: f32 · cos, sin [M,headDim/2] f32
 * out tokens [t,N] i64, logprobs [t,N] f32: t ≤ steps, under the policy itself · k_i, v_i [G,kvHeads,R,t,headDim] f32 per layer,
 *     of the tokens that were read: the last one written is the next run's first
 */
export function buildDecodingGraph(
  arch: Architecture,
  weights: ReadonlyMap<string, Weight>,
  precision: Precision = 'f32',
): Graph {
  const { layers, kvHeads, headDim } = arch;
  const g = new Graph('decode');
  const body = new Graph('step');
  const grouped = (name: string) => g.input(name, 'i64', ['G', 'R']);
  const [token, pos, exit, left] = [grouped('token'), grouped('pos'), grouped('exit'), grouped('left')];
  const uniform = g.input('uniform', 'f32', ['steps', 'N']);
  const stops = g.input('stops', 'i64', ['n']);
  const inverseTemperature = g.input('inverse_temperature', 'f32', []);
  const topP = g.input('top_p', 'f32', []);
  const cos = g.input('cos', 'f32', ['M', headDim / 2]);
  const sin = g.input('sin', 'f32', ['M', headDim / 2]);
  const pairs = (kind: string, shape: readonly (string | number)[]) =>
    Array.from({ length: layers }, (_, i) => ({
      k: g.input(`${kind}_k_${i}`, 'f32', shape),
      v: g.input(`${kind}_v_${i}`, 'f32', shape),
    }));
  const trunk = pairs('trunk', ['G', kvHeads, 'T', headDim]);
  const past = pairs('past', ['G', kvHeads, 'R', 'P', headDim]);

  // one token of every row; what a body graph does not take as an input it sees from outside
  const step = body.input('step.number', 'i64', []);
  body.input('step.goes_on', 'bool', []);
  const current = body.input('step.token', 'i64', ['N']);
  const stillLeft = body.input('step.left', 'i64', ['N']);
  const block = Array.from({ length: layers }, (_, i) => ({
    k: body.input(`step.k_${i}`, 'f32', ['G', kvHeads, 'R', 't', headDim]),
    v: body.input(`step.v_${i}`, 'f32', ['G', kvHeads, 'R', 't', headDim]),
  }));
  const layer = rowLayers(g, arch, weights, precision, body);
  const at =
    <T>(list: readonly T[]) =>
    (i: number) =>
      list[i] as T;
  const sight = { pos: body.node('Add', [pos, step]), exit, cos, sin };
  const attend = rowAttention(
    body,
    arch,
    { ...sight, trunk: at(trunk), past: at(past), block: at(block) },
    precision,
  );
  let x = layer.embed(current); // [N,d]
  const written: { k: string; v: string }[] = [];
  for (let i = 0; i < layers; i++) {
    const { q, k, v } = layer.project(i, x);
    const { attended, ...own } = attend(i, q, k, v);
    written.push(own);
    x = layer.finish(i, x, attended);
  }
  const chosen = sampler(body, arch.vocab, {
    logits: layer.logits(x),
    uniform: body.node('Gather', [uniform, step]),
    inverseTemperature,
    topP,
  });
  const { nextLeft, isOn } = countDown(body, { token: chosen.token, stops, left: stillLeft });
  body.output('step.is_on', isOn, 'bool', []);
  body.output('step.next_token', chosen.token, 'i64', ['N']);
  body.output('step.next_left', nextLeft, 'i64', ['N']);
  for (const [i, { k, v }] of written.entries())
    for (const [name, value] of Object.entries({ k, v }))
      body.output(`step.next_${name}_${i}`, value, 'f32', ['G', kvHeads, 'R', 't_next', headDim]);
  body.output('step.out_token', chosen.token, 'i64', ['N']);
  body.output('step.out_logprob', chosen.logprob, 'f32', ['N']);

  const flat = (t: string) => g.node('Reshape', [t, g.ints([-1])]);
  const groups = g.node('Slice', [g.node('Shape', [token]), g.ints([0]), g.ints([1]), g.ints([0])]);
  const rows = g.node('Slice', [g.node('Shape', [token]), g.ints([1]), g.ints([2]), g.ints([0])]);
  const nothing = g.node('ConstantOfShape', [
    g.node('Concat', [groups, g.ints([kvHeads]), rows, g.ints([0, headDim])], { axis: 0 }),
  ]);
  const steps = g.node('Gather', [g.node('Shape', [uniform]), g.ints([0], [])]);
  const cache = Array.from({ length: layers }, (_, i) => [`k_${i}`, `v_${i}`]).flat();
  g.node(
    'Loop',
    [steps, '', flat(token), flat(left), ...cache.map(() => nothing)],
    { body: { graph: body } },
    { outputs: ['decode.last_token', 'decode.last_left', ...cache, 'tokens', 'logprobs'] },
  );
  g.output('tokens', 'tokens', 'i64', ['t', 'N']);
  g.output('logprobs', 'logprobs', 'f32', ['t', 'N']);
  for (const name of cache) g.output(name, name, 'f32', ['G', kvHeads, 'R', 't', headDim]);
  return g;
}

/** Tokens that each row [N] may still write after this one, and whether any row may: a stop token ends its row. */
function countDown(body: Graph, { token, stops, left }: Record<'token' | 'stops' | 'left', string>) {
  const anyOf = (flags: string, axis: number): string => {
    const ones = body.node('Cast', [flags], { to: DTYPE.f32 });
    const sum = body.node('ReduceSum', [ones, body.ints([axis])], { keepdims: 0 });
    return body.node('Greater', [sum, body.float(0)]);
  };
  const isStop = body.node('Equal', [body.node('Unsqueeze', [token, body.ints([1])]), stops]); // [N,n]
  const nextLeft = body.node('Where', [
    anyOf(isStop, 1),
    body.ints([0], []),
    body.node('Sub', [left, body.ints([1], [])]),
  ]);
  return { nextLeft, isOn: anyOf(body.node('Greater', [nextLeft, body.ints([0], [])]), 0) };
}
