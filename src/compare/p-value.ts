// The two-sided probability of a normal deviate.

/** P(|Z| ≥ |z|) of a standard normal Z, to a relative 1e-12. */
export function twoSided(z: number): number {
  return erfc(Math.abs(z) / Math.SQRT2);
}

/** erfc(x), x ≥ 0: its series where that is short, else its continued fraction (DLMF 7.6.2 and 7.9.3). */
function erfc(x: number): number {
  if (x < 2) {
    // erf(x) = 2/√π e^{-x²} Σ 2ⁿ x^{2n+1} / (1·3·…·(2n+1))
    let term = x;
    let sum = x;
    for (let n = 1; term > sum * 1e-17; n++) {
      term *= (2 * x * x) / (2 * n + 1);
      sum += term;
    }
    return 1 - (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
  }
  // x + (1/2)/(x + 1/(x + (3/2)/(x + …))), from the inside
  let fraction = x;
  for (let n = 120; n >= 1; n--) fraction = x + n / 2 / fraction;
  return Math.exp(-x * x) / (Math.sqrt(Math.PI) * fraction);
}
