// Distributions behind rows of the last layer, by a session of the head alone.
import type { InferenceSession, TypedTensor } from 'onnxruntime-node';

/** Rows of the last layer (h · d), which stand one after the other; and for a teacher's head what the policy's gives of the same tokens. */
export interface HeadRows {
  readonly rows: Float32Array;
  /** numbers of a row */
  readonly hidden: number;
  /** logp (h · V') of the policy's, and what followed (h) */
  readonly policy?: { readonly logp: Float32Array; readonly targets: readonly number[] };
}

/** @returns logp (h · V); of a teacher kl (h), KL(policy ‖ it), and logprobs (h) of the targets; nats */
export async function distributionsOf(
  ort: typeof import('onnxruntime-node'),
  session: InferenceSession,
  { rows, hidden, policy }: HeadRows,
): Promise<Record<string, Float32Array>> {
  const h = rows.length / hidden;
  const table = (data: Float32Array) => new ort.Tensor('float32', data, [h, data.length / h]);
  const feeds = policy && {
    others: table(policy.logp),
    targets: new ort.Tensor('int64', BigInt64Array.from(policy.targets, BigInt), [h]),
  };
  const found = Object.entries(await session.run({ rows: table(rows), ...feeds }));
  return Object.fromEntries(found.map(([name, tensor]) => [name, (tensor as TypedTensor<'float32'>).data]));
}
