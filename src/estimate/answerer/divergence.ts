// KL of two policies over a trace's tokens, exact: from the last layer's rows of both, whose logits are held a few rows at a time.
import { dataError } from '../../errors.js';
import type { ModelSession } from '../../model/onnx/session.js';
import type { TokenizedTrace } from '../../question.js';

/** One who has read a trace. */
export interface HasRead {
  readonly session: Pick<ModelSession, 'folder' | 'vocab' | 'precision' | 'logits'>;
  /** (T · d) the last layer's row before each token of the completion, and (T) its log-probability by that pass, nats */
  readonly last: Float32Array;
  readonly logprobs: Float32Array;
}

/** Logits of one policy that are held at once: 64 MiB. */
const HELD = 2 ** 24;

/** How far a token's log-probability may be off between the pass and these logits, nats: the same product, summed in another order. */
const OFF = { f32: 0.01, f16: 0.2, bf16: 1.5 } as const;

/**
 * KL(own ‖ other) at every token, nats; 0 at those that are not the policy's.
 * @throws RredcotError (exit 65) where logits are not those of the pass, or no numbers
 */
export async function divergences(own: HasRead, other: HasRead, job: TokenizedTrace): Promise<Float32Array> {
  const { completionIds: ids, pieces, trace } = job;
  const T = ids.length;
  const found = new Float32Array(T);
  const rows = Math.max(1, Math.floor(HELD / Math.max(own.session.vocab, other.session.vocab)));
  for (let from = 0; from < T; from += rows) {
    const to = Math.min(T, from + rows);
    const both = [own, other].map(({ session, last }) => {
      const d = last.length / T;
      return session.logits(last.slice(from * d, to * d));
    });
    const [p, q] = (await Promise.all(both)) as [Float32Array, Float32Array];
    for (let t = from; t < to; t++) {
      if (pieces.tokens.own?.[t] === 0) continue;
      const [ofOwn, ofOther] = [p, q].map((all, n) => {
        const { vocab } = (n === 0 ? own : other).session;
        return all.subarray((t - from) * vocab, (t - from + 1) * vocab);
      }) as [Float32Array, Float32Array];
      const { kl, logNorms } = divergence(ofOwn, ofOther);
      for (const [n, { session, logprobs }] of [own, other].entries()) {
        const logits = n === 0 ? ofOwn : ofOther;
        const logprob = (logits[ids[t] as number] as number) - (logNorms[n] as number);
        if (!(Math.abs(logprob - (logprobs[t] as number)) <= OFF[session.precision] && kl < Infinity))
          throw dataError(
            `${trace.source.file}:${trace.source.row} (id ${JSON.stringify(trace.id)}): ${session.folder.path} gave log p ${logprobs[t]} of completion token ${t}, and ${logprob} by its logits, with KL ${kl}`,
            'rredcot doctor tests this machine; the checkpoint may be damaged: build it again',
          );
      }
      found[t] = kl;
    }
  }
  return found;
}

/** KL(p ‖ q), nats, in float64. @param p logits of V tokens @param q of V or more: what it has beyond counts in its sum alone @returns also log Σ exp of both */
export function divergence(p: Float32Array, q: Float32Array) {
  const [mostP, mostQ] = [largest(p), largest(q)];
  let [sumP, sumQ, gap] = [0, 0, 0];
  for (let v = 0; v < q.length; v++) sumQ += Math.exp((q[v] as number) - mostQ);
  for (let v = 0; v < p.length; v++) {
    const weight = Math.exp((p[v] as number) - mostP);
    sumP += weight;
    // a token that both rule out counts nothing
    if (weight > 0) gap += weight * ((p[v] as number) - (q[v] as number));
  }
  const logNorms = [mostP + Math.log(sumP), mostQ + Math.log(sumQ)] as const;
  return { kl: Math.max(0, gap / sumP - logNorms[0] + logNorms[1]), logNorms };
}

function largest(list: Float32Array): number {
  return list.reduce((most, each) => Math.max(most, each), Number.NEGATIVE_INFINITY);
}
