/**
 * A float64 forward pass of the Llama, Mistral, Qwen2 and Qwen3 families over a whole sequence, written from the
 * publications: RoFormer (arXiv 2104.09864), position interpolation (2306.15595), YaRN (2309.00071), Llama 3
 * (2407.21783, and the scaling code released with 3.1), Mistral 7B (2310.06825, §2), Qwen2 (2407.10671), Qwen3 (2505.09388).
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { entropyNats, logSumExp } from './llama.js';
import { readSafetensors } from './safetensors.js';

type Row = Float64Array;
type Json = Record<string, unknown>;

export interface FamilyModel {
  config: Json;
  tensors: Map<string, Row>;
}

// ------ weights

export function loadFamily(folder: string): FamilyModel {
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

// ------ rotary positions

/** Radians a token of each pair of components, and what cos and sin are multiplied by. */
function rotation(config: Json, size: number): { speeds: number[]; scale: number } {
  const rope = (config.rope_parameters ?? config.rope_scaling ?? {}) as Record<string, number | undefined>;
  const kind = ((rope.rope_type ?? rope.type) as unknown as string | undefined) ?? 'default';
  const theta = rope.rope_theta ?? (config.rope_theta as number | undefined) ?? 10_000;
  const speeds = Array.from({ length: size / 2 }, (_, i) => theta ** ((-2 * i) / size));
  const s = rope.factor ?? 1;
  const context = rope.original_max_position_embeddings ?? (config.max_position_embeddings as number);
  if (kind === 'default') return { speeds, scale: 1 };
  if (kind === 'linear') return { speeds: speeds.map((w) => w / s), scale: 1 };
  if (kind === 'llama3') {
    const [slow, fast] = [rope.low_freq_factor as number, rope.high_freq_factor as number];
    return {
      scale: 1,
      speeds: speeds.map((w) => {
        const length = (2 * Math.PI) / w; // of a full turn, in tokens
        if (length < context / fast) return w;
        if (length > context / slow) return w / s;
        const smooth = (context / length - slow) / (fast - slow);
        return (1 - smooth) * (w / s) + smooth * w;
      }),
    };
  }
  if (kind !== 'yarn') throw new Error(`the oracle knows no rope type ${kind}`);
  // eq. 17 ff.: γ ramps over the dimension at which a pair makes β turns in the training context
  const at = (turns: number) => (size * Math.log(context / (turns * 2 * Math.PI))) / (2 * Math.log(theta));
  const whole = (rope.truncate as unknown as boolean | undefined) ?? true;
  const [low, high] = [at(rope.beta_fast ?? 32), at(rope.beta_slow ?? 1)];
  const first = Math.max(whole ? Math.floor(low) : low, 0);
  let last = Math.min(whole ? Math.ceil(high) : high, size - 1);
  if (last === first) last += 0.001;
  // eq. 22: √(1/t) = 0.1 ln s + 1; DeepSeek's two weights give a quotient
  const grow = (weight: number) => (s > 1 ? 0.1 * weight * Math.log(s) + 1 : 1);
  const quotient =
    rope.mscale && rope.mscale_all_dim ? grow(rope.mscale) / grow(rope.mscale_all_dim) : grow(1);
  return {
    scale: rope.attention_factor ?? quotient,
    speeds: speeds.map((w, i) => {
      const ramp = Math.min(Math.max((i - first) / (last - first), 0), 1);
      return ramp * (w / s) + (1 - ramp) * w;
    }),
  };
}

// ------ blocks

function times(matrix: Row, x: Row, bias?: Row): Row {
  const out = new Float64Array(matrix.length / x.length);
  for (let r = 0; r < out.length; r++) {
    let sum = bias?.[r] ?? 0;
    for (let c = 0; c < x.length; c++) sum += (matrix[r * x.length + c] as number) * (x[c] as number);
    out[r] = sum;
  }
  return out;
}

