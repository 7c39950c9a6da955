// The flags and help of the commands that make a scored file into another: `rredcot redistribute` and `filter`.
import type { Command } from 'commander';
import type { CreditFlags } from '../commands/job/options.js';
import { parseColumnChoice, parseColumns } from '../commands/job/written-columns.js';
import type { ExitCode } from '../errors.js';
import { oneOf } from '../flag-values.js';
import { FORMATS } from '../io/write/output.js';
import { appended, OVERWRITE_FLAG } from './job-flags.js';
import { lazily } from './lazily.js';

interface ScoredFlags {
  readonly output?: string;
  readonly format?: string;
  readonly overwrite: boolean;
  readonly quiet: boolean;
  readonly logJson: boolean;
}

/** Adds the commands; each reports its exit code, and throws what goes wrong. */
export function addScoredCommands(
  program: Command,
  signal: AbortSignal,
  done: (code: ExitCode) => void,
): void {
  lazily(scored(program.command('redistribute'), './<input>.redistributed.parquet'), async (own) => {
    const { credited } = await import('./credit-flags.js');
    credited(own, false);
  })
    .option('--format <name>', `${FORMATS.join('|')} (default: by the output's name; arrow for -o -)`)
    .option(
      '--columns <a,b>',
      'which of our columns are written (default: those that the file has)',
      appended,
    )
    .option('--keep <a,b>', "the input's columns that are written (default: all)", appended)
    .option('--drop <a,b>', "the input's columns that are not written", appended)
    .summary('another σ, baseline or estimator for a scored file, without a policy')
    .description(
      "Computes the credit of scored traces again from what the file stores: σ rules, shaping, baselines, reward ranges, and estimators whose values follow from the stored log-probabilities. Flags that are not given are the file's own.",
    )
    .addHelpText(
      'after',
      '\nExample:\n  rredcot redistribute scored.parquet --sigma rudder --baseline value -o rudder.parquet\n',
    )
    .action(
      async (
        path: string,
        flags: ScoredFlags &
          Partial<CreditFlags> & { columns?: string; keep?: string; drop?: string; calibration?: string },
      ) => {
        const { redistribute } = await import('../commands/redistribute.js');
        const { output, format, columns, keep, drop, calibration, overwrite, quiet, logJson, ...credit } =
          flags;
        const opts = {
          flags: credit,
          calibration,
          ...outputOf({ output, format }),
          columns: parseColumns(columns),
          choice: parseColumnChoice(keep, drop),
          overwrite,
          signal,
        };
        const { openLog } = await import('../report/log.js');
        done(await redistribute(path, opts, openLog({ quiet, json: logJson })));
      },
    );
  addFilter(program, signal, done);
}

function addFilter(program: Command, signal: AbortSignal, done: (code: ExitCode) => void): void {
  scored(program.command('filter'), './<input>.filtered.<format of the input>')
    .option(
      '--where <condition>',
      "'status == ok', 'value_range >= .05 or reward == 0'; all have to hold (docs/output.md#filters)",
      (value: string, before: readonly string[]) => [...before, value],
      [] as readonly string[],
    )
    .summary('keep the traces of a scored file that fit conditions')
    .description(
      'Writes the traces that fit all conditions, as they are and in the format of the file, and tells what each condition removed.',
    )
    .addHelpText(
      'after',
      "\nExample:\n  rredcot filter scored.parquet --where 'status == ok' --where 'disagreement < .9' -o clean.parquet\n",
    )
    .action(async (path: string, flags: ScoredFlags & { where: readonly string[] }) => {
      const { filter } = await import('../commands/filter.js');
      const { where, output, overwrite, quiet, logJson } = flags;
      const { openLog } = await import('../report/log.js');
      done(await filter(path, { where, output, overwrite, signal }, openLog({ quiet, json: logJson })));
    });
}

function scored(command: Command, defaultOutput: string): Command {
  return command
    .argument('<scored>', 'a file that score has written, a run folder or a merged folder')
    .option(
      '-o, --output <file>',
      `.parquet, .arrow, .jsonl or .jsonl.gz; - is stdout, as an Arrow stream unless --format says jsonl (default: ${defaultOutput})`,
    )
    .option(...OVERWRITE_FLAG)
    .option('--quiet', 'errors only', false)
    .option('--log-json', 'log records as JSON lines on stderr', false);
}

function outputOf({ output, format }: { output?: string | undefined; format?: string | undefined }) {
  return { output, format: format === undefined ? undefined : oneOf('--format', format, FORMATS) };
}
