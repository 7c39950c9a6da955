// The flags and help of the commands that take what a run has written: `verify`, `redistribute` and `filter`, `summary` and `report`, `calibrate`,
// and `inspect`, which takes any file of traces.
import { isDeepStrictEqual } from 'node:util';
import type { Command } from 'commander';
import { usageError } from '../errors.js';
import type { CreditFlags } from '../estimate/credit-flags.js';
import { given, oneOf, positiveInteger } from '../flag-values.js';
import { FORMATS } from '../io/write/output.js';
import { EMBEDDED_POLICY } from '../package-files.js';
import { depthOf } from '../report/terminal.js';
import { parseColumnChoice, parseColumns } from '../run/written-columns.js';

import { type Done, type LogFlags, lazily, logged, logOf, print, repeated, write } from './declare.js';
import {
  appended,
  MAX_LINE_BYTES_FLAG,
  type MappingFlags,
  mapped,
  mappingOptions,
  OVERWRITE_FLAG,
} from './job-flags.js';

/** Adds the commands; each reports its exit code, and throws what goes wrong. */
export function addRunCommands(program: Command, signal: AbortSignal, done: Done): void {
  logged(program.command('verify'))
    .argument('<out>', 'run folder, or a .parquet, .arrow or .jsonl file of score or segment')
    .summary('read a run again: are all of its parts there, with the rows that were written?')
    .description(
      'Compares every part, or a file, with what the run and the part itself say: that it is there, its rows, their Σσ, the hash of its bytes and of its rejects. Findings are lines on stdout, exit 65; exit 75 where there are none but parts are missing.',
    )
    .addHelpText('after', '\nExample:\n  rredcot verify out/\n')
    .action(async (out: string, flags: LogFlags) => {
      const { verify } = await import('../commands/verify.js');
      done(await verify(out, { signal, print }, await logOf(flags)));
    });
}

/** Flags of the commands that write rows. */
interface ScoredFlags extends LogFlags {
  readonly output?: string;
  readonly format?: string;
  readonly overwrite: boolean;
}

type RedistributeFlags = ScoredFlags &
  CreditFlags & { columns?: string; keep?: string; drop?: string; calibration?: string };

/** Adds the commands; each reports its exit code, and throws what goes wrong. */
export function addScoredCommands(program: Command, signal: AbortSignal, done: Done): void {
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
    .action(async (path: string, flags: RedistributeFlags) => {
      const { redistribute } = await import('../commands/redistribute.js');
      const { output, format, columns, keep, drop, calibration, overwrite, quiet, logJson, ...credit } =
        flags;
      const opts = {
        ...{ flags: credit, calibration, output, overwrite, signal },
        format: formatOf({ format }),
        columns: parseColumns(columns),
        choice: parseColumnChoice(keep, drop),
      };
      done(await redistribute(path, opts, await logOf({ quiet, logJson })));
    });
  scored(program.command('filter'), './<input>.filtered.<format of the input>')
    .option(
      '--where <condition>',
      "'status == ok', 'value_range >= .05 or reward == 0'; all have to hold (docs/output.md#filters)",
      repeated,
    )
    .summary('keep the traces of a scored file that fit conditions')
    .description(
      'Writes the traces that fit all conditions, as they are and in the format of the file, and tells what each condition removed.',
    )
    .addHelpText(
      'after',
      "\nExample:\n  rredcot filter scored.parquet --where 'status == ok' --where 'disagreement < .9' -o clean.parquet\n",
    )
    .action(async (path: string, flags: ScoredFlags & { where?: readonly string[] }) => {
      const { filter } = await import('../commands/filter.js');
      const { where = [], output, overwrite } = flags;
      done(await filter(path, { where, output, overwrite, signal }, await logOf(flags)));
    });
}

function scored(command: Command, defaultOutput: string): Command {
  const made = scoredFile(command)
    .option(
      '-o, --output <file>',
      `.parquet, .arrow, .jsonl or .jsonl.gz; - is stdout, as an Arrow stream unless --format says jsonl (default: ${defaultOutput})`,
    )
    .option(...OVERWRITE_FLAG);
  return logged(made);
}

