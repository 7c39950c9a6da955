// A second policy that reads what the first one wrote, cut where that has cut it: a prover, or one that reads a hint.
import { isDeepStrictEqual } from 'node:util';
import { TraceRejected, usageError } from '../errors.js';
import { openPolicyFolder, type PolicyFolder } from '../model/onnx/folder.js';
import { type ModelChoice, type OpenModel, openModel } from '../model/onnx/open-model.js';
import { graphFor, type PolicyRuns } from '../model/onnx/session.js';
import type { Spelling } from '../model/text/tokenizer.js';
import { type BadRow, eachTrace } from '../rows.js';
import type { Pieces, Segmentation } from '../segment/segment.js';
import type { Nature } from './nature.js';
import type { Suffix } from './references.js';
import { type TraceResult, type TraceValues, traceValues } from './value.js';
import { type PassJob, type ScoredJob, scoreWindows, type Valued, windowsOf } from './windows.js';

/** A prover, its graph not yet opened. */
export interface Prover extends OpenModel {
  /** Tells where it would read other tokens than the policy. @throws TraceRejected (`prover_tokens`, `prover_too_long`) */
  readonly check: (tokens: ReadTokens, proved: readonly Suffix[]) => void;
}

/** A trace's tokens. */
export interface ReadTokens {
  readonly promptIds: Int32Array;
  readonly completionIds: Int32Array;
}

/**
 * Opens a prover's folder.
 * @param of the policy's own tokenizer, whose ids it has to read
 * @throws RredcotError: exit 2 for a folder or tokenizer that is none, 69 where the device is not there
 */
export async function openProver(
  path: string,
  of: Spelling,
  choice: ModelChoice,
  who: Reader = PROVER,
): Promise<Prover> {
  const opened = await openModel(await openPolicyFolder(path), choice);
  const { vocab, maxTokens } = opened.policy.architecture;
  return { ...opened, check: tokenCheck(of, opened.tokenizer, vocab, maxTokens, who) };
}

const OLDER = { name: 'older policy', code: 'ref', flag: '--ref-policy' } as const;

/**
 * Opens the folder of an older checkpoint.
 * @param own the policy
 * @throws RredcotError as {@link openProver}; exit 2 also for the policy's own weights, and for a token that the two spell otherwise
 */
export async function openOlder(
  path: string,
  own: Pick<OpenModel, 'policy' | 'tokenizer'>,
  choice: ModelChoice,
): Promise<Prover> {
  const older = await openProver(path, own.tokenizer, choice, OLDER);
  if (isDeepStrictEqual(weightsOf(own.policy), weightsOf(older.policy)))
    throw usageError(
      `${OLDER.flag} ${path}: has the weights of the policy itself (sha256), so every value would be 0`,
      `${OLDER.flag} <an older checkpoint>`,
    );
  const both = Math.min(own.policy.architecture.vocab, older.policy.architecture.vocab);
  for (let id = 0; id < both; id++)
    if (Buffer.compare(own.tokenizer.bytes(id), older.tokenizer.bytes(id)) !== 0)
      throw usageError(
        `${OLDER.flag} ${path}: token ${id} is ${text(own.tokenizer, id)} for the policy and ${text(older.tokenizer, id)} for the older one, expected the same tokenizer`,
        `${OLDER.flag} <an older checkpoint of the same policy>`,
      );
  return older;
}

/** Hashes of its weights, whatever their files are called. */
function weightsOf({ files }: PolicyFolder): string[] {
  const weights = Object.entries(files).filter(([name]) => name.endsWith('.safetensors'));
  return weights.map(([, sha256]) => sha256).sort();
}

/** A prover as a configuration has it: its files' hashes, and what else decides its numbers. */
export function proverConfig({ policy, device }: Prover) {
  const { precision } = graphFor(policy, device);
  return { files: policy.files, exitTemplate: policy.exitTemplate, precision };
}

/** Another policy that reads the traces, in words. */
export interface Reader {
  readonly name: string;
  /** how the codes of its rejects begin */
  readonly code: string;
  readonly flag: string;
}

const PROVER: Reader = { name: 'prover', code: 'prover', flag: '--prover' };

/**
 * Makes a prover's check of a trace: every id has to spell the same text for both, and all of it has to fit.
 * @param vocab tokens of the prover's vocabulary
 * @param maxTokens what the prover takes, references included
 */
