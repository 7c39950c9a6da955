// Checks a running model: what it says of one text in several ways has to be the same, and what others say of it.
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { usageError } from '../../errors.js';
import { continueTraces, type PolicyWrites } from '../decode/continue.js';
import { rowKey, type Written } from '../decode/sampling.js';
import { ofSchema } from '../graph/json.js';
import { type CanaryFinding, Farthest } from './canary.js';
import { type Branch, besideEachOther, nextKept } from './placed.js';
import type { ModelSession, PolicyRuns, TraceScores } from './session.js';

const EXITS = 8;
const CONTINUATION_TOKENS = 16;
/** More than a run of the decoding graph on the CPU: keys and values cross to the next one. */
const WRITTEN_TOKENS = 36;

/** Fewest tokens of a text that has an exit point with something to score behind it. */
export const LEAST_TOKENS = 4;

/**
 * Reads ids (T) once as a trunk, continues it at exit points in branches, with the text itself and with another
 * continuation, and reads each of those sequences again from its first token on.
 */
export async function compareRuns(
  session: PolicyRuns,
  ids: Int32Array,
  other: Int32Array,
): Promise<CanaryFinding[]> {
  const differences = {
    trunkLogprob: largest('trunk − naive, log p'),
    trunkEntropy: largest('trunk − naive, entropy'),
    branchTrunk: largest('branches − trunk, log p'),
    branchNaive: largest('branches − naive, log p'),
    oneRun: largest('one run − two runs, log p'),
    shared: largest('prompt read once − with each, log p'),
  };
  const kept = nextKept();
  const whole = await single(session, ids, 1, kept); // scores token t at t − 1
  const branches = exitPoints(ids.length).flatMap((exit): Branch[] => [
    { exit, ids: ids.slice(exit, exit + CONTINUATION_TOKENS), scoredFrom: 1 },
    { exit, ids: other, scoredFrom: 1 },
  ]);
  const scores = ((await session.branches(kept, [branches]))[0] as TraceScores).branches;
  await session.release(kept);
  const [together] = (await session.run([{ ids, promptLength: 1, branches }])) as [TraceScores];
  await comparePrompt(session, ids, other, branches, together, differences.shared);
  for (const [i, { exit, ids: continuation, scoredFrom }] of branches.entries()) {
    const from = exit + scoredFrom;
    const sequence = Int32Array.of(...ids.subarray(0, exit), ...continuation);
    const naive = await single(session, sequence, from);
    differences.branchNaive.add(scores[i] as Float32Array, naive.logprobs, from);
    differences.oneRun.add(together.branches[i] as Float32Array, scores[i] as Float32Array, from);
    if (i % 2 === 1) continue; // not the text itself: the trunk knows nothing of it
    const span = [from - 1, from - 1 + naive.logprobs.length] as const;
    differences.branchTrunk.add(scores[i] as Float32Array, whole.logprobs.subarray(...span), from);
    differences.trunkLogprob.add(whole.logprobs.subarray(...span), naive.logprobs, from);
    differences.trunkEntropy.add(whole.entropies.subarray(...span), naive.entropies, from);
  }
  return Object.values(differences).map((largest) => largest.result());
}

/** The text's first half as a prompt that two completions share, read once, against what was found by reading it with each. */
async function comparePrompt(
  session: PolicyRuns,
  ids: Int32Array,
  other: Int32Array,
  branches: readonly Branch[],
  { branches: scored }: TraceScores,
  shared: ReturnType<typeof largest>,
): Promise<void> {
  const promptLength = Math.max(1, ids.length >> 1);
  const prompt = ids.subarray(0, promptLength);
  const traces = [ids, Int32Array.of(...prompt, ...other)];
  const [text, beside] = (await session.run(
    traces.map((own, i) => ({ ids: own, promptLength, branches: i === 0 ? branches : [], shares: 0 })),
  )) as [TraceScores, TraceScores];
  for (const [i, own] of traces.entries()) {
    const alone = await single(session, own, promptLength);
    shared.add([text, beside][i]?.logprobs ?? [], alone.logprobs, promptLength);
  }
  for (const [i, { exit, scoredFrom }] of branches.entries())
    shared.add(text.branches[i] as Float32Array, scored[i] as Float32Array, exit + scoredFrom);
}

/**
 * Lets the graph that writes go on from ids (T) at exit points, and reads each of what it wrote by the scoring graph.
 * @param session with its decoder open
 * @param maxTokens of a sequence
 */
export async function compareDecoding(
  session: PolicyRuns & PolicyWrites,
  ids: Int32Array,
  maxTokens: number,
): Promise<CanaryFinding[]> {
  const logprob = largest('decoding − naive, log p');
  const exits = exitPoints(ids.length).filter((_, i) => i % 2 === 0);
  const starts = exits.flatMap((exit) =>
    [0, 1].map((m) => ({
      exit,
      key: rowKey('check', exit, m),
      most: Math.min(WRITTEN_TOKENS, maxTokens - exit),
    })),
  );
  const how = { temperature: 1, topP: 1, stops: [], batch: starts.length };
  const [written = []] = await continueTraces(session, [{ ids, starts }], how);
  for (const [i, { exit }] of starts.entries()) {
    const own = written[i] as Written;
    const naive = await single(session, Int32Array.of(...ids.subarray(0, exit), ...own.ids), exit);
    logprob.add(own.logprobs, naive.logprobs, exit);
  }
  return [logprob.result()];
}

