// Opens a second policy, the prover, and says where it cannot read what the first one wrote.
import { isDeepStrictEqual } from 'node:util';
import { TraceRejected } from '../../errors.js';
import { type Device, type DeviceChoice, resolveDevice } from '../../policy/device.js';
import { openPolicyFolder, type PolicyFolder } from '../../policy/folder.js';
import { graphFor } from '../../policy/run/session.js';
import { type OpenTokenizer, openTokenizer } from '../../policy/text/open-tokenizer.js';
import type { Spelling } from '../../policy/text/tokenizer.js';
import type { Suffix } from '../references.js';

/** A prover, its graph not yet opened. */
export interface Prover extends AsyncDisposable {
  readonly policy: PolicyFolder;
  readonly device: Device;
  readonly tokenizer: OpenTokenizer;
  /** Tells where it would read other tokens than the policy. @throws TraceRejected (`prover_tokens`, `prover_too_long`) */
  readonly check: (tokens: ReadTokens, proved: readonly Suffix[]) => void;
}

/** A trace's tokens. */
interface ReadTokens {
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
  { device: choice, signal }: { readonly device: DeviceChoice; readonly signal: AbortSignal },
  who: Reader = PROVER,
): Promise<Prover> {
  const policy = await openPolicyFolder(path);
  const [{ device }, tokenizer] = await Promise.all([
    resolveDevice(choice, policy),
    openTokenizer(policy.path, { signal }),
  ]);
  const { vocab, maxTokens } = policy.architecture;
  const check = tokenCheck(of, tokenizer, vocab, maxTokens, who);
  return { policy, device, tokenizer, check, [Symbol.asyncDispose]: () => tokenizer.close() };
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

/** Whether a prover is the policy that it is to judge: its progress is then that of `pr`. */
export function isSamePolicy(a: PolicyFolder, b: PolicyFolder): boolean {
  return isDeepStrictEqual(a.files, b.files);
}

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
