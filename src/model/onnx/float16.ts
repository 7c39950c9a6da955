// Half precision for what is kept of hidden states: 16 bits a number (IEEE 754 binary16).

/** The largest; what is beyond it in a residual stream is far beyond all that a state is told apart by. */
const LARGEST = 65504;

const number = new Float32Array(1);
const bits = new Uint32Array(number.buffer);

/** To nearest, ties to even. @param x float32 each */
export function toFloat16(x: Float32Array): Uint16Array {
  return Uint16Array.from(x, (value) => {
    const sign = value < 0 ? 0x8000 : 0;
    const size = Math.min(Math.abs(value), LARGEST);
    // below the normal ones all are multiples of 2^−24
    if (size < 2 ** -14) return sign | toEven(size * 2 ** 24);
    number[0] = size;
    return sign | (toEven((bits[0] as number) / 2 ** 13) - (112 << 10));
  });
}

function toEven(x: number): number {
  const low = Math.floor(x);
  const rest = x - low;
  return rest > 0.5 || (rest === 0.5 && low % 2 === 1) ? low + 1 : low;
}

/** Of all bits: a table is read faster than anything is computed. */
const VALUES = Float32Array.from({ length: 2 ** 16 }, (_, half) => {
  const [exponent, fraction] = [(half >> 10) & 31, half & 1023];
  const size = exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15);
  return half & 0x8000 ? -size : size;
});

/** Writes them to `out`, from `at` on. */
export function fromFloat16(halves: Uint16Array, out: Float32Array | Float64Array, at = 0): void {
  for (let i = 0; i < halves.length; i++) out[at + i] = VALUES[halves[i] as number] as number;
}
