/**
 * A gated delta net in float64, token by token, written from "Gated Delta Networks" (arXiv 2412.06464, eq. 10; short convolution, unit
 * queries and keys, gated norm: §3.4); the gate's form from Mamba-2 (2405.21060): exp(−exp(A) · softplus(a + b)).
 */
type Row = Float64Array;

/** D = hidden, n = key heads of size k, m = value heads of size v, C = 2nk + mv. */
export interface DeltaNet {
  sizes: { n: number; k: number; m: number; v: number; taps: number };
  mix: Row; // (C, D)
  convolution: Row; // (C, taps)
  write: Row; // (m, D)
  fade: Row; // (m, D)
  fadeBias: Row; // (m)
  speed: Row; // (m), logarithms
  gate: Row; // (m·v, D)
  norm: Row; // (v)
  out: Row; // (D, m·v)
  /** a part that is left out, to show that it is missed */
  without?: string | undefined;
}

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));
const silu = (x: number): number => x * sigmoid(x);

function unit(x: Row, without?: string): Row {
  const length = without === 'unit' ? 1 : Math.sqrt(x.reduce((sum, value) => sum + value * value, 1e-6));
  return x.map((value) => value / length);
}

/**
 * One token.
 * @param input (D) @param mixed (t, C) before the convolution, of the tokens so far @param before (m·k·v) the state behind them
 * @returns what the layer adds (D), the token's own mixed (C) and the state behind it
 */
export function deltaStep(
  net: DeltaNet,
  input: Row,
  mixed: readonly Row[],
  before: Row | undefined,
  epsilon: number,
  multiply: (weight: Row, x: Row) => Row,
): { added: Row; mixed: Row; state: Row } {
  const { n, k, m, v, taps } = net.sizes;
  const own = multiply(net.mix, input);
  const seen = [...mixed, own].slice(-taps);
  const convolved = own.map((value, c) => {
    if (net.without === 'convolution') return silu(value);
    let sum = 0;
    for (const [j, row] of seen.entries())
      sum += (row[c] as number) * (net.convolution[c * taps + taps - seen.length + j] as number);
    return silu(sum);
  });
  const [write, fade] = [multiply(net.write, input), multiply(net.fade, input)];
  const state = before?.slice() ?? new Float64Array(m * k * v);
  const read = new Float64Array(m * v);
  for (let h = 0; h < m; h++) {
    const of = Math.floor((h * n) / m);
    const query = unit(convolved.slice(of * k, (of + 1) * k), net.without).map((x) => x / Math.sqrt(k));
    const key = unit(convolved.slice((n + of) * k, (n + of + 1) * k), net.without);
    const value = convolved.subarray(2 * n * k + h * v, 2 * n * k + (h + 1) * v);
    const softplus = Math.log1p(Math.exp((fade[h] as number) + (net.fadeBias[h] as number)));
    const alpha = net.without === 'decay' ? 1 : Math.exp(-Math.exp(net.speed[h] as number) * softplus);
    const beta = net.without === 'rate' ? 1 : sigmoid(write[h] as number);
    const own = state.subarray(h * k * v, (h + 1) * k * v);
    for (let j = 0; j < v; j++) {
      let known = 0;
      for (let i = 0; i < k; i++) known += alpha * (own[i * v + j] as number) * (key[i] as number);
      const error = beta * ((value[j] as number) - known);
      let sum = 0;
      for (let i = 0; i < k; i++) {
        const cell = alpha * (own[i * v + j] as number) + (key[i] as number) * error;
        own[i * v + j] = cell;
        sum += cell * (query[i] as number);
      }
      read[h * v + j] = sum;
    }
  }
  const gate = multiply(net.gate, input);
  for (let h = 0; h < m; h++) {
    const head = read.subarray(h * v, (h + 1) * v);
    const scale = 1 / Math.sqrt(head.reduce((sum, x) => sum + x * x, 0) / v + epsilon);
    for (let j = 0; j < v; j++) {
      const opened = net.without === 'net gate' ? 1 : silu(gate[h * v + j] as number);
      head[j] = (head[j] as number) * scale * (net.norm[j] as number) * opened;
    }
  }
  return { added: multiply(net.out, read), mixed: own, state };
}
