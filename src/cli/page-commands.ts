// The flags and help of the commands that tell of a scored file as a whole: `rredcot summary` and `rredcot report`.
import { isDeepStrictEqual } from 'node:util';
import type { Command } from 'commander';
import type { ExitCode } from '../errors.js';
import { positiveInteger } from '../flag-values.js';
import { EMBEDDED_POLICY } from '../policy/embedded.js';

interface LogFlags {
  readonly quiet: boolean;
  readonly logJson: boolean;
}

/** Adds the commands; each reports its exit code, and throws what goes wrong. */
export function addPageCommands(program: Command, signal: AbortSignal, done: (code: ExitCode) => void): void {
  looking(program.command('summary'))
    .summary('the numbers of a scored file: is this run to be trusted?')
    .description(
      'Counts a scored file: rows by status, uniform σ, distributions of values, weights and log p, σ by position, calibration, suspected label noise.',
    )
    .option('--json', 'all numbers as one JSON object, for a dashboard', false)
    .addHelpText('after', '\nExample:\n  rredcot summary scored.parquet\n')
    .action(async (path: string, flags: LogFlags & { json: boolean }) => {
      const { summary } = await import('../commands/scored/summary.js');
      const { openLog } = await import('../report/log.js');
      const { commandOf } = await import('./command-of.js');
      const { openPolicyFolder } = await import('../policy/folder.js');
      const own = await openPolicyFolder(EMBEDDED_POLICY, { verify: false });
      const opts = {
        ...{ json: flags.json, signal },
        commandOf: (config: Parameters<typeof commandOf>[0], policy: Record<string, unknown>) =>
          commandOf(config, !isDeepStrictEqual(policy, own.files), program),
      };
      const write = (text: string) => process.stdout.write(text);
      done(await summary(path, opts, write, openLog(of(flags))));
    });
  looking(program.command('report'))
    .summary('a page about a scored file: its numbers, and some of its traces')
    .description(
      'Writes one HTML file that needs nothing else and sends nothing: the numbers of summary as charts, and a page for some traces, by chance and by how much their values moved.',
    )
    .option('-o, --output <file>', 'the page (default: ./<input>.report.html)')
    .option('--traces <n>', 'traces with a page of their own, at most', '50')
    .option(
      '--where <condition>',
      "which traces may have one: 'reward == 0'; all have to hold, figures as of filter (default: any)",
      (value: string, before: readonly string[] = []) => [...before, value],
    )
    .addHelpText('after', '\nExample:\n  rredcot report scored.parquet -o report.html\n')
    .action(
      async (
        path: string,
        flags: LogFlags & { output?: string; traces: string; where?: readonly string[] },
      ) => {
        const { report, defaultPage } = await import('../commands/scored/report.js');
        const { openLog } = await import('../report/log.js');
        const opts = {
          output: flags.output ?? defaultPage(path),
          traces: positiveInteger('--traces', flags.traces, 50, 0),
          where: flags.where ?? [],
          signal,
        };
        done(await report(path, opts, openLog(of(flags))));
      },
    );
}

function looking(command: Command): Command {
  return command
    .argument('<scored>', 'a file that score has written, a run folder or a merged folder')
    .option('--quiet', 'errors only', false)
    .option('--log-json', 'log records as JSON lines on stderr', false);
}

function of({ quiet, logJson }: LogFlags) {
  return { quiet, json: logJson };
}
