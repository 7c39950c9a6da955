/**
 * A float64 forward pass of Llama and its relatives with a forkable key/value cache, written from the publications: Mistral 7B
 * (arXiv 2310.06825, §2), Qwen2 (2407.10671), Qwen3 (2505.09388), both also with experts, OLMo 2 (2501.00656, §3), Granite 3 (its multipliers: 2408.13359, maximal
 * update), SmolLM3 (no positions in every fourth layer: 2501.18795), Qwen3.5 (the gate behind its attention: 2505.06708), and those of
 * rotary.ts and delta.ts.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type DeltaNet, deltaStep } from './delta.js';
import { rotation } from './rotary.js';
import { readSafetensors } from './safetensors.js';

type Row = Float64Array;
type Json = Record<string, unknown>;

/** A checkpoint as its files have it. */
export type OracleModel = { config: Json; tensors: Map<string, Row> };

/** D = hidden, H = heads, G = key/value heads, S = head size, F = inner size of the MLP, V = vocabulary. */
interface Layout {
  headSize: number;
  epsilon: number;
  /** (S/2) radians a token, and what cos and sin are multiplied by */
  speeds: number[];
  scale: number;
  /** what the embedding, every score, what a layer adds, and the logits are multiplied by */
  times: Record<'embedding' | 'score' | 'residual' | 'logits', number>;
  embedding: Row; // (V, D)
  layers: Layer[];
  norm: Row; // (D)
  head: Row; // (V, D)
}

interface Projection {
  weight: Row; // (rows, D)
  bias?: Row | undefined; // (rows)
}

interface Layer {
  /** keys in sight of a position, itself included */
  window: number;
  /** queries and keys are rotated */
  turns: boolean;
  attentionNorm?: Row | undefined; // (D), before it
  attentionOutNorm?: Row | undefined; // (D), behind it
  q: Projection; // (H·S, D)
  k: Projection; // (G·S, D)
  v: Projection; // (G·S, D)
  /** whose sigmoid multiplies what is attended to */
  outGate?: Row | undefined; // (H·S, D)
  o: Row; // (D, H·S)
  /** in the place of all of the attention */
  delta?: DeltaNet | undefined;
  qNorm?: Row | undefined; // (S), or (H·S): of all heads together
  kNorm?: Row | undefined; // (S), or (G·S)
  mlpNorm?: Row | undefined; // (D), before it
  mlpOutNorm?: Row | undefined; // (D), behind it
  /** of a dense layer, or of what all tokens go to */
  mlp?: Mlp | undefined;
  mixture?: Mixture | undefined;
}

interface Mlp {
  gate: Row; // (F, D)
  up: Row; // (F, D)
  down: Row; // (D, F)
}

/** Experts, of which each token goes to some (arXiv 2505.09388 §2; 2407.10671 §2.2.2). */
interface Mixture {
  router: Row; // (E, D)
  experts: Mlp[];
  chosen: number;
  /** shares of a token's experts sum to 1 */
  normalized: boolean;
  sharedGate?: Row | undefined; // (1, D): how much of what all tokens go to
}

/** The tokens read so far, with the keys and values of each; rows are never changed, so that forks share them. */
export interface State {
  ids: number[]; // (T)
  keys: Row[][]; // (layer, T) of (G·S), rotated; of a delta net the states behind the tokens
  values: Row[][]; // (layer, T) of (G·S); of a delta net what goes into its convolution
}

/** Whether a row sees a key before it, but for what a window hides; itself it always sees. */
export type Sees = (row: number, key: number) => boolean;

// ------ loading

export function loadOracleModel(folder: string): OracleModel {
  const config = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8')) as Json;
  const tensors = new Map<string, Row>();
  const [single, index] = [join(folder, 'model.safetensors'), join(folder, 'model.safetensors.index.json')];
  const files = existsSync(single)
    ? ['model.safetensors']
    : Object.values<string>(JSON.parse(readFileSync(index, 'utf8')).weight_map);
  for (const file of new Set(files))
    for (const [name, { data }] of readSafetensors(join(folder, file))) tensors.set(name, data);
  return { config, tensors };
}

