/** An answer whose odds are another's times e^(noise z), z normal: what errors of logits make of it. Its unsure tokens share that. */
export function offByChance(own: Float32Array, noise: number, random: () => number): Float32Array {
  const z = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const p = Math.exp(own.reduce((a, b) => a + b, 0));
  const unsure = Array.from(own, (lp) => 1 - Math.exp(lp));
  const total = unsure.reduce((a, b) => a + b, 0);
  const by = -Math.log(p + (1 - p) * Math.exp(-noise * z));
  return own.map((lp, t) => (total > 0 ? Math.min(0, lp + (by * (unsure[t] as number)) / total) : lp));
}
