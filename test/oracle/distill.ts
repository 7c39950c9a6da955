/** A teacher's word on the tokens of a trace, in float64, from the formulas of arXiv 2605.07865. */
import { extend, logSumExp, type OracleModel, start } from './llama.js';

/** (T) of each of a completion's tokens, nats. */
export interface Taught {
  readonly logprobs: number[];
  readonly entropies: number[];
  /** Σ_v π(v) (log π(v) − log π_T(v)) */
  readonly kl: number[];
  /** log π_T(o_t) − log π(o_t), and KL_t more: what it is above its mean Σ_v π(v) (log π_T(v) − log π(v)) */
  readonly advantages: number[];
}

export function taught(
  policy: OracleModel,
  teacher: OracleModel,
  prompt: readonly number[],
  completion: readonly number[],
): Taught {
  const [own, its] = [policy, teacher].map((model) => {
    const rows: number[][] = [];
    extend(model, start(model), [...prompt, ...completion], (logits, index) => {
      const total = logSumExp(logits);
      if (index >= prompt.length - 1) rows.push(Array.from(logits, (logit) => logit - total));
    });
    return rows;
  }) as [number[][], number[][]];
  const of = (row: (p: number[], q: number[], token: number) => number) =>
    completion.map((token, t) => row(own[t] as number[], its[t] as number[], token));
  const mean = (p: readonly number[], f: (v: number) => number) =>
    p.reduce((sum, logp, v) => sum + Math.exp(logp) * f(v), 0);
  return {
    logprobs: of((_, q, token) => q[token] as number),
    entropies: of((_, q) => mean(q, (v) => -(q[v] as number))),
    kl: of((p, q) => mean(p, (v) => (p[v] as number) - (q[v] as number))),
    advantages: of((p, q, token) => {
      const gain = (v: number) => (q[v] as number) - (p[v] as number);
      return gain(token) - mean(p, gain);
    }),
  };
}