const layouts = new WeakMap<OracleModel, Layout>();

function layoutOf(model: OracleModel): Layout {
  const known = layouts.get(model) ?? layOut(model);
  layouts.set(model, known);
  return known;
}

function layOut({ config, tensors }: OracleModel): Layout {
  if (config.mlp_bias === true || (config.hidden_act ?? 'silu') !== 'silu')
    throw new Error('the oracle knows neither biases of the MLP nor an act but silu');
  const { without } = config;
  const weight = (key: string): Row => {
    const found = tensors.get(key);
    if (!found) throw new Error(`no tensor ${key}`);
    return found;
  };
  // a class with another head has the layers of its family
  const family = (config.architectures as string[])[0]?.replace(/For[A-Za-z]+$/, '');
  const headSize =
    (config.head_dim as number | undefined) ??
    (config.hidden_size as number) / (config.num_attention_heads as number);
  const turnsIn = (layer: number): boolean => {
    if (family !== 'SmolLM3') return true;
    const rotated = config.no_rope_layers as number[] | undefined;
    return rotated
      ? rotated[layer] === 1
      : (layer + 1) % ((config.no_rope_layer_interval as number | undefined) ?? 4) > 0;
  };
  const windowOf = (layer: number): number => {
    const window = (config.sliding_window as number | null | undefined) ?? Number.POSITIVE_INFINITY;
    if (family === 'Mistral' || family === 'Phi3') return window;
    if (family === 'Llama' || config.use_sliding_window !== true) return Number.POSITIVE_INFINITY;
    if (family === 'SmolLM3' && config.layer_types === undefined)
      return turnsIn(layer) ? Number.POSITIVE_INFINITY : window;
    const types = config.layer_types as string[] | undefined;
    const slides = types
      ? types[layer] === 'sliding_attention'
      : layer >= (config.max_window_layers as number);
    return slides ? window : Number.POSITIVE_INFINITY;
  };
  const number = (key: string): number =>
    family === 'Granite' ? ((config[key] as number | undefined) ?? 1) : 1;
  const normWeight = (key: string): Row =>
    family === 'Qwen3_5' && without !== 'one' ? weight(key).map((x) => 1 + x) : weight(key);
  const layers = Array.from({ length: config.num_hidden_layers as number }, (_, i): Layer => {
    const at = `model.layers.${i}`;
    const types = config.layer_types as string[] | undefined;
    const delta =
      types?.[i] === 'linear_attention' ? deltaNet(config, `${at}.linear_attn`, weight) : undefined;
    const d = config.hidden_size as number;
    const kv = headSize * ((config.num_key_value_heads ?? config.num_attention_heads) as number);
    const ends = [headSize * (config.num_attention_heads as number), kv, kv];
    /** rows of a matrix with several parts */
    const part = (name: string, n: number, sizes: number[]): Row => {
      const first = sizes.slice(0, n).reduce((sum, size) => sum + size, 0);
      return weight(`${at}.${name}.weight`).subarray(first * d, (first + (sizes[n] as number)) * d);
    };
    const inner = config.intermediate_size as number;
    const isSparse = (layer: number) =>
      config.num_experts !== undefined &&
      (layer + 1) % ((config.decoder_sparse_step as number | undefined) ?? 1) === 0 &&
      !((config.mlp_only_layers as number[] | undefined) ?? []).includes(layer);
    const mlpAt = (where: string): Mlp => ({
      gate: weight(`${where}.gate_proj.weight`),
      up: weight(`${where}.up_proj.weight`),
      down: weight(`${where}.down_proj.weight`),
    });
    const sparse = (where: string) => ({
      mlp: family === 'Qwen2Moe' ? mlpAt(`${where}.shared_expert`) : undefined,
      mixture: {
        router: weight(`${where}.gate.weight`),
        experts: Array.from({ length: config.num_experts as number }, (_, e) =>
          mlpAt(`${where}.experts.${e}`),
        ),
        chosen: config.num_experts_per_tok as number,
        normalized: config.norm_topk_prob === true,
        sharedGate: family === 'Qwen2Moe' ? weight(`${where}.shared_expert_gate.weight`) : undefined,
      },
    });
    const ofMlp = (name: string, n: number): Row =>
      family === 'Phi3'
        ? part('mlp.gate_up_proj', n, [inner, inner])
        : weight(`${at}.mlp.${name}_proj.weight`);
    /** of each head first the query's rows, then its gate's */
    const halves = (half: number): Row => {
      const all = weight(`${at}.self_attn.q_proj.weight`);
      const rows = Array.from({ length: all.length / d }, (_, row) => all.subarray(row * d, (row + 1) * d));
      const own = rows.filter((_, row) => Math.floor(row / headSize) % 2 === half);
      return Float64Array.from(own.flatMap((row) => [...row]));
    };
    const isGated = family === 'Qwen3_5' && delta === undefined;
    const projection = (letter: string): Projection => ({
      weight:
        isGated && letter === 'q'
          ? halves(0)
          : delta
            ? new Float64Array()
            : family === 'Phi3'
              ? part('self_attn.qkv_proj', 'qkv'.indexOf(letter), ends)
              : weight(`${at}.self_attn.${letter}_proj.weight`),
      bias:
        family === 'Qwen2' || family === 'Qwen2Moe'
          ? weight(`${at}.self_attn.${letter}_proj.bias`)
          : undefined,
    });
    const norm = (letter: string) =>
      family === 'Qwen3' || family === 'Qwen3Moe' || family === 'Olmo2' || isGated
        ? normWeight(`${at}.self_attn.${letter}_norm.weight`)
        : undefined;
    const ofOlmo = (name: string) => (family === 'Olmo2' ? weight(`${at}.${name}.weight`) : undefined);
    const ofOthers = (name: string) => (family === 'Olmo2' ? undefined : normWeight(`${at}.${name}.weight`));
    return {
      window: windowOf(i),
      turns: turnsIn(i),
      attentionNorm: ofOthers('input_layernorm'),
      attentionOutNorm: ofOlmo('post_attention_layernorm'),
      q: projection('q'),
      k: projection('k'),
      v: projection('v'),
      outGate: isGated && without !== 'output gate' ? halves(1) : undefined,
      o: delta ? new Float64Array() : weight(`${at}.self_attn.o_proj.weight`),
      delta,
      qNorm: norm('q'),
      kNorm: norm('k'),
      mlpNorm: ofOthers('post_attention_layernorm'),
      mlpOutNorm: ofOlmo('post_feedforward_layernorm'),
      ...(isSparse(i)
        ? sparse(`${at}.mlp`)
        : {
            mlp: {
              gate: ofMlp('gate', 0),
              up: ofMlp('up', 1),
              down: weight(`${at}.mlp.down_proj.weight`),
            },
          }),
    };
  });
  const embedding = weight('model.embed_tokens.weight');
  return {
    headSize,
    epsilon: config.rms_norm_eps as number,
    ...rotation(config, headSize * rotatedShare(config, family)),
    times: {
      embedding: number('embedding_multiplier'),
      score: family === 'Granite' ? number('attention_multiplier') : 1 / Math.sqrt(headSize),
      residual: number('residual_multiplier'),
      logits: 1 / number('logits_scaling'),
    },
    embedding,
    layers,
    norm: normWeight('model.norm.weight'),
    head:
      (config.tie_word_embeddings ?? family === 'SmolLM3') === true ? embedding : weight('lm_head.weight'),
  };
}

