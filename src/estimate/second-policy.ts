// A second policy that reads what the first one wrote, cut where that has cut it: a prover, an older checkpoint, or one that reads a hint.
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { TraceRejected, usageError } from '../errors.js';
import { HINT_TEMPLATE, openPolicyFolder } from '../model/onnx/folder.js';
import { type OpenModel, openModel } from '../model/onnx/open-model.js';
import { graphFor } from '../model/onnx/session.js';
import { givenOrOwn } from '../model/text/checked-json.js';
import { joinIds } from '../model/text/encode.js';
import type { Spelling } from '../model/text/tokenizer.js';
import type { Continuation, TokenizedTrace } from '../question.js';
import type { Reference } from '../trace.js';
import type { LoadContext } from './estimator.js';

type ReadTokens = Pick<TokenizedTrace, 'promptIds' | 'completionIds'>;

/** A second policy, its graph not yet opened. */
interface SecondPolicy extends OpenModel {
  /** Tells where it would read other tokens than the policy. @throws TraceRejected (`prover_tokens`, `prover_too_long`) */
  readonly check: (tokens: ReadTokens, asked: readonly Continuation[]) => void;
}

/**
 * Opens the folder of a policy that reads the traces again, and says where that is the policy itself.
 * @param context of the policy, whose ids it has to read
 * @throws RredcotError: exit 2 for a folder or tokenizer that is none, 69 where the device is not there
 */
export async function openSecond(
  path: string,
  { policy, tokenizer, choice: device, signal, log }: LoadContext,
  who: SecondReader,
): Promise<SecondPolicy> {
  const opened = await openModel(await openPolicyFolder(path), device, signal);
  if (isDeepStrictEqual(policy.files, opened.policy.files))
    log.warn('same_policy', `${who.flag} ${path}: is the policy itself`);
  const { vocab, maxTokens } = opened.policy.architecture;
  return { ...opened, check: tokenCheck(tokenizer, opened.tokenizer, vocab, maxTokens, who) };
}

/** A prover as a configuration has it: its files' hashes, and what else decides its numbers. */
export function secondConfig({ policy, device }: SecondPolicy) {
  const { precision } = graphFor(policy, device);
  return { files: policy.files, exitTemplate: policy.exitTemplate, precision };
}

/** Another policy that reads the traces, in words; `code`: how the codes of its rejects begin. */
type SecondReader = Readonly<Record<'name' | 'code' | 'flag', string>>;

/**
 * Makes a prover's check of a trace: every id has to spell the same text for both, and all of it has to fit.
 * @param vocab tokens of the prover's vocabulary
 * @param maxTokens what the prover takes, references included
 */
export function tokenCheck(
  policy: Pick<Spelling, 'bytes'>,
  second: Pick<Spelling, 'bytes'>,
  vocab: number,
  maxTokens: number,
  { name, code, flag }: SecondReader,
): SecondPolicy['check'] {
  const other = `${flag} <a folder with the same tokenizer as the policy>`;
  const same = new Set<number>();
  const checkIds = (ids: Int32Array, field: string): void => {
    for (const [t, id] of ids.entries()) {
      if (same.has(id)) continue;
      const refuse = (why: string) =>
        new TraceRejected(`${code}_tokens`, `${field}[${t}] is ${id}, ${why}: ${other}`);
      if (id >= vocab) throw refuse(`the ${name}'s vocabulary has ${vocab} tokens`);
      const [own, its] = [tokenText(policy, id), tokenText(second, id)];
      if (own !== its) throw refuse(`which is ${own} for the policy and ${its} for the ${name}`);
      same.add(id);
    }
  };
  return ({ promptIds, completionIds }, asked) => {
    checkIds(promptIds, 'prompt_ids');
    checkIds(completionIds, 'completion_ids');
    const longest = asked.reduce((most, { ids }) => Math.max(most, ids.length), 0);
    const total = promptIds.length + completionIds.length;
    if (total + longest > maxTokens)
      throw new TraceRejected(
        `${code}_too_long`,
        `prompt and completion have ${total} tokens, the ${name} takes ${maxTokens - longest} with the reference: ${flag} <one with a longer context>`,
      );
  };
}

