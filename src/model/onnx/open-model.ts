// Opens what reads texts as a model does: its tokenizer and the device that is to run it, and for prompts its chat template.
import { kept } from '../../kept.js';
import type { Log } from '../../report/log.js';
import { chatRenderer, loadChatTemplate } from '../text/chat-template.js';
import { openTokenizer } from '../text/open-tokenizer.js';
import { Prompts } from '../text/prompts.js';
import { type DeviceChoice, resolveDevice } from './device.js';
import { openTextFolder, type PolicyFolder, type TextFolder } from './folder.js';

/** A model that reads; its graphs are opened by whoever runs them. */
export type OpenModel = Awaited<ReturnType<typeof openModel<PolicyFolder>>>;

/** @param signal ends what its threads are at @throws RredcotError: exit 2 for a tokenizer that is none, 69 where the device is not there */
export async function openModel<Folder extends TextFolder>(
  policy: Folder,
  choice: DeviceChoice,
  signal: AbortSignal,
) {
  const [device, tokenizer] = await Promise.all([
    // what was exported has no graph for CUDA
    resolveDevice(choice === 'auto' && 'exported' in policy.architecture ? { name: 'cpu' } : choice),
    kept('tokenizer', [policy.path, policy.files], () => openTokenizer(policy.path, { signal })),
  ]);
  return { policy, device, tokenizer, [Symbol.asyncDispose]: () => tokenizer.close() };
}

interface PolicyChoice {
  readonly policy: string;
  readonly chatTemplateArgs: Readonly<Record<string, unknown>>;
  readonly device: DeviceChoice;
  readonly signal: AbortSignal;
}

/** One that makes of prompts what it reads. */
export type OpenPolicy = Awaited<ReturnType<typeof openPolicy>>;

/** The policy of a run. @throws RredcotError as {@link openModel}, exit 2 also for a folder or a template that is none */
export async function openPolicy({ policy: path, chatTemplateArgs, device, signal }: PolicyChoice, log: Log) {
  const policy = await openTextFolder(path);
  const opened = await openModel(policy, device, signal);
  const template = await loadChatTemplate(policy, chatTemplateArgs);
  const chat =
    template &&
    (await kept('template', [path, policy.files], async () => chatRenderer(template, { signal })));
  return {
    ...opened,
    prompts: new Prompts(chat, opened.tokenizer, log),
    async [Symbol.asyncDispose]() {
      await chat?.close();
      await opened[Symbol.asyncDispose]();
    },
  };
}
