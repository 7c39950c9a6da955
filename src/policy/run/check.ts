// Checks a running policy: trunk, branches and naive re-encoding against each other, and all against reference numbers.
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { EXIT, RredcotError } from '../../errors.js';
import { continueTraces, type PolicyWrites } from './continue.js';
import type { Written } from './decoding-run.js';
import type { Branch } from './pack.js';
import { rowKey } from './random.js';
import type { PolicyRuns, TraceScores } from './session.js';

/** The largest difference of two lists of numbers that should be the same. */
export interface Difference {
  /** e.g. `branches − naive, log p` */
  readonly what: string;
  /** numbers compared */
  readonly count: number;
  readonly nats: number;
  /** index of the token where it is */
  readonly token: number;
}

/** The number under which a check keeps its text's keys and values. */
const KEPT = 1;
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
): Promise<Difference[]> {
  const differences = {
    trunkLogprob: new Largest('trunk − naive, log p'),
    trunkEntropy: new Largest('trunk − naive, entropy'),
    branchTrunk: new Largest('branches − trunk, log p'),
    branchNaive: new Largest('branches − naive, log p'),
    oneRun: new Largest('one run − two runs, log p'),
    shared: new Largest('prompt read once − with each, log p'),
  };
  const whole = await single(session, ids, 1, KEPT); // scores token t at t − 1
  const branches = exitPoints(ids.length).flatMap((exit): Branch[] => [
    { exit, ids: ids.slice(exit, exit + CONTINUATION_TOKENS), scoredFrom: 1 },
    { exit, ids: other, scoredFrom: 1 },
  ]);
  const scores = ((await session.branches(KEPT, [branches]))[0] as TraceScores).branches;
  await session.release(KEPT);
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
  shared: Largest,
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
): Promise<Difference[]> {
  const logprob = new Largest('decoding − naive, log p');
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

// ------ reference numbers

const numberList = z.array(z.number()).min(1);
const ReferenceFile = z.object({
  ids: z.array(z.number().int().nonnegative()).min(2),
  logprobs: numberList.optional(),
  entropies: numberList.optional(),
  // the names of the first published file of this kind
  token_logprobs: numberList.optional(),
  token_entropies_nats: numberList.optional(),
  tolerance: z.number().positive().optional(),
});

/** What another implementation says of a token sequence, nats. */
export interface ReferenceNumbers {
  /** (T) */
  readonly ids: Int32Array;
  /** (T-1) log p of ids[1..] */
  readonly logprobs: readonly number[];
  /** (T-1) of the distributions that predict ids[1..], or (T) with the one after the last token */
  readonly entropies: readonly number[];
  readonly tolerance: number | undefined;
}

/** @throws RredcotError (exit 2) where the file is not {ids, logprobs, entropies} of fitting lengths */
export async function readReference(path: string, vocab: number): Promise<ReferenceNumbers> {
  const fail = (reason: string, cause?: unknown): never => {
    throw new RredcotError(`${path}: ${reason.replaceAll(/\s*\n\s*/g, ' ')}`, {
      exitCode: EXIT.usage,
      hint: 'make one with examples/make_reference.py: {"ids": (T), "logprobs": (T-1), "entropies": (T-1)}',
      cause,
    });
  };
  let value: unknown;
  try {
    value = JSON.parse(await readFile(path, 'utf8'));
  } catch (cause) {
    return fail(`cannot be read as JSON (${(cause as Error).message})`, cause);
  }
  const parsed = ReferenceFile.safeParse(value);
  if (!parsed.success) return fail(z.prettifyError(parsed.error));
  const { data } = parsed;
  const [logprobs, entropies] = [
    data.logprobs ?? data.token_logprobs,
    data.entropies ?? data.token_entropies_nats,
  ];
  if (logprobs === undefined || entropies === undefined)
    return fail(`has no ${logprobs === undefined ? 'logprobs' : 'entropies'}`);
  const T = data.ids.length;
  if (logprobs.length !== T - 1) return fail(`has ${logprobs.length} logprobs, expected ${T - 1}`);
  if (entropies.length !== T - 1 && entropies.length !== T)
    return fail(`has ${entropies.length} entropies, expected ${T - 1} or ${T}`);
  const beyond = data.ids.find((id) => id >= vocab);
  if (beyond !== undefined) return fail(`has the id ${beyond}, the policy's vocabulary has ${vocab} tokens`);
  return { ids: Int32Array.from(data.ids), logprobs, entropies, tolerance: data.tolerance };
}

export async function compareReference(
  session: PolicyRuns,
  { ids, logprobs, entropies }: ReferenceNumbers,
): Promise<Difference[]> {
  // an entropy after the last token needs a token behind it, whichever
  const read = entropies.length === ids.length ? Int32Array.of(...ids, 0) : ids;
  const found = await single(session, read, 1);
  const [logprob, entropy] = [
    new Largest('trunk − reference, log p'),
    new Largest('trunk − reference, entropy'),
  ];
  logprob.add(found.logprobs.subarray(0, logprobs.length), logprobs, 1);
  entropy.add(found.entropies, entropies, 1);
  return [logprob.result(), entropy.result()];
}

export class Largest {
  private count = 0;
  private nats = 0;
  private token = 0;

  constructor(private readonly what: string) {}

  /** @param first token that the lists' first numbers belong to */
  add(found: ArrayLike<number>, expected: ArrayLike<number>, first: number): void {
    for (let i = 0; i < expected.length; i++) {
      const difference = Math.abs((found[i] as number) - (expected[i] as number));
      // NaN is the largest of all differences
      if (!(difference <= this.nats) && !Number.isNaN(this.nats))
        [this.nats, this.token] = [difference, first + i];
    }
    this.count += expected.length;
  }

  result(): Difference {
    return { what: this.what, count: this.count, nats: this.nats, token: this.token };
  }
}
