/** A float64 forward pass of LlamaForCausalLM with a forkable key/value cache. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readSafetensors } from './safetensors.js';

/** D = hidden, H = heads, G = key/value heads, S = head size, F = inner size of the MLP, V = vocabulary. */
export interface OracleModel {
  hidden: number;
  heads: number;
  groups: number;
  headSize: number;
  inner: number;
  vocabulary: number;
  epsilon: number;
  inverseFrequencies: Float64Array; // (S/2)
  embedding: Float64Array; // (V, D)
  layers: Layer[];
  norm: Float64Array; // (D)
  head: Float64Array; // (V, D)
}

interface Layer {
  attentionNorm: Float64Array; // (D)
  q: Float64Array; // (H·S, D)
  k: Float64Array; // (G·S, D)
  v: Float64Array; // (G·S, D)
  o: Float64Array; // (D, H·S)
  mlpNorm: Float64Array; // (D)
  gate: Float64Array; // (F, D)
  up: Float64Array; // (F, D)
  down: Float64Array; // (D, F)
}

/** The tokens read so far, with the keys and values of each; rows are never changed, so that forks share them. */
export interface State {
  ids: number[]; // (T)
  keys: Float64Array[][]; // (layer, T) of (G·S), rotated
  values: Float64Array[][]; // (layer, T) of (G·S)
}

interface Config {
  hidden_size: number;
  intermediate_size: number;
  num_hidden_layers: number;
  num_attention_heads: number;
  num_key_value_heads?: number;
  head_dim?: number;
  rms_norm_eps: number;
  rope_theta?: number;
  rope_scaling?: unknown;
  hidden_act?: string;
  attention_bias?: boolean;
  mlp_bias?: boolean;
  tie_word_embeddings?: boolean;
}

// ------ loading

export function loadOracleModel(folder: string): OracleModel {
  const config = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8')) as Config;
  if (
    config.rope_scaling ||
    config.attention_bias ||
    config.mlp_bias ||
    (config.hidden_act ?? 'silu') !== 'silu'
  ) {
    throw new Error(
      `${folder}/config.json: the oracle knows neither rope_scaling, biases nor an act but silu`,
    );
  }
  const tensors = readSafetensors(join(folder, 'model.safetensors'));
  const hidden = config.hidden_size;
  const inner = config.intermediate_size;
  const heads = config.num_attention_heads;
  const groups = config.num_key_value_heads ?? heads;
  const headSize = config.head_dim ?? hidden / heads;
  const tensor = (name: string, ...shape: number[]): Float64Array => {
    const found = tensors.get(name);
    if (found?.shape.join() !== shape.join()) {
      throw new Error(`${folder}: tensor ${name} has shape [${found?.shape}], expected [${shape}]`);
    }
    return found.data;
  };
  const vocabulary = tensors.get('model.embed_tokens.weight')?.shape[0] ?? 0;
  const embedding = tensor('model.embed_tokens.weight', vocabulary, hidden);
  const layers = Array.from({ length: config.num_hidden_layers }, (_, i): Layer => {
    const at = `model.layers.${i}`;
    return {
      attentionNorm: tensor(`${at}.input_layernorm.weight`, hidden),
      q: tensor(`${at}.self_attn.q_proj.weight`, heads * headSize, hidden),
      k: tensor(`${at}.self_attn.k_proj.weight`, groups * headSize, hidden),
      v: tensor(`${at}.self_attn.v_proj.weight`, groups * headSize, hidden),
      o: tensor(`${at}.self_attn.o_proj.weight`, hidden, heads * headSize),
      mlpNorm: tensor(`${at}.post_attention_layernorm.weight`, hidden),
      gate: tensor(`${at}.mlp.gate_proj.weight`, inner, hidden),
      up: tensor(`${at}.mlp.up_proj.weight`, inner, hidden),
      down: tensor(`${at}.mlp.down_proj.weight`, hidden, inner),
    };
  });
  const theta = config.rope_theta ?? 10000;
  return {
    hidden,
    heads,
    groups,
    headSize,
    inner,
    vocabulary,
    epsilon: config.rms_norm_eps,
    inverseFrequencies: Float64Array.from({ length: headSize / 2 }, (_, i) => theta ** ((-2 * i) / headSize)),
    embedding,
    layers,
    norm: tensor('model.norm.weight', hidden),
    head: config.tie_word_embeddings ? embedding : tensor('lm_head.weight', vocabulary, hidden),
  };
}

// ------ blocks

