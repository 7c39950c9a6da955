// The flags and help of `rredcot policy build` and `info`, and of `doctor`.
import type { Command } from 'commander';
import type { BuildFlags } from '../commands/policy-build.js';
import { parseDevice } from '../model/onnx/device.js';
import { parseTemplateArgs } from '../model/text/chat-template.js';
import { EMBEDDED_POLICY } from '../package-files.js';
import { escapeControls } from '../printable.js';
import { type CommandCall, print } from './declare.js';
import { CHAT_TEMPLATE_ARG } from './job-flags.js';

/** Declares the commands below it; each does its work in its action and throws what goes wrong. */
export function policy(policy: Command): void {
  policy.description('Builds policy folders (build) and shows what is in one (info).');

  policy
    .command('build')
    .argument('<checkpoint>', 'folder with config.json, safetensors (one file, or shards) and tokenizer.json')
    .requiredOption('-o, --output <folder>', 'policy folder to write')
    .option(
      '--exit-template <file>',
      'JSON file {"close", "open", "closer"}, or some of these: what leaves the thought, comes before the answer and after it (default: from the chat template)',
    )
    .option(
      '--cuda-precision <type>',
      "bf16|f16: what the graph for CUDA computes in (default: the checkpoint's own type; bf16 for a float32 one)",
    )
    .option('--adapter <folder>', 'LoRA adapter of PEFT, merged into the weights (default: none)')
    .option('--tokenizer-only', 'no graph, of any family: an engine answers in its place (docs/engines.md)')
    .description(
      'Builds the graphs of a checkpoint of Llama, Mistral, Qwen2 to Qwen3.6 and their mixtures, SmolLM3, OLMo 2, Granite or Phi-4 (docs/policies.md; python -m rredcot.export takes others); its weights are linked, not copied, where the file system allows.',
    )
    .action(async (checkpoint: string, flags: BuildFlags) => {
      const { policyBuild } = await import('../commands/policy-build.js');
      await policyBuild(checkpoint, flags, (line) => process.stderr.write(`${escapeControls(line)}\n`));
    });

  policy
    .command('info')
    .argument('<folder>', 'policy folder')
    .option(...CHAT_TEMPLATE_ARG)
    .description(
      'Shows architecture, parameters, vocabulary, limits, exit template, what the chat template makes of a message, and files. Exit 65 where it does not take a message.',
    )
    .action(async (folder: string, flags: { chatTemplateArg?: string[] }) => {
      const { policyInfo } = await import('../commands/policy-info.js');
      await policyInfo(folder, parseTemplateArgs(flags.chatTemplateArg), print);
    });
}

export function doctor(command: Command, { done }: CommandCall): void {
  command
    .description(
      'Checks Node, ONNX Runtime, the embedded policy, the NVIDIA driver and the CUDA libraries; each problem comes with the line that fixes it. The embedded policy has to give the numbers of its canary on the CPU, and on --device. Ends with what --device auto will use. Exit 69 where the CPU or that device does not work.',
    )
    .option('--json', 'one JSON object instead of the table', false)
    .option(
      '--device <name>',
      'auto|cpu|cuda|cuda:<n>: has to prove itself too; auto: what auto takes',
      'auto',
    )
    .action(async (flags: { json: boolean; device: string }) => {
      const commands = await import('../commands/doctor.js');
      const { json, device } = flags;
      done(await commands.doctor(EMBEDDED_POLICY, { json, device: parseDevice(device) }));
    });
}
