// Opens a process reward model, which reads prompts by its own chat template and tokenizer, with the reference or without.
import { TraceRejected } from '../../errors.js';
import { type Device, type DeviceChoice, resolveDevice } from '../../policy/device.js';
import { openPrmFolder, type PrmFolder } from '../../policy/prm-folder.js';
import { prmGraphFor } from '../../policy/run/prm-session.js';
import { encodePrompt } from '../../policy/text/encode.js';
import { type OpenTokenizer, openTokenizer } from '../../policy/text/open-tokenizer.js';
import { Prompts } from '../../policy/text/prompts.js';
import type { Spelling } from '../../policy/text/tokenizer.js';
import type { Log } from '../../report/log.js';
import type { Message, Trace } from '../../trace.js';

/** Which model, and how it is asked. */
export interface PrmOptions {
  readonly folder: string;
  /** the prompt has the reference answer in it */
  readonly reference: boolean;
}

/** A model that reads; its graph is not yet opened. */
export interface Prm extends AsyncDisposable {
  readonly folder: PrmFolder;
  readonly device: Device;
  readonly tokenizer: OpenTokenizer;
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
  { folder: path, reference }: PrmOptions,
  of: Spelling,
  { device: choice, signal }: { readonly device: DeviceChoice; readonly signal: AbortSignal },
  log: Log,
): Promise<Prm> {
  const folder = await openPrmFolder(path);
  const [{ device }, tokenizer] = await Promise.all([
    resolveDevice(choice, folder),
    openTokenizer(path, { signal }),
  ]);
  const prompts = await Prompts.open(folder, tokenizer, {}, log, signal);
  return {
    ...{ folder, device, tokenizer, reference },
    async promptIds({ promptIds: _, ...trace }) {
      const given =
        trace.prompt.length > 0 ? trace.prompt : of.decode(_ ?? new Int32Array(0)).toString('utf8');
      const prompt = reference ? withReference(given, bestAnswer(trace), folder.withReference) : given;
      try {
        const read = await prompts.prepare({ ...trace, prompt });
        return await encodePrompt(read, tokenizer, folder.architecture.vocab);
      } catch (error) {
        if (!(error instanceof TraceRejected)) throw error;
        throw new TraceRejected('prm_prompt', `the reward model cannot read it: ${error.reason}`);
      }
    },
    async [Symbol.asyncDispose]() {
      await prompts.close();
      await tokenizer.close();
    },
  };
}

/** A model as a configuration has it: its files' hashes, and what else decides its numbers. */
export function prmConfig({ folder, device, reference }: Prm) {
  const { files, correct, stepToken } = folder;
  return {
    files,
    correct,
    stepToken: stepToken?.text ?? null,
    ...(reference && { withReference: folder.withReference }),
    precision: prmGraphFor(folder, device).precision,
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
export function withReference(
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