function rotatedShare({ rope_parameters, partial_rotary_factor }: Json, family?: string): number {
  const given = (rope_parameters as Json | undefined)?.partial_rotary_factor ?? partial_rotary_factor;
  return family === 'Qwen3_5' ? ((given as number | undefined) ?? 0.25) : 1;
}

function deltaNet(config: Json, at: string, weight: (key: string) => Row): DeltaNet {
  const size = (key: string) => config[`linear_${key}`] as number;
  return {
    sizes: {
      ...{ n: size('num_key_heads'), k: size('key_head_dim') },
      ...{ m: size('num_value_heads'), v: size('value_head_dim'), taps: size('conv_kernel_dim') },
    },
    ...{ mix: weight(`${at}.in_proj_qkv.weight`), convolution: weight(`${at}.conv1d.weight`) },
    ...{ write: weight(`${at}.in_proj_b.weight`), fade: weight(`${at}.in_proj_a.weight`) },
    ...{ fadeBias: weight(`${at}.dt_bias`), speed: weight(`${at}.A_log`) },
    ...{ gate: weight(`${at}.in_proj_z.weight`), norm: weight(`${at}.norm.weight`) },
    out: weight(`${at}.out_proj.weight`),
    without: config.without as string | undefined,
  };
}

// ------ blocks