/** A token's text as JSON; bytes that are no UTF-8 by their numbers. */
export function tokenText(tokenizer: Pick<Spelling, 'bytes'>, id: number): string {
  const bytes = Buffer.from(tokenizer.bytes(id));
  const spelled = bytes.toString('utf8');
  return Buffer.from(spelled).equals(bytes) ? JSON.stringify(spelled) : `<${bytes.toString('hex')}>`;
}

// ------ a hint, the reference answer or a peer's text, in the prompt of the trace that is read again

const HINT_POLICY = { name: 'hint policy', code: 'hint', flag: '--hint-policy' } as const;

/**
 * Opens what reads hints.
 * @param files a template, where it is not the folder's own; the folder of a policy that reads them, where it is not the policy itself
 * @param own the policy whose traces they are
 * @returns reader: another policy than the one that cuts, undefined where it is that
 * @throws RredcotError (exit 2) where there is no template, or none that is one; as `openSecond` for its policy
 */
export async function openHint(
  hint: 'answer' | 'peer',
  [path, folder]: readonly (string | undefined)[],
  own: LoadContext,
) {
  const reader = folder === undefined ? undefined : await openSecond(folder, own, HINT_POLICY);
  const template = await readTemplate(hint, path, folder ?? own.policy.path);
  const { tokenizer, policy } = reader ?? own;
  const { vocab, maxTokens } = policy.architecture;
  const check = reader?.check ?? tokenCheck(own.tokenizer, tokenizer, vocab, maxTokens, HINT_POLICY);
  const before = await tokenizer.encode(template.before);
  const [lead = '', tail = ''] = template.text.split('{peer}');
  const [leadIds, tailIds] = [await tokenizer.encode(lead), await tokenizer.encode(tail)];
  return {
    template,
    reader,
    /** Ids of a hint that tells an answer, whose own dollar signs are no patterns. */
    ofAnswer: async (answer: string) => tokenizer.encode(template.text.replace('{answer}', () => answer)),
    /** Ids of a hint that is a peer's text, in the tokens in which it was written. */
    ofPeer: (ids: Int32Array): Int32Array => joinIds(leadIds, ids, tailIds),
    /** Ids of the prompt with a hint in it. @throws TraceRejected (`hint`, `hint_tokens`, `hint_too_long`) */
    hinted({ promptIds, completionIds }: ReadTokens, told: Int32Array): Int32Array {
      const prompt = withHint(promptIds, told, before, template.before);
      check({ promptIds: prompt, completionIds }, []);
      return prompt;
    },
  };
}

async function readTemplate(hint: 'answer' | 'peer', path: string | undefined, folder: string) {
  const place = `{${hint}}`;
  // it goes before the last occurrence of `before` in the prompt; to the prompt's end where that is empty
  const schema = z.strictObject({ text: z.string().includes(place), before: z.string().default('') });
  const expected = `a file with {"text": "… ${place} …", "before": "…"}, with --hint-template`;
  const found = await givenOrOwn(schema, path, folder, HINT_TEMPLATE, expected);
  if (found !== undefined) return found;
  throw usageError(`${folder}/${HINT_TEMPLATE}: --estimator posterior needs a hint template`, expected);
}

/** The answer of the reference that earns most, the first of equals. @throws TraceRejected (`no_reference`) */
export function bestOf(references: readonly Reference[]): string {
  const [first] = references.toSorted((a, b) => b.utility - a.utility);
  if (first !== undefined && first.utility > 0) return first.answer;
  throw new TraceRejected(
    'no_reference',
    'no reference has a utility above 0, expected one for the hint of --estimator posterior: --map reference=<path>',
  );
}

/** @param name of `before`, for the error */
export function withHint(promptIds: Int32Array, hint: Int32Array, before: Int32Array, name: string) {
  if (before.length === 0) return joinIds(promptIds, hint);
  for (let at = promptIds.length - before.length; at >= 0; at--)
    if (before.every((id, i) => promptIds[at + i] === id))
      return joinIds(promptIds.subarray(0, at), hint, promptIds.subarray(at));
  throw new TraceRejected(
    'hint',
    `the prompt has no tokens of ${JSON.stringify(name)}, before which the hint is to go: --hint-template <one that fits>`,
  );
}
