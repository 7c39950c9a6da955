// Opens what reads texts as a model does: its tokenizer and the device that is to run it, and for prompts its chat template.
import type { Log } from '../../report/log.js';
import { chatRenderer, loadChatTemplate } from '../text/chat-template.js';
import { type OpenTokenizer, openTokenizer } from '../text/open-tokenizer.js';
import { Prompts } from '../text/prompts.js';
import { type Device, type DeviceChoice, resolveDevice } from './device.js';
import { openTextFolder, type PolicyFolder, type TextFolder } from './folder.js';

/** What is asked of it. */
export interface ModelChoice {
  readonly device: DeviceChoice;
  /** ends what its threads are at */
  readonly signal: AbortSignal;
}

/** A model that reads; its graphs are opened by whoever runs them. */
export interface OpenModel<Folder extends TextFolder = PolicyFolder> extends AsyncDisposable {
  readonly policy: Folder;
  readonly device: Device;
  readonly tokenizer: OpenTokenizer;
}

/** @throws RredcotError: exit 2 for a tokenizer that is none, 69 where the device is not there */
export async function openModel<Folder extends TextFolder>(
  policy: Folder,
  { device: choice, signal }: ModelChoice,
): Promise<OpenModel<Folder>> {
  const [device, tokenizer] = await Promise.all([
    resolveDevice(choice),
    openTokenizer(policy.path, { signal }),
  ]);
  return { policy, device, tokenizer, [Symbol.asyncDispose]: () => tokenizer.close() };
}

/** One that makes of prompts what it reads. */
export interface OpenPolicy extends OpenModel<TextFolder> {
  readonly prompts: Prompts;
}

interface PolicyChoice extends ModelChoice {
  readonly policy: string;
  readonly chatTemplateArgs: Readonly<Record<string, unknown>>;
}

/** The policy of a run. @throws RredcotError as {@link openModel}, exit 2 also for a folder or a template that is none */
export async function openPolicy(
  { policy: path, chatTemplateArgs, ...choice }: PolicyChoice,
  log: Log,
): Promise<OpenPolicy> {
  const policy = await openTextFolder(path);
  const opened = await openModel(policy, choice);
  const template = await loadChatTemplate(policy, chatTemplateArgs);
  const chat = template && chatRenderer(template, { signal: choice.signal });
  return {
    ...opened,
    prompts: new Prompts(chat, opened.tokenizer, log),
    async [Symbol.asyncDispose]() {
      await chat?.close();
      await opened[Symbol.asyncDispose]();
    },
  };
}
