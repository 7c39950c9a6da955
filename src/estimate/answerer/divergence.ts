// KL of two policies over a trace's tokens, exact: from the last layer's rows of both, whose distributions are held a few rows at a time.
import { dataError } from '../../errors.js';
import type { ModelSession } from '../../model/onnx/session.js';
import type { TokenizedTrace } from '../../question.js';

/** One who has read a trace. */
export interface HasRead {
  readonly session: Pick<ModelSession, 'folder' | 'vocab' | 'precision' | 'distributions'>;
  /** (T · d) the last layer's row before each token of the completion, and (T) its log-probability by that pass, nats */
  readonly last: Float32Array;
  readonly logprobs: Float32Array;
}

/** Numbers of one distribution after the other that are held at once: 16 MiB. */
const HELD = 2 ** 22;

/** How far a token's log-probability may be off between the pass and these distributions, nats: the same product, summed in another order. */
const OFF = { f32: 0.01, f16: 0.2, bf16: 1.5 } as const;

/**
 * KL(policy ‖ teacher) at every token, nats; 0 at those that are not the policy's.
 * @throws RredcotError (exit 65) where distributions are not those of the pass, or no numbers
 */
export async function divergences(policy: HasRead, teacher: HasRead, job: TokenizedTrace) {
  const { completionIds: ids, pieces, trace } = job;
  const found = new Float32Array(ids.length);
  const rows = Math.max(1, Math.floor(HELD / teacher.session.vocab));
  for (let from = 0; from < ids.length; from += rows) {
    const targets = [...ids.subarray(from, from + rows)];
    const [own, its] = [policy, teacher].map(({ last }) => {
      const d = last.length / ids.length;
      return last.slice(from * d, (from + targets.length) * d);
    }) as [Float32Array, Float32Array];
    const { logp = NONE } = await policy.session.distributions(own);
    const V = logp.length / targets.length;
    const told = targets.map((id, n) => logp[n * V + id] as number);
    const { kl = NONE, logprobs = NONE } = await teacher.session.distributions(its, { logp, targets });
    for (const n of targets.keys()) {
      const t = from + n;
      if (pieces.tokens.own?.[t] === 0) continue;
      const readings = [[policy, told] as const, [teacher, logprobs] as const];
      for (const [{ session, logprobs: read }, again] of readings) {
        const off = Math.abs((again[n] as number) - (read[t] as number));
        if (!(off <= OFF[session.precision] && (kl[n] as number) < Infinity))
          throw dataError(
            `${trace.source.file}:${trace.source.row} (id ${JSON.stringify(trace.id)}): ${session.folder.path} gave log p ${read[t]} of completion token ${t}, and ${again[n]} by its distribution, with KL ${kl[n]}`,
            'rredcot doctor tests this machine; the checkpoint may be damaged: build it again',
          );
      }
      // rounding may take it below
      found[t] = Math.max(0, kl[n] as number);
    }
  }
  return found;
}

const NONE = new Float32Array(0);
