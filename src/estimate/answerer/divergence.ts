// KL of two policies over a trace's tokens: exact from the last layer's rows of both, whose distributions are held a few rows at a time; else bounded from below by the tokens that were told of both.
import { dataError } from '../../errors.js';
import type { ModelSession } from '../../model/onnx/session.js';
import type { ReaderAnswers, TokenizedTrace } from '../../question.js';

/** One who has read a trace. */
export interface HasRead {
  readonly session: Pick<ModelSession, 'folder' | 'vocab' | 'precision' | 'distributions'>;
  /** (T · d) the last layer's row before each token of the completion; absent: an engine has read it, and `likeliest` tells what it can */
  readonly last?: Float32Array | undefined;
  readonly likeliest?: ReaderAnswers['likeliest'] | undefined;
  /** (T) log-probability of each token by that pass, nats */
  readonly logprobs: Float32Array;
}

/** Numbers of one distribution after the other that are held at once: 16 MiB. */
const HELD = 2 ** 22;

/** How far a token's log-probability may be off between the pass and these distributions, nats: the same product, summed in another order. */
const OFF = { f32: 0.01, f16: 0.2, bf16: 1.5 } as const;

/**
 * KL(policy ‖ teacher) at every token, nats; 0 at those that are not the policy's.
 * @returns apart: where that is a lower bound, Σ over the tokens of what the policy gives to those that were not told of both
 * @throws RredcotError (exit 65) where distributions are not those of the pass, or no numbers
 */
export async function divergences(policy: HasRead, teacher: HasRead, job: TokenizedTrace) {
  const { completionIds: ids, pieces } = job;
  const kl = new Float32Array(ids.length);
  const isExact = policy.last !== undefined && teacher.last !== undefined;
  let apart = 0;
  const rows = Math.max(1, Math.floor(HELD / Math.max(policy.session.vocab, teacher.session.vocab)));
  for (let from = 0; from < ids.length; from += rows) {
    const targets = [...ids.subarray(from, from + rows)];
    const own = await toldOf(policy, from, targets);
    const its = await toldOf(teacher, from, targets, isExact ? (own.logp as Float32Array) : undefined);
    for (const [n, id] of targets.entries()) {
      const t = from + n;
      if (pieces.tokens.own?.[t] === 0) continue;
      assertSame(policy, t, own.again?.[n], job);
      assertSame(teacher, t, its.again?.[n], job);
      const found = its.kl ? { kl: its.kl[n] as number, rest: 0 } : leastDivergence(own.of(n), its.of(n), id);
      if (!(found.kl < Infinity)) throw notSame(teacher, t, `a KL of ${found.kl}`, job);
      // rounding may take it below
      kl[t] = Math.max(0, found.kl);
      apart += found.rest;
    }
  }
  return isExact ? { kl } : { kl, apart };
}

/** What is known of a distribution: log-probabilities by token, and tokens of which that is known; absent: all. */
interface Told {
  readonly ids?: readonly number[];
  of(id: number): number | undefined;
}

/** Of several tokens one after the other; and of a graph what it gives of them: all log-probabilities, KL, and its log p of the tokens once more. */
interface ToldAll extends Partial<Record<'logp' | 'kl' | 'again', ArrayLike<number>>> {
  of(n: number): Told;
}

/** A reader's distributions at some tokens: all of them, or what it has told. @param others of the policy, of which it gives KL itself */
async function toldOf(
  reader: HasRead,
  from: number,
  targets: readonly number[],
  others?: Float32Array,
): Promise<ToldAll> {
  const { session, last, logprobs, likeliest } = reader;
  if (last === undefined)
    return {
      of(n: number): Told {
        const { ids = [], logprobs: told = [] } = likeliest?.[from + n] ?? {};
        const known = new Map(ids.map((id, i) => [id, told[i] as number]));
        known.set(targets[n] as number, logprobs[from + n] as number);
        return { ids: [...known.keys()], of: (id) => known.get(id) };
      },
    };
  const d = last.length / logprobs.length;
  const own = last.slice(from * d, (from + targets.length) * d);
  const policy = others && { logp: others, targets };
  const { logp, kl, logprobs: again } = await session.distributions(own, policy);
  const V = (logp?.length ?? 0) / targets.length;
  return {
    ...(logp && { logp }),
    ...(kl && { kl }),
    again: again ?? targets.map((id, n) => logp?.[n * V + id] as number),
    // of a token that it does not have it says 0
    of: (n: number): Told => ({ of: (id) => (id < V ? logp?.[n * V + id] : Number.NEGATIVE_INFINITY) }),
  };
}

/** A teacher's probability that is left may be off by this much, and is taken to be as large. */
const ROUNDING = 1e-3;

/**
 * KL(p ‖ q) of the tokens that are known of both, each for itself, and of all others as one: what is put together is never more divergent.
 * @param target is known of both
 * @returns nats, and the probability that p gives to the others
 */
function leastDivergence(p: Told, q: Told, target: number): Readonly<Record<'kl' | 'rest', number>> {
  let [kl, rest, left] = [0, 1, 1];
  for (const id of p.ids ?? q.ids ?? [target]) {
    const [own, its] = [p.of(id), q.of(id)];
    if (own === undefined || its === undefined) continue;
    const share = Math.exp(own);
    if (share > 0) kl += share * (own - its);
    rest -= share;
    left -= Math.exp(its);
  }
  rest = Math.max(0, rest);
  if (rest > 0) kl += rest * (Math.log(rest) - Math.log(Math.max(left, ROUNDING)));
  return { kl, rest };
}

function assertSame(reader: HasRead, t: number, again: number | undefined, job: TokenizedTrace): void {
  const { session, logprobs, last } = reader;
  if (last === undefined) return;
  if (!(Math.abs((again ?? Number.NaN) - (logprobs[t] as number)) <= OFF[session.precision]))
    throw notSame(reader, t, again, job);
}

function notSame({ session, logprobs }: HasRead, t: number, found: unknown, { trace }: TokenizedTrace) {
  return dataError(
    `${trace.source.file}:${trace.source.row} (id ${JSON.stringify(trace.id)}): ${session.folder.path} gave log p ${logprobs[t]} of completion token ${t}, and ${found} by its distribution`,
    'rredcot doctor tests this machine; the checkpoint may be damaged: build it again',
  );
}
