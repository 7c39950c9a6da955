// Flags that are declared when their command is called: what knows them takes longer to load than most commands take to run.
import type { Command } from 'commander';

const waiting = new WeakMap<Command, (argv: readonly string[]) => Promise<void>>();

/** Declares a command's flags no sooner than they are needed. */
export function lazily(
  command: Command,
  declare: (command: Command, argv: readonly string[]) => void | Promise<void>,
): Command {
  waiting.set(command, async (argv) => declare(command, argv));
  return command;
}

/** Declares them, once. @param argv the command line */
export async function declared(command: Command, argv: readonly string[] = []): Promise<void> {
  const declare = waiting.get(command);
  waiting.delete(command);
  await declare?.(argv);
}
