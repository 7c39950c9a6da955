// A process reward model: reads prompts by its own chat template and tokenizer, with the reference or without, and values traces,
// as the policy has cut them, by the probability that step k is right (METHOD §3).

import { TraceRejected } from '../errors.js';
import { isScore } from '../model/graph/architecture.js';
import { openPrmFolder, type PrmFolder } from '../model/onnx/folder.js';
import { inHalves } from '../model/onnx/layout.js';
import { type ModelChoice, type OpenModel, openReader } from '../model/onnx/open-model.js';
import type { ReadSteps } from '../model/onnx/placed.js';
import { graphFor, type ModelSession } from '../model/onnx/session.js';
import { encodePrompt } from '../model/text/encode.js';
import type { Spelling } from '../model/text/tokenizer.js';
import type { Log } from '../report/log.js';
import { type BadRow, eachTrace, isBad } from '../rows.js';
import type { Segmentation } from '../segment/segment.js';
import type { TokenText } from '../segment/span.js';
import type { Message, Trace } from '../trace.js';
import type { SecondPass } from './prover.js';
import { joinIds } from './references.js';
import { planBatches } from './strategy.js';
import { noReferences, type TraceResult } from './value.js';
import { impossible, type PassJob, type ScoredJob, type Valued, windowsOf } from './windows.js';

export interface PrmOptions {
  readonly folder: string;
  /** the prompt has the reference answer in it */
  readonly reference: boolean;
}

/** A model that reads; its graph is not yet opened. */
export interface Prm extends OpenModel<PrmFolder> {
  readonly reference: boolean;
  /**
   * The ids of a trace's prompt as the model reads it.
   * @param trace as the input has it: messages are rendered by the model's own chat template
   * @throws TraceRejected (`prm_prompt`) for a prompt that it cannot read
   */
  promptIds(trace: Trace): Promise<Int32Array>;
}

/**
 * Opens a model's folder.
 * @param of the policy's tokenizer, which spells prompts that are given by their ids alone
 * @throws RredcotError: exit 2 for a folder or tokenizer that is none, 69 where the device is not there
 */
export async function openPrm(
  { folder, reference }: PrmOptions,
  of: Spelling,
  choice: ModelChoice,
  log: Log,
): Promise<Prm> {
  const { prompts, ...model } = await openReader(
    await openPrmFolder(folder),
    { ...choice, chatTemplateArgs: {} },
    log,
  );
  const { policy, tokenizer } = model;
  return {
    ...{ ...model, reference },
    async promptIds({ promptIds: _, turns: __, ...trace }) {
      const given =
        trace.prompt.length > 0 ? trace.prompt : of.decode(_ ?? new Int32Array(0)).toString('utf8');
      const prompt = reference ? askedWith(given, bestAnswer(trace), policy.withReference) : given;
      try {
        const read = await prompts.prepare({ ...trace, prompt });
        return await encodePrompt(read, tokenizer, policy.architecture.vocab);
      } catch (error) {
        if (!(error instanceof TraceRejected)) throw error;
        throw new TraceRejected('prm_prompt', `the reward model cannot read it: ${error.reason}`);
      }
    },
  };
}

/** A model as a configuration has it: its files' hashes, and what else decides its numbers. */
export function prmConfig({ policy, device, reference }: Prm) {
  const { files, head, correct, stepToken, withReference } = policy;
  return {
    files,
    correct,
    stepToken: stepToken?.text ?? null,
    ...(isScore(head) && { score: 'logistic' }),
    ...(reference && { withReference }),
    precision: graphFor(policy, device).precision,
  };
}

/** The answer that earns most; the first of several. */
function bestAnswer({ references }: Pick<Trace, 'references'>): string {
  const [first, ...others] = references;
  if (first === undefined)
    throw new TraceRejected(
      'no_reference',
      'the row has no reference answer, expected one for --prm-reference: --map reference=<path>',
    );
  return others.reduce((best, other) => (other.utility > best.utility ? other : best), first).answer;
}

