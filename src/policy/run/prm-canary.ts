// The canary of a process reward model: probabilities of right at fixed tokens, made and held against a session.
import type { Precision } from '../build/precision.js';
import { Farthest, type Proof, repeated, SHARES, stored } from './canary.js';

/** A canary as `canary.json` has it: sequences of one run each. */
export interface PrmCanary {
  readonly passes: readonly (readonly Sequence[])[];
}
interface Sequence {
  readonly ids: readonly number[];
  readonly rows: readonly number[];
  /** P(right) at each row */
  readonly correct: readonly number[];
}

/** What it asks of a session. */
export interface Judges {
  read(
    sequences: readonly { readonly ids: Int32Array; readonly rows: Int32Array }[],
  ): Promise<Float32Array[]>;
}

/** As the policy's: padded beside each other, and alone. */
const LENGTHS = [[40, 21], [256]] as const;

/** Asks a session in float32 on the CPU, at every token. @throws RangeError where it gives what is no number */
export async function makePrmCanary(
  session: Judges,
  text: Int32Array,
  { vocab, maxTokens }: { readonly vocab: number; readonly maxTokens: number },
): Promise<PrmCanary> {
  const passes: Sequence[][] = [];
  for (const lengths of LENGTHS) {
    const sequences = lengths.map((length) => {
      const ids = repeated(text, vocab, Math.max(2, Math.min(length, maxTokens)));
      return { ids, rows: Int32Array.from(ids.keys()) };
    });
    const said = await session.read(sequences);
    passes.push(
      sequences.map(({ ids, rows }, i) => ({
        ids: [...ids],
        rows: [...rows],
        correct: stored(said[i] as Float32Array),
      })),
    );
  }
  return { passes };
}

/** Holds a session against the canary; `mostMs` as of `provePolicy`. */
export async function provePrm(
  session: Judges,
  { passes }: PrmCanary,
  {
    precision,
    mostMs = Number.POSITIVE_INFINITY,
  }: { readonly precision: Precision; readonly mostMs?: number },
): Promise<Omit<Proof, 'attentionOnCpu'>> {
  const right = new Farthest('P(right)', 'P', SHARES[precision]);
  let [rows, ms, leftOut] = [0, 0, 0];
  for (const sequences of passes) {
    const size = sequences.reduce((sum, { ids }) => sum + ids.length, 0);
    if (rows > 0 && (ms * size) / rows > mostMs) {
      leftOut += size;
      continue;
    }
    const asked = sequences.map((own) => ({
      ids: Int32Array.from(own.ids),
      rows: Int32Array.from(own.rows),
    }));
    const started = performance.now();
    const said = await session.read(asked);
    [rows, ms] = [rows + size, ms + performance.now() - started];
    for (const [i, own] of sequences.entries())
      right.add(said[i] as Float32Array, own.correct, (t) => `token ${own.rows[t]} of ${own.ids.length}`);
  }
  return { findings: [right.result()], leftOut };
}