/** weight (rows, x.length) times x. Nearly all time goes here; four sums hide the latency of the addition. */
function multiply(weight: Row, x: Row, bias?: Row): Row {
  const columns = x.length;
  const whole = columns - (columns % 4);
  const out = new Float64Array(weight.length / columns);
  for (let row = 0; row < out.length; row++) {
    const base = row * columns;
    let a = bias?.[row] ?? 0;
    let b = 0;
    let c = 0;
    let d = 0;
    for (let i = 0; i < whole; i += 4) {
      a += (weight[base + i] as number) * (x[i] as number);
      b += (weight[base + i + 1] as number) * (x[i + 1] as number);
      c += (weight[base + i + 2] as number) * (x[i + 2] as number);
      d += (weight[base + i + 3] as number) * (x[i + 3] as number);
    }
    for (let i = whole; i < columns; i++) a += (weight[base + i] as number) * (x[i] as number);
    out[row] = a + b + (c + d);
  }
  return out;
}

function rmsNorm(x: Row, weight: Row, epsilon: number): Row {
  let squares = 0;
  for (const value of x) squares += value * value;
  const scale = 1 / Math.sqrt(squares / x.length + epsilon);
  return x.map((value, i) => value * scale * (weight[i] as number));
}

/** Queries or keys (heads·S): each head normalized where there is a weight, then rotated; of r components that are, i pairs with i + r/2. */
function project(
  { headSize, epsilon }: Layout,
  { weight, bias }: Projection,
  norm: Row | undefined,
  turn: readonly (readonly [cosine: number, sine: number])[], // (S/2)
  input: Row,
): Row {
  let x = multiply(weight, input, bias);
  if (norm && norm.length > headSize) x = rmsNorm(x, norm, epsilon);
  for (let first = 0; first < x.length; first += headSize) {
    const head = x.subarray(first, first + headSize);
    if (norm?.length === headSize) head.set(rmsNorm(head, norm, epsilon));
    for (const [i, [cosine, sine]] of turn.entries()) {
      const [a, b] = [head[i] as number, head[i + turn.length] as number];
      head[i] = a * cosine - b * sine;
      head[i + turn.length] = b * cosine + a * sine;
    }
  }
  return x;
}

/** Attention of one query (H·S) over the keys and values in sight, rows of (G·S); returns (H·S). */
function attend(
  headSize: number,
  times: number,
  query: Row,
  keys: readonly Row[],
  values: readonly Row[],
): Row {
  const out = new Float64Array(query.length);
  const weights = new Float64Array(keys.length);
  const share = query.length / (keys[0] as Row).length; // query heads of one key head
  for (let queryAt = 0; queryAt < query.length; queryAt += headSize) {
    const groupAt = Math.floor(queryAt / headSize / share) * headSize;
    for (const [t, key] of keys.entries()) {
      let score = 0;
      for (let i = 0; i < headSize; i++)
        score += (query[queryAt + i] as number) * (key[groupAt + i] as number);
      weights[t] = times * score;
    }
    const total = logSumExp(weights);
    for (const [t, value] of values.entries()) {
      const weight = Math.exp((weights[t] as number) - total);
      for (let i = 0; i < headSize; i++)
        out[queryAt + i] = (out[queryAt + i] as number) + weight * (value[groupAt + i] as number);
    }
  }
  return out;
}

/** silu(gate)·up, and down. */
function mlpOf({ gate, up, down }: Mlp, input: Row): Row {
  const ups = multiply(up, input);
  const active = multiply(gate, input).map((g, i) => (g / (1 + Math.exp(-g))) * (ups[i] as number)); // (F)
  return multiply(down, active);
}

