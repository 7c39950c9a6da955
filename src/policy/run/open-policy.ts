// Opens what reads texts as a policy does: its tokenizer, its chat template, and the device that is to run it.
import type { Log } from '../../report/log.js';
import { type Device, type DeviceChoice, resolveDevice } from '../device.js';
import { openPolicyFolder, type PolicyFolder } from '../folder.js';
import { type OpenTokenizer, openTokenizer } from '../text/open-tokenizer.js';
import { Prompts } from '../text/prompts.js';

/** What is asked of it. */
export interface PolicyChoice {
  /** its folder */
  readonly policy: string;
  readonly device: DeviceChoice;
  readonly chatTemplateArgs: Readonly<Record<string, unknown>>;
  /** ends what its threads are at */
  readonly signal: AbortSignal;
}

/** A policy that reads; its graphs are opened by whoever runs them. */
export interface OpenPolicy extends AsyncDisposable {
  readonly policy: PolicyFolder;
  readonly device: Device;
  readonly tokenizer: OpenTokenizer;
  readonly prompts: Prompts;
}

/** @throws RredcotError: exit 2 for a folder, tokenizer or template that is none, 69 where the device is not there */
export async function openPolicy(opts: PolicyChoice, log: Log): Promise<OpenPolicy> {
  const { chatTemplateArgs, signal } = opts;
  const policy = await openPolicyFolder(opts.policy);
  const [{ device }, tokenizer] = await Promise.all([
    resolveDevice(opts.device, policy),
    openTokenizer(policy.path, { signal }),
  ]);
  const prompts = await Prompts.open(policy, tokenizer, chatTemplateArgs, log, signal);
  return {
    ...{ policy, device, tokenizer, prompts },
    async [Symbol.asyncDispose]() {
      await prompts.close();
      await tokenizer.close();
    },
  };
}
