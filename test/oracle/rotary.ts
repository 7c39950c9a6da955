// The rotary positions of a checkpoint, written from the publications: RoFormer (arXiv 2104.09864), position interpolation (2306.15595),
// YaRN (2309.00071), Llama 3 (2407.21783, and the scaling code released with 3.1).

type Json = Record<string, unknown>;

/** Radians a token of each pair of components, and what cos and sin are multiplied by. */
export function rotation(config: Json, size: number): { speeds: number[]; scale: number } {
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
