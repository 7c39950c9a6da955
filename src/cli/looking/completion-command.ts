// `rredcot completion`: the program's own commands and flags in, a script for a shell out.
import type { Command, Option } from 'commander';
import { oneOf } from '../../commands/job/flag-values.js';
import type { CompletedCommand, CompletedFlag } from '../../report/completion.js';

/** Adds the command, which knows all others when it is run. */
export function addCompletionCommand(program: Command): void {
  program
    .command('completion')
    .summary('a script that completes commands and flags in a shell')
    .description('Prints a script that completes commands, flags and the names that flags take.')
    .argument('<shell>', 'bash|zsh|fish')
    .addHelpText('after', '\nExample:\n  rredcot completion bash > rredcot.bash\n')
    .action(async (shell: string) => {
      const { completionScript, SHELLS } = await import('../../report/completion.js');
      process.stdout.write(completionScript(oneOf('shell', shell, SHELLS), commandsOf(program)));
    });
}

function commandsOf(program: Command, before = ''): CompletedCommand[] {
  return program.commands.flatMap((command) => {
    const name = `${before}${command.name()}`;
    if (command.commands.length > 0) return commandsOf(command, `${name} `);
    const flags = [...command.options.map(flagOf), HELP];
    return [{ name, what: command.summary() || firstSentence(command.description()), flags }];
  });
}

const HELP: CompletedFlag = { names: ['--help'], what: 'show all flags', value: 'none' };

function flagOf(option: Option): CompletedFlag {
  const { short, long, description } = option;
  const names = [short, long].filter((name) => name !== undefined && name !== null);
  const words = /(?:^|[\s:])([\w-]+(?:\|[\w-]+)+)/.exec(description)?.[1]?.split('|');
  const takes = option.required || option.optional;
  return { names, what: firstSentence(description), value: takes ? (words ?? 'file') : 'none' };
}

function firstSentence(text: string): string {
  return text.split(/[;:(]| \|/)[0]?.trim() ?? '';
}
