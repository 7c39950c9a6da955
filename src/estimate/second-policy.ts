// A second policy that reads what the first one wrote, cut where that has cut it: a prover, an older checkpoint, or one that reads a hint.
import { TraceRejected } from '../errors.js';
import { openPolicyFolder } from '../model/onnx/folder.js';
import { type ModelChoice, type OpenModel, openModel } from '../model/onnx/open-model.js';
import { graphFor } from '../model/onnx/session.js';
import type { Spelling } from '../model/text/tokenizer.js';
import type { Continuation } from '../question.js';

/** A second policy, its graph not yet opened. */
export interface SecondPolicy extends OpenModel {
  /** Tells where it would read other tokens than the policy. @throws TraceRejected (`prover_tokens`, `prover_too_long`) */
  readonly check: (tokens: ReadTokens, asked: readonly Continuation[]) => void;
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
export async function openSecond(
  path: string,
  of: Spelling,
  choice: ModelChoice,
  who: Reader,
): Promise<SecondPolicy> {
  const opened = await openModel(await openPolicyFolder(path), choice);
  const { vocab, maxTokens } = opened.policy.architecture;
  return { ...opened, check: tokenCheck(of, opened.tokenizer, vocab, maxTokens, who) };
}

/** A prover as a configuration has it: its files' hashes, and what else decides its numbers. */
export function secondConfig({ policy, device }: SecondPolicy) {
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
  { name, code, flag }: Reader,
): SecondPolicy['check'] {
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
      const [own, its] = [tokenText(policy, id), tokenText(second, id)];
      if (own !== its)
        throw new TraceRejected(
          `${code}_tokens`,
          `${field}[${t}] is ${id}, which is ${own} for the policy and ${its} for the ${name}: ${other}`,
        );
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
