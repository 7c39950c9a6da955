// Turns what each segment counts for into values as they are stored: the sums so far.

/** (K) a_k → (K+1) v_0 = 0, v_k = a_1 + … + a_k, summed in float64: Δ_k of the values is a_k. */
export function summedAttributions(attributions: Float64Array): Float32Array {
  const values = new Float32Array(attributions.length + 1);
  let sum = 0;
  for (const [k, attribution] of attributions.entries()) {
    sum += attribution;
    values[k + 1] = sum;
  }
  return values;
}