/** The template's text in place of a prompt, or of the last message that the user wrote. */
export function askedWith(
  prompt: string | readonly Message[],
  answer: string,
  template: string,
): string | Message[] {
  const filled = (text: string): string =>
    template.replaceAll(/\{(prompt|reference)\}/g, (_, name) => (name === 'prompt' ? text : answer));
  if (typeof prompt === 'string') return filled(prompt);
  const last = prompt.findLastIndex(({ role }) => role === 'user');
  if (last < 0)
    throw new TraceRejected(
      'prm_prompt',
      "no message of the prompt is a user's, expected one for --prm-reference",
    );
  return prompt.map((message, i) =>
    i === last ? { ...message, content: filled(message.content) } : message,
  );
}

// ------ its pass

type Judges = Pick<ModelSession, 'judge' | 'device'>;

export interface JudgedBy extends Pick<Prm, 'policy' | 'tokenizer'>, Pick<SecondPass, 'window'> {
  readonly session: Judges;
}

interface StepsJob extends PassJob {
  readonly tokens: TokenText;
  readonly chars: Int32Array | null;
}

interface Judged<T> {
  readonly job: T;
  readonly trace: Trace;
  readonly result: TraceResult;
  readonly read: ReadSteps;
  /** (K) a segment without text is no step: nothing is judged there */
  readonly blank: readonly boolean[];
}

/** v_0 of a model that judges steps: before the first one nothing is wrong. [ours] */
const START = 1;
/** How far rounding may take a softmax beyond 1. */
const ROUNDING = 1e-5;

/**
 * Values of every trace at the exits where the policy has cut it; the order is the input's.
 * @throws RredcotError (exit 65) where the model gives what is no probability
 */
export async function* prmValues<T extends StepsJob>(
  scored: AsyncIterable<ScoredJob<T> | BadRow>,
  { session, window, policy, tokenizer }: JudgedBy,
): AsyncGenerator<Valued<T> | BadRow> {
  const jobs = eachTrace(scored, async ({ job, trace, result }): Promise<Judged<T>> => {
    const { tokens, chars, again } = job;
    if (again?.promptIds === undefined) throw new Error('a trace without a prompt for the reward model');
    const steps = stepsOf(tokens, result.segmentation, chars === null);
    const read = await stepSequence(again.promptIds, steps, policy, tokenizer.encode);
    return { job, trace, result, read, blank: steps.steps.map((step) => step.trim() === '') };
  });
  for await (const { items } of windowsOf(jobs, window)) {
    const judged = items.filter((item): item is Judged<T> => !isBad(item));
    const found = new Map<object, Float32Array | TraceRejected>();
    for (const batch of planBatches(
      judged.map(({ read }) => ({ tokens: read.ids.length, branchRows: 0, longestBranch: 0 })),
    )) {
      const members = batch.map((i) => judged[i] as Judged<T>);
      for (const [n, shares] of (await readAll(session, members)).entries())
        found.set(members[n] as Judged<T>, shares);
    }
    yield* eachTrace(items, (item) => {
      const { job, trace, result, blank } = item;
      const shares = found.get(item) as Float32Array | TraceRejected;
      if (shares instanceof TraceRejected) throw shares;
      const read = Array.from(shares, (share) => possible(share, trace, session));
      const values = Float32Array.from(isScore(policy.head) ? read : [START, ...read]);
      for (const [k, isBlank] of blank.entries()) if (isBlank) values[k + 1] = values[k] as number;
      return { job, trace, result, values: { values, ...noReferences(values.length) } };
    });
  }
}