function formatOf({ format }: { readonly format?: string | undefined }) {
  return given(format, (text) => oneOf('--format', text, FORMATS));
}

/** Adds the commands; each reports its exit code, and throws what goes wrong. */
export function addPageCommands(program: Command, signal: AbortSignal, done: Done): void {
  logged(scoredFile(program.command('summary')))
    .summary('the numbers of a scored file: is this run to be trusted?')
    .description(
      'Counts a scored file: rows by status, uniform σ, distributions of values, weights and log p, σ by position, calibration, suspected label noise.',
    )
    .option('--json', 'all numbers as one JSON object, for a dashboard', false)
    .option(
      '--by-step',
      'also which kinds of step gain and lose: by the word that opens them, place in the trace, length',
      false,
    )
    .addHelpText('after', '\nExample:\n  rredcot summary scored.parquet\n')
    .action(async (path: string, flags: LogFlags & { json: boolean; byStep: boolean }) => {
      const { summary } = await import('../commands/summary.js');
      const { commandOf } = await import('./command-of.js');
      const { openPolicyFolder } = await import('../model/onnx/folder.js');
      const own = await openPolicyFolder(EMBEDDED_POLICY, { verify: false });
      const opts = {
        ...{ json: flags.json, byStep: flags.byStep, signal },
        commandOf: (config: Parameters<typeof commandOf>[0], policy: Record<string, unknown>) =>
          commandOf(config, !isDeepStrictEqual(policy, own.files), program),
      };
      done(await summary(path, opts, write, await logOf(flags)));
    });
  logged(scoredFile(program.command('report')))
    .summary('a page about a scored file: its numbers, and some of its traces')
    .description(
      'Writes one HTML file that needs nothing else and sends nothing: the numbers of summary as charts, and a page for some traces, by chance and by how much their values moved.',
    )
    .option('-o, --output <file>', 'the page (default: ./<input>.report.html)')
    .option('--traces <n>', 'traces with a page of their own, at most', '50')
    .option(
      '--where <condition>',
      "which traces may have one: 'reward == 0'; all have to hold, figures as of filter (default: any)",
      repeated,
    )
    .addHelpText('after', '\nExample:\n  rredcot report scored.parquet -o report.html\n')
    .action(async (path: string, flags: ReportFlags) => {
      const { report, defaultPage } = await import('../commands/report.js');
      const { output = defaultPage(path), where = [] } = flags;
      const traces = positiveInteger('--traces', flags.traces, 50, 0);
      done(await report(path, { output, traces, where, signal }, await logOf(flags)));
    });
}

type ReportFlags = LogFlags & { output?: string; traces: string; where?: readonly string[] };

/** The file that a command takes. */
function scoredFile(command: Command): Command {
  return command.argument('<scored>', 'a file that score has written, or a run folder');
}

/** Adds the command; it reports its exit code, and throws what goes wrong. */
export function addCalibrateCommand(program: Command, signal: AbortSignal, done: Done): void {
  const command = program
    .command('calibrate')
    .summary("fit a value on the reward's scale to scored traces")
    .description(
      "Fits the calibrated value to the rewards of scored traces: a logistic regression on v̂ and on the thought's surprise so far, cross-fitted by group. score and redistribute take it with --estimator calibrated.",
    )
    .argument('<scored...>', 'scored .parquet, .arrow or .jsonl files, or run folders')
    .requiredOption('-o, --output <file>', 'the calibration, a JSON file')
    .option(
      '--features <column,…>',
      "columns of the files with a number for each state, which V looks at besides: K + 1, K, or another run's segments; lowest:<column> is the lowest so far (docs/calibration.md)",
    )
    .addHelpText('after', '\nExample:\n  rredcot calibrate scored.parquet -o calibration.json\n');
  logged(command).action(async (scored: string[], flags: CalibrateFlags) => {
    const { calibrate } = await import('../commands/calibrate.js');
    const { parseFeatures } = await import('../estimate/states.js');
    const further = flags.features === undefined ? [] : parseFeatures(flags.features);
    done(await calibrate(scored, { output: flags.output, further, signal }, await logOf(flags)));
  });
}

type CalibrateFlags = LogFlags & { output: string; features?: string };

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