function rms(x: Row, weight: Row, epsilon: number): Row {
  const mean = x.reduce((sum, v) => sum + v * v, 0) / x.length;
  return x.map((v, i) => (v / Math.sqrt(mean + epsilon)) * (weight[i] as number));
}

/** Each head of x, normalised where there is a weight, then turned to its position. */
function heads(x: Row, size: number, turn: (head: Row) => Row, norm?: (head: Row) => Row): Row[] {
  return Array.from({ length: x.length / size }, (_, h) => {
    const head = x.slice(h * size, (h + 1) * size);
    return turn(norm ? norm(head) : head);
  });
}

/** What rows of a pass see, and where they stand; by itself a sequence, each row after what came before it. */
export interface Sight {
  /** (T) */
  readonly positions?: readonly number[];
  /** whether a row sees a key before it, but for what a window hides; itself it always sees */
  readonly sees?: (row: number, key: number) => boolean;
  /** told of every attention weight */
}

const weightOf = ({ tensors }: FamilyModel, key: string): Row => {
  const found = tensors.get(key);
  if (!found) throw new Error(`no tensor ${key}`);
  return found;
};

/** The input embedding of each token, a copy. */
export function familyEmbeddings(model: FamilyModel, ids: readonly number[]): Row[] {
  const d = model.config.hidden_size as number;
  const embedding = weightOf(model, 'model.embed_tokens.weight');
  return ids.map((id) => embedding.slice(id * d, (id + 1) * d));
}

/** What the last layer gives, from input embeddings (T). */
export function familyStates(model: FamilyModel, embeddings: readonly Row[], sight: Sight = {}): Row[] {
  const { positions = embeddings.map((_, t) => t), sees = () => true } = sight;
  const { config } = model;
  // a class with another head has the prefix of its family
  const name = (config.architectures as string[])[0]?.replace(/For[A-Za-z]+$/, 'ForCausalLM');
  const d = config.hidden_size as number;
  const H = config.num_attention_heads as number;
  const G = (config.num_key_value_heads as number | undefined) ?? H;
  const size = (config.head_dim as number | undefined) ?? d / H;
  const epsilon = config.rms_norm_eps as number;
  const layers = config.num_hidden_layers as number;
  const { speeds, scale } = rotation(config, size);
  const weight = (key: string): Row => weightOf(model, key);
  const turnTo = (position: number) => (head: Row) => {
    const out = new Float64Array(size);
    for (const [i, speed] of speeds.entries()) {
      const [c, s] = [scale * Math.cos(position * speed), scale * Math.sin(position * speed)];
      const [a, b] = [head[i] as number, head[i + size / 2] as number];
      out[i] = a * c - b * s;
      out[i + size / 2] = a * s + b * c;
    }
    return out;
  };
  /** keys in sight of a position, itself included */
  const reach = (layer: number): number => {
    const window = (config.sliding_window as number | null | undefined) ?? Number.POSITIVE_INFINITY;
    if (name === 'MistralForCausalLM') return window;
    if (name === 'LlamaForCausalLM' || config.use_sliding_window !== true) return Number.POSITIVE_INFINITY;
    const types = config.layer_types as string[] | undefined;
    const slides = types
      ? types[layer] === 'sliding_attention'
      : layer >= (config.max_window_layers as number);
    return slides ? window : Number.POSITIVE_INFINITY;
  };

  const xs = [...embeddings];
  for (let layer = 0; layer < layers; layer++) {
    const at = `model.layers.${layer}`;
    const proj = (letter: string, x: Row) =>
      times(
        weight(`${at}.self_attn.${letter}_proj.weight`),
        x,
        name === 'Qwen2ForCausalLM' && letter !== 'o'
          ? weight(`${at}.self_attn.${letter}_proj.bias`)
          : undefined,
      );
    const normOf = (letter: string) =>
      name === 'Qwen3ForCausalLM'
        ? (head: Row) => rms(head, weight(`${at}.self_attn.${letter}_norm.weight`), epsilon)
        : undefined;
    const normed = xs.map((x) => rms(x, weight(`${at}.input_layernorm.weight`), epsilon));
    const q = normed.map((x, t) => heads(proj('q', x), size, turnTo(positions[t] as number), normOf('q'))); // (T, H) of (size)
    const k = normed.map((x, t) => heads(proj('k', x), size, turnTo(positions[t] as number), normOf('k'))); // (T, G) of (size)
    const v = normed.map((x) => heads(proj('v', x), size, (head) => head)); // (T, G) of (size)
    for (const [t, x] of xs.entries()) {
      const inSight = Array.from({ length: t + 1 }, (_, u) => u).filter(
        (u) => u === t || (sees(t, u) && (positions[u] as number) > (positions[t] as number) - reach(layer)),
      );
      const mixed = new Float64Array(H * size);
      for (let h = 0; h < H; h++) {
        const g = Math.floor(h / (H / G));
        const query = q[t]?.[h] as Row;
        const scores = inSight.map(
          (u) => query.reduce((sum, a, i) => sum + a * (k[u]?.[g]?.[i] as number), 0) / Math.sqrt(size),
        );
        const total = logSumExp(scores);
        for (const [j, score] of scores.entries()) {
          const p = Math.exp(score - total);
          const u = inSight[j] as number;
          for (let i = 0; i < size; i++)
            mixed[h * size + i] = (mixed[h * size + i] as number) + p * (v[u]?.[g]?.[i] as number);
        }
      }
      const added = proj('o', mixed);
      const y = x.map((value, i) => value + (added[i] as number));
      const input = rms(y, weight(`${at}.post_attention_layernorm.weight`), epsilon);
      const up = times(weight(`${at}.mlp.up_proj.weight`), input);
      const gate = times(weight(`${at}.mlp.gate_proj.weight`), input).map((z) => z / (1 + Math.exp(-z)));
      const down = times(
        weight(`${at}.mlp.down_proj.weight`),
        gate.map((value, i) => value * (up[i] as number)),
      );
      xs[t] = y.map((value, i) => value + (down[i] as number));
    }
  }
  return xs;
}