/** P(right) of every trace's steps; a reject for one that memory does not hold alone. */
function readAll(
  session: Judges,
  jobs: readonly { readonly read: ReadSteps }[],
): Promise<readonly (Float32Array | TraceRejected)[]> {
  const read = async (some: typeof jobs): Promise<(Float32Array | TraceRejected)[]> => {
    const withSteps = some.map((job) => job.read).filter(({ rows }) => rows.length > 0);
    const found = withSteps.length === 0 ? [] : await session.judge(withSteps);
    return some.map((job) => found[withSteps.indexOf(job.read)] ?? new Float32Array(0));
  };
  return inHalves(jobs, read, (job) => {
    const reason = `the machine has not enough memory for the reward model on its ${job.read.ids.length} tokens: run it where there is more`;
    return new TraceRejected('out_of_memory', reason);
  });
}

/** A broken model or device: nothing that it says can be trusted, so the run ends. */
function possible(share: number, trace: Trace, session: Judges): number {
  if (share >= 0 && share <= 1 + ROUNDING) return Math.min(1, share);
  throw impossible(trace, new Error(`P(right) ${share}, expected 0 to 1`), session, 'the reward model');
}

// ------ what it reads of a trace: its steps as a sequence, and where labels stand

/** The thought of a trace as texts. */
export interface StepTexts {
  /** what stands before the first exit, such as `<think>` */
  readonly lead: string;
  /** (K) */
  readonly steps: readonly string[];
}

/** What of a model decides how steps are read. */
export type ReadsSteps = Pick<PrmFolder, 'architecture' | 'head' | 'stepToken'>;

/** @param isBytes whether the text is bytes as Latin-1, since the ids are no sound text */
export function stepsOf(
  { text, units }: TokenText,
  { exits }: Pick<Segmentation, 'exits'>,
  isBytes: boolean,
): StepTexts {
  const part = (from: number, to: number): string => {
    const cut = text.slice(units[from], units[to]);
    return isBytes ? Buffer.from(cut, 'latin1').toString('utf8') : cut;
  };
  const ends = Array.from(exits);
  return { lead: part(0, ends[0] ?? 0), steps: ends.slice(1).map((end, k) => part(ends[k] as number, end)) };
}

/**
 * The sequence that a model reads in one pass: prompt, lead, and the steps, each encoded apart. With a step token each step is
 * followed by it, which stands in the place of the step's own white space and stays in sight of the later ones; labels stand
 * there. Without one steps are read as they stand, and labels at their last tokens. A head that gives a score is read in front of
 * the first step, too.
 *
 * @param promptIds at least one
 * @returns (K) rows, (K+1) of a score
 * @throws TraceRejected (`prm_tokens`, `prm_too_long`) for what the model cannot read
 */
export async function stepSequence(
  promptIds: Int32Array,
  { lead, steps }: StepTexts,
  { architecture: { vocab, maxTokens }, head, stepToken }: ReadsSteps,
  encode: (text: string) => Int32Array | Promise<Int32Array>,
): Promise<ReadSteps> {
  const parts = [promptIds, await encode(lead)];
  let length = promptIds.length + (parts[1] as Int32Array).length;
  const rows = isScore(head) ? [length - 1] : [];
  for (const step of steps) {
    const own = await encode(stepToken === undefined ? step : step.trim());
    parts.push(own);
    length += own.length;
    if (stepToken !== undefined) {
      parts.push(Int32Array.of(stepToken.id));
      length++;
    }
    rows.push(length - 1);
  }
  const ids = joinIds(...parts);
  const beyond = ids.find((id) => id < 0 || id >= vocab);
  if (beyond !== undefined)
    throw new TraceRejected(
      'prm_tokens',
      `the reward model's tokenizer gives the id ${beyond}, its vocabulary has ${vocab} tokens: build its folder from a checkpoint whose files belong together`,
    );
  if (length > maxTokens)
    throw new TraceRejected(
      'prm_too_long',
      `prompt and steps have ${length} tokens, the reward model takes ${maxTokens}: --prm <one with a longer context>`,
    );
  return { ids, rows: Int32Array.from(rows) };
}
