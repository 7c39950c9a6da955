// The flags and help of `rredcot inspect`.
import type { Command } from 'commander';
import { usageError } from '../errors.js';
import { depthOf } from '../report/terminal.js';
import { type Done, logOf, repeated, write } from './declare.js';
import { MAX_LINE_BYTES_FLAG, type MappingFlags, mapped, mappingOptions } from './job-flags.js';

interface InspectFlags extends MappingFlags {
  readonly row?: string;
  readonly worst: boolean;
  readonly best: boolean;
  readonly random: boolean;
  readonly where?: readonly string[];
  readonly all: boolean;
  readonly json: boolean;
}

/** Columns where nobody sits before them. */
const WIDTH = 100;

/** Adds the command; it reports its exit code, and throws what goes wrong. */
export function addInspectCommand(program: Command, signal: AbortSignal, done: Done): void {
  mapped(program.command('inspect'))
    .option(...MAX_LINE_BYTES_FLAG)
    .summary('show one trace: of a dump what the program makes of it, of a scored file its values and σ')
    .description(
      'Shows which preset fits a file and why, the trace that a row makes, what it lacks and the flag that gives it; of a scored file the value after each segment, the segments that turned it, the text shaded by σ·T, and the other completions of the prompt. In a terminal keys move from trace to trace: n, p, m (mate), a (all), q.',
    )
    .argument('[file]', 'a file or folder in any format of the inputs; - is stdin', '-')
    .option('--row <n|id>', 'number of the row, from 0, or id of a trace (default: the first row)')
    .option('--worst', 'of a scored file the wrong trace whose value fell the most in one segment', false)
    .option('--best', 'of a scored file the right trace whose value rose the most in one segment', false)
    .option('--random', 'a row by chance', false)
    .option(
      '--where <condition>',
      "of a scored file the first trace that fits, or the worst of them: 'reward == 0'; figures as of filter (default: any)",
      repeated,
    )
    .option('--all', 'every segment, and whole texts', false)
    .option('--json', 'one JSON object, with values and σ', false)
    .addHelpText('after', '\nExample:\n  rredcot inspect scored.parquet --worst\n')
    .action(async (file: string, flags: InspectFlags) => {
      const { inspect } = await import('../commands/inspect.js');
      const opts = { ...mappingOptions(flags), ...viewOf(flags), signal };
      done(await inspect(file, opts, write, await logOf({ quiet: true, logJson: false })));
    });
}

function viewOf({ row, worst, best, random, where = [], all, json }: InspectFlags) {
  const picks = (['worst', 'best', 'random'] as const).filter((pick) => ({ worst, best, random })[pick]);
  if (picks.length > 1)
    throw usageError(
      `${picks.map((pick) => `--${pick}`).join(' and ')} are different traces`,
      'leave out all but one',
    );
  const isSeen = process.stdin.isTTY === true && process.stdout.isTTY === true && process.env.TERM !== 'dumb';
  return {
    ...{ row, pick: picks[0], where, all, json },
    depth: depthOf(process.stdout),
    width: () => process.stdout.columns || WIDTH,
    terminal: isSeen ? { input: process.stdin, output: process.stdout } : undefined,
  };
}