/** How near two experts of a layer were to each other where one was taken and the other not: the least of all tokens read so far. */
export const nearestTie = { logits: Number.POSITIVE_INFINITY };

function feedForward({ mlp, mixture }: Layer, input: Row): Row {
  if (!mixture) return mlpOf(mlp as Mlp, input);
  const logits = multiply(mixture.router, input);
  const total = logSumExp(logits);
  const order = Array.from(logits.keys()).sort((a, b) => (logits[b] as number) - (logits[a] as number));
  const taken = order.slice(0, mixture.chosen);
  const [last, next] = [taken.at(-1), order[mixture.chosen]] as [number, number | undefined];
  if (next !== undefined)
    nearestTie.logits = Math.min(nearestTie.logits, (logits[last] as number) - (logits[next] as number));
  const share = (e: number) => Math.exp((logits[e] as number) - total);
  const whole = mixture.normalized ? taken.reduce((sum, e) => sum + share(e), 0) : 1;
  const out = new Float64Array(input.length);
  for (const e of taken)
    addTo(
      out,
      mlpOf(mixture.experts[e] as Mlp, input).map((value) => (share(e) / whole) * value),
    );
  if (mlp) {
    const [gate] = multiply(mixture.sharedGate as Row, input) as unknown as [number];
    addTo(
      out,
      mlpOf(mlp, input).map((value) => value / (1 + Math.exp(-gate))),
    );
  }
  return out;
}

function addTo(x: Row, y: Row): void {
  for (let i = 0; i < x.length; i++) x[i] = (x[i] as number) + (y[i] as number);
}

// ------ the forward pass

export function start({ config }: OracleModel): State {
  const layers = Array.from({ length: config.num_hidden_layers as number });
  return { ids: [], keys: layers.map(() => []), values: layers.map(() => []) };
}

/** The state after the first `length` tokens; the parent stays as it is. */
export function fork(state: State, length = state.ids.length): State {
  if (length > state.ids.length)
    throw new Error(`fork at ${length}, the state has ${state.ids.length} tokens`);
  return {
    ids: state.ids.slice(0, length),
    keys: state.keys.map((rows) => rows.slice(0, length)),
    values: state.values.map((rows) => rows.slice(0, length)),
  };
}

/** Reads ids into the state; `onLogits` gets the logits (V) after each of them, with its index among ids. */
export function extend(
  model: OracleModel,
  state: State,
  ids: readonly number[],
  onLogits?: (logits: Row, index: number) => void,
  sees: Sees = () => true,
): void {
  const layout = layoutOf(model);
  const { embedding, epsilon, headSize, layers, speeds, scale, times } = layout;
  const normOf = (row: Row, norm?: Row) => (norm ? rmsNorm(row, norm, epsilon) : row);
  const added = (row: Row) => row.map((value) => times.residual * value);
  const hidden = model.config.hidden_size as number;
  for (const [index, id] of ids.entries()) {
    if (!(id >= 0 && id < embedding.length / hidden))
      throw new Error(`id ${id} is outside 0..${embedding.length / hidden - 1}`);
    const position = state.ids.length;
    const turn = speeds.map((speed) => {
      return [scale * Math.cos(position * speed), scale * Math.sin(position * speed)] as const;
    });
    const x = embedding.slice(id * hidden, (id + 1) * hidden).map((value) => times.embedding * value); // (D)
    for (const [depth, layer] of layers.entries()) {
      const [keys, values] = [state.keys[depth] as Row[], state.values[depth] as Row[]];
      const normed = normOf(x, layer.attentionNorm);
      if (layer.delta) {
        const {
          added,
          mixed,
          state: after,
        } = deltaStep(layer.delta, normed, values, keys.at(-1), epsilon, multiply);
        keys.push(after);
        values.push(mixed);
        addTo(x, added);
      } else {
        const turned = layer.turns ? turn : [];
        const query = project(layout, layer.q, layer.qNorm, turned, normed);
        keys.push(project(layout, layer.k, layer.kNorm, turned, normed));
        values.push(multiply(layer.v.weight, normed, layer.v.bias));
        const isSeen = (_: Row, t: number) =>
          t === position || (sees(position, t) && t > position - layer.window);
        const attended = attend(headSize, times.score, query, keys.filter(isSeen), values.filter(isSeen));
        const gate = layer.outGate && multiply(layer.outGate, normed);
        const passed = attended.map(
          (value, i) => value / (1 + Math.exp(-(gate?.[i] ?? Number.POSITIVE_INFINITY))),
        );
        addTo(x, added(normOf(multiply(layer.o, passed), layer.attentionOutNorm)));
      }

      const input = normOf(x, layer.mlpNorm);
      addTo(x, added(normOf(feedForward(layer, input), layer.mlpOutNorm)));
    }
    state.ids.push(id);
    const last = rmsNorm(x, layout.norm, epsilon).map((value) => times.logits * value);
    if (onLogits) onLogits(multiply(layout.head, last), index);
  }
}