/** Reads one sequence, of which tokens from.. are scored. */
async function single(
  session: PolicyRuns,
  ids: Int32Array,
  from: number,
  keep?: number,
): Promise<TraceScores> {
  const [scores] = await session.run([{ ids, promptLength: from, branches: [] }], keep);
  return scores as TraceScores;
}

/** Exit points spread over T tokens; at least two tokens are left behind the last. */
function exitPoints(length: number): number[] {
  const last = length - 2;
  const points = Array.from({ length: EXITS }, (_, i) => 1 + Math.round((i * (last - 1)) / (EXITS - 1)));
  return [...new Set(points)];
}

export async function compareReference(
  session: PolicyRuns,
  { ids, logprobs, entropies }: Awaited<ReturnType<typeof readReference>>,
): Promise<CanaryFinding[]> {
  // an entropy after the last token needs a token behind it, whichever
  const read = entropies.length === ids.length ? Int32Array.of(...ids, 0) : ids;
  const found = await single(session, read, 1);
  const [logprob, entropy] = [largest('trunk − reference, log p'), largest('trunk − reference, entropy')];
  logprob.add(found.logprobs.subarray(0, logprobs.length), logprobs, 1);
  entropy.add(found.entropies, entropies, 1);
  return [logprob.result(), entropy.result()];
}

// ------ attributions

/**
 * Reads ids (T) with each of two continuations behind them alone, and with both beside each other, one of which counts. What the
 * tokens of the text get has to be the same; differences are shares of the largest number. Of attention all that is seen sums to 1.
 * @param session whose folder has these graphs
 */
export async function compareAttribution(
  session: Pick<ModelSession, 'openAttribution' | 'attribute'>,
  kind: 'attention' | 'gradient',
  ids: Int32Array,
  continuations: readonly [Int32Array, Int32Array],
): Promise<CanaryFinding[]> {
  await session.openAttribution(kind);
  const beside = largest(`${kind}, two − one`);
  const sum = largest(`${kind}, sum − 1`);
  // all tokens of the one that counts are scored, evenly
  const read = (behind: readonly Int32Array[], counted: number) =>
    session.attribute(
      besideEachOther(
        ids,
        behind.map((own, n) => ({ ids: own, scoredFrom: 0, weight: n === counted ? 1 / own.length : 0 })),
      ),
    );
  for (const [n, own] of continuations.entries()) {
    const alone = await read([own], 0);
    const together = await read(continuations, n);
    const most = alone.subarray(0, ids.length).reduce((max, x) => Math.max(max, x), 0);
    const shares = (of: Float32Array) => Float64Array.from(of.subarray(0, ids.length), (x) => x / most);
    beside.add(shares(together), shares(alone), 0);
    sum.add([alone.reduce((all, x) => all + x, 0)], [1], ids.length);
  }
  return (kind === 'attention' ? [beside, sum] : [beside]).map((each) => each.result());
}

// ------ process reward models

const PLACES = 8;

/**
 * Reads ids (T) once, then each of its prefixes by itself, then all of them in one batch, where most are padded.
 * Differences are of P(right).
 */
export async function compareReadings(session: CheckedJudge, ids: Int32Array): Promise<CanaryFinding[]> {
  const places = Array.from({ length: PLACES }, (_, i) => Math.round((i * (ids.length - 1)) / (PLACES - 1)));
  const rows = [...new Set(places)];
  const [whole] = (await session.judge([{ ids, rows: Int32Array.from(rows) }])) as [Float32Array];
  const prefixes = rows.map((row) => ({ ids: ids.slice(0, row + 1), rows: Int32Array.of(row) }));
  const [prefix, batch] = [largest('prefix − whole, P'), largest('batch − alone, P')];
  const together = await session.judge(prefixes);
  for (const [i, own] of prefixes.entries()) {
    const [alone] = (await session.judge([own])) as [Float32Array];
    prefix.add(alone, whole.subarray(i, i + 1), rows[i] as number);
    batch.add(together[i] as Float32Array, alone, rows[i] as number);
  }
  return [prefix.result(), batch.result()];
}

export async function comparePrmReference(
  session: CheckedJudge,
  { ids, correct }: Awaited<ReturnType<typeof readPrmReference>>,
): Promise<CanaryFinding[]> {
  const [found] = (await session.judge([{ ids, rows: Int32Array.from(ids.keys()) }])) as [Float32Array];
  const difference = largest('model − reference, P');
  difference.add(found, correct, 0);
  return [difference.result()];
}

type CheckedJudge = Pick<ModelSession, 'judge'>;

/** Looks for the largest difference; what is allowed for it is for others to say. */
function largest(what: string) {
  const farthest = new Farthest(what, 'nats', { off: 1, share: 0, mean: 1 });
  return {
    /** @param first token that the lists' first numbers belong to */
    add: (found: ArrayLike<number>, expected: ArrayLike<number>, first: number) =>
      farthest.add(found, expected, (i) => `token ${first + i}`),
    result: () => farthest.result(),
  };
}

// ------ reference numbers: what another implementation says of a token sequence

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
  const fail = (reason: string): never => {
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