/** The same (T) of (D) after the last norm, for ids. */
export function familyHidden(model: FamilyModel, ids: readonly number[]): Row[] {
  const weight = weightOf(model, 'model.norm.weight');
  const epsilon = model.config.rms_norm_eps as number;
  return familyStates(model, familyEmbeddings(model, ids)).map((state) => rms(state, weight, epsilon));
}

/** Log-probabilities of all tokens after a row that the last layer gave. */
export function familyNext(model: FamilyModel, state: Row): Float64Array {
  const { config } = model;
  const isTied = config.tie_word_embeddings === true;
  const head = weightOf(model, isTied ? 'model.embed_tokens.weight' : 'lm_head.weight');
  const logits = times(head, rms(state, weightOf(model, 'model.norm.weight'), config.rms_norm_eps as number));
  const total = logSumExp(logits);
  return logits.map((logit) => logit - total);
}

/**
 * Log-probabilities and entropies (nats) of a sequence; position 0 has no predicting distribution: NaN. `next` has the
 * log-probabilities of all tokens after the last.
 */
export function familyScores(
  model: FamilyModel,
  ids: readonly number[],
): { logprobs: Float64Array; entropies: Float64Array; next: Float64Array } {
  const states = familyStates(model, familyEmbeddings(model, ids));
  const after = states.map((state) => familyNext(model, state));
  const logprobs = Float64Array.from(ids, (id, t) => after[t - 1]?.[id] ?? Number.NaN);
  const entropies = Float64Array.from(ids, (_, t) =>
    t === 0 ? Number.NaN : entropyNats(after[t - 1] as Row),
  );
  return { logprobs, entropies, next: after[after.length - 1] as Row };
}
