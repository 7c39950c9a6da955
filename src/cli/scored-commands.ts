// The flags and help of the commands that take what a run has written, and of `inspect`, which takes any file of traces.
import type { Command } from 'commander';
import { usageError } from '../errors.js';
import type { CreditFlags } from '../estimate/credit-flags.js';
import { given, positiveInteger } from '../flag-values.js';
import { FORMATS } from '../io/write/output.js';
import { hasColors } from '../report/terminal.js';

import { type CommandCall, type LogFlags, logged, logOf, print, repeated, write } from './declare.js';
import {
  appended,
  MAX_LINE_BYTES_FLAG,
  type MappingFlags,
  mapped,
  mappingOptions,
  OVERWRITE_FLAG,
  parseMaxLineBytes,
  type WrittenFlags,
  writtenOptions,
} from './job-flags.js';
import { credited } from './score-command.js';

/** Each of these declares a command, which reports its exit code and throws what goes wrong. */
export function verify(command: Command, { interruption: { signal }, done }: CommandCall): void {
  logged(command)
    .argument('<out>', 'run folder, or a .parquet, .arrow or .jsonl file of score or segment')
    .description(
      'Compares every part, or a file, with what the run and the part itself say: that it is there, its rows, their Σσ, the hash of its bytes and of its rejects. Findings are lines on stdout, exit 65; exit 75 where there are none but parts are missing.',
    )
    .action(async (out: string, flags: LogFlags) => {
      const commands = await import('../commands/verify.js');
      done(await commands.verify(out, { signal, print }, await logOf(flags)));
    });
}

type RedistributeFlags = LogFlags & WrittenFlags & CreditFlags & { calibration?: string };

export function redistribute(command: Command, { interruption: { signal }, done }: CommandCall): void {
  scored(command, './<input>.redistributed.parquet')
    .option('--format <name>', `${FORMATS.join('|')} (default: by the output's name; arrow for stdout)`)
    .option(
      '--columns <a,b>',
      'which of our columns are written (default: those that the file has)',
      appended,
    )
    .option('--drop <a,b>', "the input's columns that are not written", appended)
    .description(
      "Computes the credit of scored traces again from what the file stores: σ rules, shaping, baselines, and estimators whose values follow from the stored log-probabilities. Flags that are not given are the file's own.",
    )
    .action(async (path: string, flags: RedistributeFlags) => {
      const commands = await import('../commands/redistribute.js');
      const { output, format, columns, drop, calibration, overwrite, quiet, logJson, ...credit } = flags;
      const written = writtenOptions({ output, format, columns, drop, overwrite });
      const opts = { ...written, flags: credit, calibration, signal };
      done(await commands.redistribute(path, opts, await logOf({ quiet, logJson })));
    });
  credited(command, false);
}

export function filter(command: Command, { interruption: { signal }, done }: CommandCall): void {
  scored(command, './<input>.filtered.<format of the input>')
    .option(
      '--where <condition>',
      "'status == ok', 'value_range >= .05 or reward == 0'; all have to hold (docs/output.md#filters)",
      repeated,
    )
    .description(
      'Writes the traces that fit all conditions, as they are and in the format of the file (on stdout Parquet becomes an Arrow stream), and tells what each condition removed. Without a condition a folder of parts becomes one file. Takes what segment has written, too.',
    )
    .action(async (path: string, flags: LogFlags & WrittenFlags & { where?: readonly string[] }) => {
      const commands = await import('../commands/filter.js');
      const { where = [], output, overwrite } = flags;
      done(await commands.filter(path, { where, output, overwrite, signal }, await logOf(flags)));
    });
}

function scored(command: Command, defaultOutput: string): Command {
  const made = scoredFile(command)
    .option('-o, --output <file>', `.parquet, .arrow or .jsonl; - is stdout (default: ${defaultOutput})`)
    .option(...OVERWRITE_FLAG);
  return logged(made);
}

export function summary(command: Command, { interruption: { signal }, done }: CommandCall): void {
  logged(scoredFile(command))
    .description(
      'Counts a scored file: rows by status, uniform σ, distributions of values, weights and log p, σ by position, calibration, suspected label noise.',
    )
    .option('--json', 'all numbers as one JSON object, for a dashboard', false)
    .action(async (path: string, flags: LogFlags & { json: boolean }) => {
      const commands = await import('../commands/summary.js');
      done(await commands.summary(path, { json: flags.json, signal }, write, await logOf(flags)));
    });
}