export function tokenCheck(
  policy: Pick<Spelling, 'bytes'>,
  prover: Pick<Spelling, 'bytes'>,
  vocab: number,
  maxTokens: number,
  { name, code, flag }: Reader = PROVER,
): Prover['check'] {
  const other = `${flag} <a folder with the same tokenizer as the policy>`;
  const same = new Set<number>();
  const checkIds = (ids: Int32Array, field: string): void => {
    for (const [t, id] of ids.entries()) {
      if (same.has(id)) continue;
      if (id >= vocab)
        throw new TraceRejected(
          `${code}_tokens`,
          `${field}[${t}] is ${id}, the ${name}'s vocabulary has ${vocab} tokens: ${other}`,
        );
      const [own, its] = [text(policy, id), text(prover, id)];
      if (own !== its)
        throw new TraceRejected(
          `${code}_tokens`,
          `${field}[${t}] is ${id}, which is ${own} for the policy and ${its} for the ${name}: ${other}`,
        );
      same.add(id);
    }
  };
  return ({ promptIds, completionIds }, proved) => {
    checkIds(promptIds, 'prompt_ids');
    checkIds(completionIds, 'completion_ids');
    const longest = proved.reduce((most, { ids }) => Math.max(most, ids.length), 0);
    const total = promptIds.length + completionIds.length;
    if (total + longest > maxTokens)
      throw new TraceRejected(
        `${code}_too_long`,
        `prompt and completion have ${total} tokens, the ${name} takes ${maxTokens - longest} with the reference: ${flag} <one with a longer context>`,
      );
  };
}

/** A token's text as JSON; bytes that are no UTF-8 by their numbers. */
function text(tokenizer: Pick<Spelling, 'bytes'>, id: number): string {
  const bytes = Buffer.from(tokenizer.bytes(id));
  const spelled = bytes.toString('utf8');
  return Buffer.from(spelled).equals(bytes) ? JSON.stringify(spelled) : `<${bytes.toString('hex')}>`;
}

// ------ its pass

/** How it is run. */
export interface SecondPass {
  readonly session: PolicyRuns;
  /** the window of an input row: traces of different ones never share a run */
  readonly window: (row: number) => number;
}

/** A trace in the second pass, with what the first one said of it. */
interface SecondJob<T> extends PassJob {
  readonly job: T;
  readonly cut: TraceResult;
  /** of {@link PassJob.again} */
  readonly hasHint?: false;
}

/**
 * Reads every trace again as `again` of its job has it, cut where the policy has cut it: entropies and log-probabilities stay the
 * policy's. What was set aside passes by in its place.
 * @param who reads, for errors
 * @param valuesOf a trace, from what the first pass said of it and what the second
 */
export async function* readAgain<T extends PassJob>(
  scored: AsyncIterable<ScoredJob<T> | BadRow>,
  { session, window }: SecondPass,
  who: string,
  valuesOf: (cut: TraceResult, found: TraceResult, job: Omit<SecondJob<T>, 'job' | 'cut'>) => TraceValues,
): AsyncGenerator<Valued<T> | BadRow> {
  const jobs = eachTrace(scored, ({ job, trace, result }): SecondJob<T> => {
    const { promptIds, completionIds, again } = job;
    const pieces = cutAs(job.pieces, result.segmentation);
    return { promptIds, continuations: [], ...again, trace, completionIds, pieces, job, cut: result };
  });
  const read = scoreWindows(windowsOf(jobs, window), session, { who });
  yield* eachTrace(read, ({ job: { job, cut, ...second }, trace, result }) => {
    return { job, trace, result: cut, values: valuesOf(cut, result, second) };
  });
}

/** Values of every trace under another policy: the prover answers at the exits that the policy has cut (METHOD §3). */
export function provedValues<T extends PassJob>(
  scored: AsyncIterable<ScoredJob<T> | BadRow>,
  { nature, ...how }: SecondPass & { readonly nature: Nature },
): AsyncGenerator<Valued<T> | BadRow> {
  return readAgain(scored, how, 'the prover', (_, { branches }, { continuations }) =>
    traceValues(
      branches,
      Float32Array.from(continuations, ({ utility }) => utility),
      nature,
    ),
  );
}

/** Pieces that are the segments already: nothing is left to be merged. */
function cutAs({ tokens, thought, opts }: Pieces, { thoughtEnds: ends }: Segmentation): Pieces {
  const { fixedLength } = opts;
  return { tokens, thought, ends, segments: ends.length, opts: { segmenter: 'given', fixedLength } };
}
