// Reference numbers for `policy check`: what another implementation says of a token sequence.
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { usageError } from '../../errors.js';
import { ofSchema } from '../build/json.js';

const common = {
  ids: z.array(z.number().int().nonnegative()).min(1),
  tolerance: z.number().positive().optional(),
};
const numberList = z.array(z.number()).min(1);
const OfPolicy = z.object({
  ...common,
  ids: common.ids.min(2),
  logprobs: numberList.optional(),
  entropies: numberList.optional(),
  // the names of the first published file of this kind
  token_logprobs: numberList.optional(),
  token_entropies_nats: numberList.optional(),
});
const OfPrm = z.object({ ...common, correct: z.array(z.number().min(0).max(1)).min(1) });

type Fail = (reason: string) => never;

/**
 * What it says of a policy's tokens (T), nats: log p of ids[1..], and entropies of the distributions that predict these, (T-1) or (T)
 * with the one after the last token.
 * @throws RredcotError (exit 2) where the file is not {ids, logprobs, entropies} of fitting lengths
 */
export async function readReference(path: string, vocab: number) {
  const form = '{"ids": (T), "logprobs": (T-1), "entropies": (T-1)}';
  const { data, ids, tolerance, fail } = await read(path, OfPolicy, form, "the policy's", vocab);
  const logprobs = data.logprobs ?? data.token_logprobs;
  const entropies = data.entropies ?? data.token_entropies_nats;
  if (logprobs === undefined || entropies === undefined)
    return fail(`has no ${logprobs === undefined ? 'logprobs' : 'entropies'}`);
  const T = ids.length;
  if (logprobs.length !== T - 1) fail(`has ${logprobs.length} logprobs, expected ${T - 1}`);
  if (entropies.length !== T - 1 && entropies.length !== T)
    fail(`has ${entropies.length} entropies, expected ${T - 1} or ${T}`);
  return { ids, logprobs, entropies, tolerance };
}

/**
 * What it says of a process reward model's: P(right) at every token (T).
 * @throws RredcotError (exit 2) where the file is not {ids, correct} of one length
 */
export async function readPrmReference(path: string, vocab: number) {
  const form = '{"ids": (T), "correct": (T)}';
  const { data, ids, tolerance, fail } = await read(path, OfPrm, form, "the model's", vocab);
  const { correct } = data;
  if (correct.length !== ids.length) fail(`has ${correct.length} numbers in correct, expected ${ids.length}`);
  return { ids, correct, tolerance };
}

/** @param form of the file, in words @param whose vocabulary the ids are of */
async function read<T extends { readonly ids: readonly number[]; readonly tolerance?: number | undefined }>(
  path: string,
  schema: z.ZodType<T>,
  form: string,
  whose: string,
  vocab: number,
) {
  const hint = `make one with examples/make_reference.py: ${form}`;
  const fail: Fail = (reason) => {
    throw usageError(`${path}: ${reason}`, hint);
  };
  let value: unknown;
  try {
    value = JSON.parse(await readFile(path, 'utf8'));
  } catch (cause) {
    return fail(`cannot be read as JSON (${(cause as Error).message})`);
  }
  const data = ofSchema(schema, value, path, hint);
  const beyond = data.ids.find((id) => id >= vocab);
  if (beyond !== undefined) fail(`has the id ${beyond}, ${whose} vocabulary has ${vocab} tokens`);
  return { data, ids: Int32Array.from(data.ids), tolerance: data.tolerance, fail };
}