export function report(command: Command, { interruption: { signal }, done }: CommandCall): void {
  logged(scoredFile(command))
    .description(
      'Writes one HTML file that needs nothing else and sends nothing: the numbers of summary with small histograms, and a page for some traces, by chance and by how much their values moved.',
    )
    .option('-o, --output <file>', 'the page (default: ./<input>.report.html)')
    .option('--traces <n>', 'traces with a page of their own, at most', '50')
    .option(
      '--where <condition>',
      "which traces may have one: 'reward == 0'; all have to hold, figures as of filter (default: any)",
      repeated,
    )
    .action(async (path: string, flags: ReportFlags) => {
      const commands = await import('../commands/report.js');
      const { output, where = [] } = flags;
      const traces = positiveInteger('--traces', flags.traces, 50, 0);
      done(await commands.report(path, { output, traces, where, signal }, await logOf(flags)));
    });
}

type ReportFlags = LogFlags & { output?: string; traces: string; where?: readonly string[] };

/** The file that a command takes. */
function scoredFile(command: Command): Command {
  return command.argument('<scored>', 'a file that score has written, or a run folder');
}

export function calibrate(command: Command, { interruption: { signal }, done }: CommandCall): void {
  command
    .description(
      "Fits the calibrated value to the rewards of scored traces: a logistic regression on v̂ and on the thought's surprise so far, cross-fitted by group. score and redistribute take it with --estimator calibrated.",
    )
    .argument('<scored...>', 'scored .parquet, .arrow or .jsonl files, or run folders')
    .requiredOption('-o, --output <file>', 'the calibration, a JSON file')
    .option(
      '--probe',
      'fits the values of --estimator probe, to hidden states that --keep-states has kept',
      false,
    );
  logged(command).action(async (scored: string[], flags: CalibrateFlags) => {
    const commands = await import('../commands/calibrate.js');
    const { output, probe: isProbe } = flags;
    done(await commands.calibrate(scored, { output, isProbe, signal }, await logOf(flags)));
  });
}

type CalibrateFlags = LogFlags & { output: string; probe: boolean };

interface InspectFlags extends MappingFlags {
  readonly row?: string;
  readonly worst: boolean;
  readonly where?: readonly string[];
  readonly all: boolean;
  readonly json: boolean;
}

/** Columns where nobody sits before them. */
const WIDTH = 100;

export function inspect(command: Command, { interruption: { signal }, done }: CommandCall): void {
  mapped(command)
    .option(...MAX_LINE_BYTES_FLAG)
    .description(
      'Shows which preset fits a file and why, the trace that a row makes, what it lacks and the flag that gives it; of a scored file the value after each segment, the segments that turned it, the text shaded by σ·T, and the other completions of the prompt. A long one: inspect … --all | less -R.',
    )
    .argument('[file]', 'a file or folder in any format of the inputs; - is stdin', '-')
    .option('--row <n|id>', 'number of the row, from 0, or id of a trace (default: the first row)')
    .option('--worst', 'of a scored file the wrong trace whose value fell the most in one segment', false)
    .option(
      '--where <condition>',
      "of a scored file the first trace that fits, or the worst of them: 'reward == 0'; figures as of filter (default: any)",
      repeated,
    )
    .option('--all', 'every segment, and whole texts', false)
    .option('--json', 'one JSON object, with values and σ', false)
    .action(async (file: string, flags: InspectFlags) => {
      const commands = await import('../commands/inspect.js');
      const { row, worst, where = [], all, json } = flags;
      const view = { isColored: hasColors(process.stdout), width: process.stdout.columns || WIDTH };
      const opts = { ...mappingOptions(flags), ...{ row, worst, where, all, json }, ...view, signal };
      done(await commands.inspect(file, opts, write));
    });
}

interface CompareFlags extends LogFlags {
  readonly json: boolean;
  readonly csv: boolean;
  readonly maxLineBytes?: string;
}

export function compare(command: Command, { done }: CommandCall): void {
  logged(command)
    .argument('<files...>', 'scored files or run folders; further ones hold the same traces as the first')
    .description(
      'Pearson and Spearman of the credits of thought segments, inside traces: differences of values, σ by each rule of the file, and uniform σ. Intervals: 95 % of 1,000 resamples of groups. See docs/compare.md.',
    )
    .option('--json', 'one JSON object', false)
    .option('--csv', 'a line a pair of credits', false)
    .option(...MAX_LINE_BYTES_FLAG)
    .action(async (files: string[], flags: CompareFlags) => {
      if (flags.json && flags.csv)
        throw usageError('--json and --csv are two forms of one output', 'leave out one');
      const commands = await import('../commands/compare.js');
      const form = flags.json ? 'json' : flags.csv ? 'csv' : 'table';
      const opts = { form, maxLineBytes: given(flags.maxLineBytes, parseMaxLineBytes) } as const;
      done(await commands.compare(files, opts, write, await logOf(flags)));
    });
}
