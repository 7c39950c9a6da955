// The flags and help of the commands that work on a run folder: `rredcot status`, `verify` and `merge`.
import type { Command } from 'commander';
import type { ExitCode } from '../errors.js';
import { oneOf } from '../flag-values.js';
import { FORMATS } from '../io/write/output.js';
import { escapeControls } from '../printable.js';
import { OVERWRITE_FLAG } from './job-flags.js';

/** Flags of every command that reports on stderr. */
interface LogFlags {
  readonly quiet: boolean;
  readonly logJson: boolean;
}

const print = (line: string): void => void process.stdout.write(`${escapeControls(line)}\n`);

/** Adds the commands; each reports its exit code, and throws what goes wrong. */
export function addRunCommands(program: Command, signal: AbortSignal, done: (code: ExitCode) => void): void {
  program
    .command('status')
    .argument('<out>', 'run folder, or the single file that a run is making')
    .summary('what of a run is done and what is missing')
    .option('--json', 'one JSON object instead of the table', false)
    .description(
      'Counts the records of a run folder: chunks, rows, traces, rejects and tokens of each shard. Works while the run is under way.',
    )
    .addHelpText('after', '\nExample:\n  rredcot status out/\n')
    .action(async (out: string, flags: { json: boolean }) => {
      const { status } = await import('../commands/status.js');
      done(await status(out, flags, print));
    });

  withLog(program.command('verify'))
    .argument('<out>', 'run folder, merged folder, or a scored .parquet, .arrow or .jsonl file')
    .summary('read a run again and check every number in it')
    .description(
      "Compares every file with its hash and every input row with what became of it, and computes again what follows from each trace's own columns: sums, values, differences, σ, ranges. Findings are lines on stdout, exit 65; exit 75 where there are none but the run is not finished.",
    )
    .addHelpText('after', '\nExample:\n  rredcot verify out/\n')
    .action(async (out: string, flags: LogFlags) => {
      const { verify } = await import('../commands/verify.js');
      const { openLog } = await import('../report/log.js');
      done(await verify(out, { signal, print }, openLog({ quiet: flags.quiet, json: flags.logJson })));
    });

  withLog(program.command('merge'))
    .argument('<out>', 'run folder')
    .requiredOption(
      '-o, --output <file|folder>',
      '.parquet or .arrow, of JSONL chunks .jsonl; a folder (all/) for several files',
    )
    .option(
      '--format <name>',
      "parquet|arrow|jsonl (default: by the output's name, the chunks' for a folder)",
    )
    .option(
      '--file-size <size>',
      'bytes a file of a folder at most, one chunk alone may have more: 512MiB, 2GiB (default: 1GiB)',
    )
    .option(...OVERWRITE_FLAG)
    .option('--partial', 'take what is done of a run that is not finished', false)
    .summary('put the chunks of a run together')
    .description(
      'Joins the chunks of a run in the order of the inputs, and the rejects beside them (<output>.rejects.jsonl). Exit 75 where the run is not finished, 65 where a chunk is damaged; a folder that holds the run already is left as it is.',
    )
    .addHelpText('after', '\nExample:\n  rredcot merge out/ -o all.parquet\n')
    .action(
      async (
        out: string,
        flags: LogFlags & {
          output: string;
          format?: string;
          fileSize?: string;
          partial: boolean;
          overwrite: boolean;
        },
      ) => {
        const { merge, parseFileSize } = await import('../commands/merge.js');
        const format = flags.format === undefined ? undefined : oneOf('--format', flags.format, FORMATS);
        const fileSize = parseFileSize(flags.fileSize);
        const { output, partial, overwrite } = flags;
        const opts = { output, format, fileSize, partial, overwrite, signal };
        const { openLog } = await import('../report/log.js');
        done(await merge(out, opts, openLog({ quiet: flags.quiet, json: flags.logJson })));
      },
    );
}

function withLog(command: Command): Command {
  return command
    .option('--quiet', 'errors only', false)
    .option('--log-json', 'log records as JSON lines on stderr', false);
}