/** weight (rows, x.length) times x. Nearly all time goes here; four sums hide the latency of the addition. */
function multiply(weight: Float64Array, x: Float64Array, rows: number): Float64Array {
  const columns = x.length;
  const whole = columns - (columns % 4);
  const out = new Float64Array(rows);
  for (let row = 0; row < rows; row++) {
    const base = row * columns;
    let a = 0;
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

function rmsNorm(x: Float64Array, weight: Float64Array, epsilon: number): Float64Array {
  let squares = 0;
  for (const value of x) squares += value * value;
  const scale = 1 / Math.sqrt(squares / x.length + epsilon);
  return x.map((value, i) => value * scale * (weight[i] as number));
}

/** Rotates each head of x (heads·S) in place: component i pairs with i + S/2, as in Hugging Face's Llama. */
function rotate(model: OracleModel, x: Float64Array, position: number): void {
  const half = model.headSize / 2;
  for (let i = 0; i < half; i++) {
    const angle = position * (model.inverseFrequencies[i] as number);
    const cosine = Math.cos(angle);
    const sine = Math.sin(angle);
    for (let first = i; first < x.length; first += model.headSize) {
      const a = x[first] as number;
      const b = x[first + half] as number;
      x[first] = a * cosine - b * sine;
      x[first + half] = b * cosine + a * sine;
    }
  }
}

/** Attention of one query (H·S) over all cached keys and values, (T) rows of (G·S); returns (H·S). */
function attend(model: OracleModel, query: Float64Array, keys: Float64Array[], values: Float64Array[]) {
  const { heads, groups, headSize } = model;
  const out = new Float64Array(heads * headSize);
  const weights = new Float64Array(keys.length); // (T)
  for (let head = 0; head < heads; head++) {
    const queryAt = head * headSize;
    const groupAt = Math.floor((head * groups) / heads) * headSize;
    let largest = Number.NEGATIVE_INFINITY;
    for (let t = 0; t < keys.length; t++) {
      const key = keys[t] as Float64Array;
      let score = 0;
      for (let i = 0; i < headSize; i++)
        score += (query[queryAt + i] as number) * (key[groupAt + i] as number);
      weights[t] = score / Math.sqrt(headSize);
      largest = Math.max(largest, weights[t] as number);
    }
    let total = 0;
    for (let t = 0; t < keys.length; t++) {
      const weight = Math.exp((weights[t] as number) - largest);
      const value = values[t] as Float64Array;
      total += weight;
      for (let i = 0; i < headSize; i++) {
        out[queryAt + i] = (out[queryAt + i] as number) + weight * (value[groupAt + i] as number);
      }
    }
    for (let i = 0; i < headSize; i++) out[queryAt + i] = (out[queryAt + i] as number) / total;
  }
  return out;
}

function addTo(x: Float64Array, y: Float64Array): void {
  for (let i = 0; i < x.length; i++) x[i] = (x[i] as number) + (y[i] as number);
}

// ------ the forward pass

export function start(model: OracleModel): State {
  return { ids: [], keys: model.layers.map(() => []), values: model.layers.map(() => []) };
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
  onLogits?: (logits: Float64Array, index: number) => void,
): void {
  for (const [index, id] of ids.entries()) {
    if (!(id >= 0 && id < model.vocabulary))
      throw new Error(`id ${id} is outside 0..${model.vocabulary - 1}`);
    const position = state.ids.length;
    const x = model.embedding.slice(id * model.hidden, (id + 1) * model.hidden); // (D)
    for (const [depth, layer] of model.layers.entries()) {
      const keys = state.keys[depth] as Float64Array[];
      const values = state.values[depth] as Float64Array[];
      const normed = rmsNorm(x, layer.attentionNorm, model.epsilon);
      const query = multiply(layer.q, normed, model.heads * model.headSize);
      const key = multiply(layer.k, normed, model.groups * model.headSize);
      rotate(model, query, position);
      rotate(model, key, position);
      keys.push(key);
      values.push(multiply(layer.v, normed, model.groups * model.headSize));
      addTo(x, multiply(layer.o, attend(model, query, keys, values), model.hidden));

      const input = rmsNorm(x, layer.mlpNorm, model.epsilon);
      const gate = multiply(layer.gate, input, model.inner);
      const up = multiply(layer.up, input, model.inner);
      const active = gate.map((g, i) => (g / (1 + Math.exp(-g))) * (up[i] as number)); // silu(gate)·up, (F)
      addTo(x, multiply(layer.down, active, model.hidden));
    }
    state.ids.push(id);
    if (onLogits)
      onLogits(multiply(model.head, rmsNorm(x, model.norm, model.epsilon), model.vocabulary), index);
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
export function continuationLogprobs(model: OracleModel, state: State, ids: readonly number[]): Float64Array {
  const last = state.ids.length - 1;
  if (last < 0) throw new Error('the first token of all has no predicting distribution');
  const logprobs = new Float64Array(ids.length);
  // the distribution after the state's last token comes from reading that token again
  extend(model, fork(state, last), [state.ids[last] as number, ...ids.slice(0, -1)], (logits, i) => {
    if (i < ids.length) logprobs[i] = (logits[ids[i] as number] as number) - logSumExp(logits);
  });
  return logprobs;
}

export interface TokenStats {
  state: State; // after all ids
  logprobs: Float64Array; // (T): log p(ids[t] | ids[<t]); NaN at 0
  entropies: Float64Array; // (T): of the distribution that predicts ids[t]; NaN at 0
}

export function tokenStats(model: OracleModel, ids: readonly number[]): TokenStats {
  const state = start(model);
  const logprobs = new Float64Array(ids.length).fill(Number.NaN);
  const entropies = new Float64Array(ids.length).fill(Number.NaN);
  extend(model, state, ids, (logits, t) => {
    if (t + 1 === ids.length) return;
    logprobs[t + 1] = (logits[ids[t + 1] as number] as number) - logSumExp(logits);
    entropies[t + 1] = entropyNats(logits);
  });
  return { state, logprobs, entropies };
}
