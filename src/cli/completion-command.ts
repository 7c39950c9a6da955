// `rredcot completion`: prints a script that completes the program's own commands and flags in a shell.
import type { Argument, Command, Option } from 'commander';
import { JUDGES } from '../estimate/models/judge.js';
import { oneOf } from '../flag-values.js';
import type { CompletedCommand, CompletedFlag } from '../report/completion.js';
import { SEGMENTERS } from '../segment/segmenters.js';
import { declared } from './lazily.js';

/** Adds the command, which knows all others when it is run. */
export function addCompletionCommand(program: Command): void {
  program
    .command('completion')
    .summary('a script that completes commands and flags in a shell')
    .description('Prints a script that completes commands, flags and the names that flags take.')
    .argument('<shell>', 'bash|zsh|fish')
    .addHelpText('after', '\nExample:\n  rredcot completion bash > rredcot.bash\n')
    .action(async (shell: string) => {
      for (const command of program.commands) await declared(command);
      const { completionScript, SHELLS } = await import('../report/completion.js');
      const { PRESET_NAMES } = await import('../io/map/presets.js');
      const named = {
        '--preset': ['auto', 'none', ...PRESET_NAMES],
        '--segmenter': SEGMENTERS,
        '--judge': JUDGES,
        '--device': DEVICES,
      };
      process.stdout.write(completionScript(oneOf('shell', shell, SHELLS), commandsOf(program, named)));
    });
}

const DEVICES = ['auto', 'cpu', 'cuda', 'webgpu'];

/** Names that a flag takes, where its description has not all of them. */
type Named = Readonly<Record<string, readonly string[]>>;

function commandsOf(program: Command, named: Named, before = ''): CompletedCommand[] {
  return program.commands.flatMap((command) => {
    const name = `${before}${command.name()}`;
    if (command.commands.length > 0) return commandsOf(command, named, `${name} `);
    const flags = [...command.options.map((option) => flagOf(option, named)), HELP];
    const words = command.registeredArguments.flatMap((argument: Argument) => wordsIn(argument.description));
    return [{ name, what: command.summary() || firstSentence(command.description()), words, flags }];
  });
}

const HELP: CompletedFlag = { names: ['--help'], what: 'show all flags', value: 'none' };

/** Of `auto|cpu|cuda:<n>` those that can be typed as they stand. */
function wordsIn(description: string): string[] {
  const list =
    /(?:^|[\s:])([\w-]+(?::?<\w+>)?(?:\|[\w-]*(?::?<\w+>)?)+)/.exec(description)?.[1]?.split('|') ?? [];
  return list.filter((word) => /^[\w-]+$/.test(word));
}

function flagOf(option: Option, named: Named): CompletedFlag {
  const { short, long, description } = option;
  const names = [short, long].filter((name) => name !== undefined && name !== null);
  const words = named[long ?? ''] ?? wordsIn(description);
  const takes = option.required || option.optional;
  return {
    names,
    what: firstSentence(description),
    value: !takes ? 'none' : words.length > 0 ? words : 'file',
  };
}

function firstSentence(text: string): string {
  return text.split(/[;:(]| \|/)[0]?.trim() ?? '';
}
