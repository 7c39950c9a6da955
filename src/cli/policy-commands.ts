// The flags and help of `rredcot policy build`, `info` and `check`.
import type { Command } from 'commander';
import type { BuildFlags } from '../commands/policy-build.js';
import { finite, given } from '../flag-values.js';
import { parseTemplateArgs } from '../model/text/chat-template.js';
import { escapeControls } from '../printable.js';
import { print } from './declare.js';
import { CHAT_TEMPLATE_ARG } from './job-flags.js';

/** Flags of `policy check` as commander gives them. */
interface CheckFlags {
  readonly text?: string;
  readonly reference?: string;
  readonly tolerance?: string;
  readonly device: string;
}

/** Adds the policy commands; each does its work in its action and throws what goes wrong. */
export function addPolicyCommands(program: Command): void {
  const policy = program
    .command('policy')
    .summary('policy folders: build, info and check')
    .description(
      'Builds policy folders (build), shows what is in one (info), and proves its numbers (check).',
    );

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
    .option(
      '--step-token <text>',
      "of a process reward model: the token behind every step where its label stands; '' for the steps' last tokens (default: the model's own)",
    )
    .option(
      '--correct-label <name>',
      'of a process reward model: name or number of the label that says right (default: 1, of two)',
    )
    .option(
      '--prm-template <file>',
      'of a process reward model: JSON file {"with_reference": "{prompt}… {reference}"} for --prm-reference (default: prm_template.json of the checkpoint, or a plain one)',
    )
    .description(
      'Builds the graphs of a Llama, Mistral, Qwen2, Qwen2.5 or Qwen3 checkpoint, a policy or a process reward model (docs/policies.md); its weights are linked, not copied, where the file system allows.',
    )
    .addHelpText('after', '\nExample:\n  rredcot policy build ./checkpoint -o ./policy\n')
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
    .addHelpText('after', '\nExample:\n  rredcot policy info ./policy\n')
    .action(async (folder: string, flags: { chatTemplateArg?: string[] }) => {
      const { policyInfo } = await import('../commands/policy-info.js');
      await policyInfo(folder, parseTemplateArgs(flags.chatTemplateArg), print);
    });

  policy
    .command('check')
    .argument('<folder>', 'policy folder')
    .option('--text <file>', 'text to read (default: a built-in one)')
    .option(
      '--reference <file>',
      'JSON {"ids", "logprobs", "entropies"} of another implementation; of a process reward model {"ids", "correct"} (examples/make_reference.py)',
    )
    .option(
      '--tolerance <nats>',
      "largest difference allowed (default: the reference's own, or 0.001, of completions 0.0001; 0.3 in half precision)",
    )
    .option(
      '--device <device>',
      'auto|cpu|cuda|cuda:<n>|webgpu: its numbers are held against the canary, which the CPU has computed',
      'cpu',
    )
    .description(
      'Compares trunk, branches, naive re-encoding and completions on a text, of a process reward model batches and prefixes, and all with reference numbers; exit 65 where they differ.',
    )
    .addHelpText('after', '\nExample:\n  rredcot policy check ./policy --reference reference.json\n')
    .action(async (folder: string, flags: CheckFlags) => {
      const { policyCheck } = await import('../commands/policy-check.js');
      const { text, reference } = flags;
      const { parseDevice } = await import('../model/onnx/device.js');
      const [tolerance, device] = [toleranceOf(flags.tolerance), parseDevice(flags.device)];
      await policyCheck(folder, { text, reference, tolerance, device }, print);
    });
}

function toleranceOf(text: string | undefined): number | undefined {
  return given(text, (nats) =>
    finite('--tolerance', nats, 'a positive number of nats', '1e-3', (x) => x > 0),
  );
}