// ------ reading distributions

/** log Σ exp(z), exact where z holds −∞. */
export function logSumExp(logits: ArrayLike<number>): number {
  let largest = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < logits.length; i++) largest = Math.max(largest, logits[i] as number);
  if (largest === Number.NEGATIVE_INFINITY) return largest;
  let total = 0;
  for (let i = 0; i < logits.length; i++) total += Math.exp((logits[i] as number) - largest);
  return largest + Math.log(total);
}

/** Entropy in nats of softmax(logits) at T = 1: −Σ p log p, with log p = z − logSumExp(z). */
export function entropyNats(logits: Float64Array): number {
  const normaliser = logSumExp(logits);
  let entropy = 0;
  for (const logit of logits) entropy -= Math.exp(logit - normaliser) * (logit - normaliser);
  return entropy;
}

/** Log-probability of each of ids after the state, each given those before it; the state stays as it is. */
export function continuationLogprobs(
  model: OracleModel,
  state: State,
  ids: readonly number[],
  sees?: Sees,
): Float64Array {
  const last = state.ids.length - 1;
  if (last < 0) throw new Error('the first token of all has no predicting distribution');
  const logprobs = new Float64Array(ids.length);
  // the distribution after the state's last token comes from reading that token again
  const onLogits = (logits: Row, i: number): void => {
    if (i < ids.length) logprobs[i] = (logits[ids[i] as number] as number) - logSumExp(logits);
  };
  extend(model, fork(state, last), [state.ids[last] as number, ...ids.slice(0, -1)], onLogits, sees);
  return logprobs;
}

export interface TokenStats {
  state: State; // after all ids
  logprobs: Float64Array; // (T): log p(ids[t] | ids[<t]); NaN at 0
  entropies: Float64Array; // (T): of the distribution that predicts ids[t]; NaN at 0
  next: Float64Array; // (V): log-probabilities of all tokens after the last
}

const knownStats = new WeakMap<OracleModel, Map<string, TokenStats>>();

/** What a model says of a text; each text is read once. */
export function tokenStats(model: OracleModel, ids: readonly number[]): TokenStats {
  const known = knownStats.get(model) ?? new Map<string, TokenStats>();
  knownStats.set(model, known);
  const stats = known.get(ids.join()) ?? readStats(model, ids);
  known.set(ids.join(), stats);
  return { ...stats, state: fork(stats.state) };
}

function readStats(model: OracleModel, ids: readonly number[]): TokenStats {
  const state = start(model);
  const logprobs = new Float64Array(ids.length).fill(Number.NaN);
  const entropies = new Float64Array(ids.length).fill(Number.NaN);
  let next = new Float64Array();
  const onLogits = (logits: Row, t: number): void => {
    const total = logSumExp(logits);
    if (t + 1 === ids.length) next = logits.map((logit) => logit - total);
    else {
      logprobs[t + 1] = (logits[ids[t + 1] as number] as number) - total;
      entropies[t + 1] = entropyNats(logits);
    }
  };
  extend(model, state, ids, onLogits);
  return { state, logprobs, entropies, next };
}
