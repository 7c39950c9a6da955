// What all commands have in common: flags that are declared when their command is called, the flags of the log, and how their help reads.
import { type Argument, type Command, Help, type Option } from 'commander';
import type { ExitCode } from '../errors.js';
import { packageFile } from '../package-files.js';
import { escapeControls } from '../printable.js';
import type { Log } from '../report/log.js';
import { endProgressLine } from '../report/terminal.js';

/** What ends a run from outside. */
export interface Interruption {
  readonly signal: AbortSignal;
  /** @param text of `--time-limit` @throws RredcotError (exit 2) */
  limitTime(text: string): void;
  /** From now on the first signal ends the process, as if nobody listened to it, but without its temporary files. */
  keepNothing(): void;
}

/** What a command is told of the call beside its own flags. */
export interface CommandCall {
  readonly argv: readonly string[];
  readonly interruption: Interruption;
  /** takes the exit code */
  readonly done: (code: ExitCode) => void;
}

/** The module that a command line names as its estimator. */
export function moduleIn(argv: readonly string[]): string | undefined {
  const at = argv.findIndex((word) => /^--estimator(=|$)/.test(word));
  const [, named = argv[at + 1]] = /=(.*)/s.exec(argv[at] ?? '') ?? [];
  return at >= 0 && named !== undefined && isModule(named) ? named : undefined;
}

/** Whether a value of `--estimator` names a file. */
export function isModule(estimator: string): boolean {
  return /[\\/]|\.[cm]?js$/.test(estimator);
}

const OF_A_JOB = '65 data, 69 device, 75 interrupted: the same command goes on';
const OF_A_FILE = '65 a file without a trace, or changed after it was written';

/** By command: the page of the documentation, and what it may end with beside 0, a bug (1) and wrong flags (2). */
const ENDS: Readonly<Record<string, readonly [page: string, codes: string]>> = {
  rredcot: ['README.md', '65 data, 69 device, 75 interrupted or not finished'],
  score: ['method.md', OF_A_JOB],
  requests: ['engines.md', '65 data, 75 interrupted'],
  segment: ['method.md', OF_A_JOB],
  inspect: ['looking.md', '65 a row that is no trace, or no trace that fits'],
  summary: ['looking.md', OF_A_FILE],
  report: ['looking.md', OF_A_FILE],
  calibrate: ['calibration.md', '65 no trace to fit to, or a file changed after it was written'],
  compare: ['compare.md', '65 no trace to compare'],
  redistribute: ['method.md', '65 data, 75 interrupted or disk full'],
  filter: [
    'output.md',
    '65 no trace fits, or a file changed after it was written, 75 interrupted or disk full',
  ],
  verify: ['long-runs.md', '65 findings, 75 a run that is not finished'],
  policy: ['policies.md', '65 a policy that fails its check, 69 device'],
  doctor: ['policies.md', '69 nothing to run a policy on'],
};

/** What their help shows, by the last word of a command. */
const EXAMPLES: Readonly<Record<string, readonly string[]>> = {
  rredcot: [
    'rredcot inspect traces.jsonl',
    'rredcot score traces.jsonl --map prompt=question,reference=answer -o scored.parquet',
    'rredcot inspect scored.parquet --worst',
  ],
  score: ['rredcot score traces.jsonl --map prompt=question,reference=answer -o scored.parquet'],
  requests: ['rredcot requests traces.jsonl -o requests.jsonl'],
  segment: ['rredcot segment traces.jsonl --max-segments 40 --no-policy | head -1'],
  inspect: ['rredcot inspect scored.parquet --worst'],
  summary: ['rredcot summary scored.parquet'],
  report: ['rredcot report scored.parquet -o report.html'],
  compare: ['rredcot compare scored.parquet'],
  redistribute: ['rredcot redistribute scored.parquet --sigma rudder --baseline value -o rudder.parquet'],
  filter: [
    "rredcot filter scored.parquet --where 'status == ok' --where 'disagreement < .9' -o clean.parquet",
  ],
  calibrate: ['rredcot calibrate scored.parquet -o calibration.json'],
  verify: ['rredcot verify out/'],
  policy: ['rredcot policy build ./checkpoint -o ./policy', 'rredcot policy info ./policy'],
  build: ['rredcot policy build ./checkpoint -o ./policy'],
  info: ['rredcot policy info ./policy'],
  doctor: ['rredcot doctor', 'rredcot doctor --device cuda'],
};

/** Flags that people use, of the commands that have many: what `-h` shows, in its order. */
const COMMON: Readonly<Record<string, readonly string[]>> = {
  score: [
    ...['--policy', '--estimator', '--sigma', '--baseline', '--within', '--calibration', '--reward-range'],
    ...['--output', '--columns', '--map', '--preset', '--join', '--segmenter', '--max-segments'],
    ...['--device', '--shard', '--limit', '--max-rejects'],
  ],
  segment: [
    ...['--segmenter', '--max-segments', '--policy', '--no-policy', '--output', '--map', '--preset'],
    ...['--device', '--shard', '--limit', '--max-rejects'],
  ],
  redistribute: [
    ...['--estimator', '--sigma', '--baseline', '--within', '--mix', '--cap', '--steps', '--calibration'],
    ...['--reward-range', '--method', '--output', '--columns'],
  ],
};

/** Up to its first aside. */
function firstSentence(text: string): string {
  const [first = ''] = text.split(/[;(]| \|/);
  return first.trim().replace(/[,:]$/, '');
}

/**
 * Defaults without quotes; of a flag that takes a value and says none that there is none. For the program before its commands are
 * added.
 * @param isShort `-h` was asked for: the common flags of a command, each in a line or two
 */
export function readableHelp(program: Command, isShort: boolean): Command {
  return program.configureHelp({
    argumentDescription({ description, defaultValue }: Argument): string {
      return defaultValue === undefined ? description : `${description} (default: ${shown(defaultValue)})`;
    },
    optionDescription({ description, defaultValue, required, optional, mandatory }: Option): string {
      if (isShort) return onOneLine(firstSentence(description));
      const text = description;
      if (defaultValue === undefined || defaultValue === false || Array.isArray(defaultValue)) {
        const isSaid = description.includes('default: ') || !(required || optional);
        return isSaid ? text : `${text} (${mandatory ? 'required' : 'default: none'})`;
      }
      return `${text} (default: ${shown(defaultValue)})`;
    },
    groupItems(all, visible, groupOf) {
      return isShort ? new Map([['Options:', visible]]) : new Help().groupItems(all, visible, groupOf);
    },
    visibleArguments(command: Command) {
      return isShort ? [] : Help.prototype.visibleArguments.call(this, command);
    },
    visibleOptions(command: Command): Option[] {
      const all = Help.prototype.visibleOptions.call(this, command);
      const common = isShort ? COMMON[command.name()] : undefined;
      return common?.flatMap((name) => all.filter(({ long }) => long === name)) ?? all;
    },
  });
}

/** Columns beside a flag on a screen of eighty. */
const SHORT = 49;

/** But for names of which one is to be chosen: these are there to be read. */
function onOneLine(text: string): string {
  return text.length <= SHORT || /(\|[\w-]+){3}$/.test(text) ? text : `${text.slice(0, SHORT - 1)}…`;
}

function shown(value: unknown): string {
  const text = String(value);
  // the policy that ships with the program lies wherever that was put
  return text === packageFile('models/embedded') ? 'the bundled one' : value === true ? 'on' : text;
}

/** Ends the help of a command, and of those below it, when its flags are there. @param name of the first command word */
export function endHelp(program: Command, isShort: boolean, name = program.name()): void {
  if (name !== 'rredcot') for (const command of program.commands) endHelp(command, isShort, name);
  const [page, own] = ENDS[name] ?? ['README.md'];
  const codes = own === undefined ? '' : `, ${own}`;
  const examples = EXAMPLES[program.name()]?.map((line) => `  ${line}\n`).join('') ?? '';
  const head = `\nExample${program.commands.length > 0 ? 's' : ''}:\n${examples}\n`;
  const short = isShort && COMMON[name] ? `\nrredcot ${program.name()} --help shows every flag.\n` : '';
  program.addHelpText(
    'after',
    `${head}${short}Exit codes: 0 done, 1 a bug, 2 wrong flags${codes} (docs/output.md#exit-codes)\nMore: ${packageFile(`docs/${page}`)}`,
  );
}

/** Flags of every command that reports on stderr. */
export interface LogFlags {
  readonly quiet: boolean;
  readonly logJson: boolean;
  /** of a command that makes a run: the log's records say which one */
  readonly shard?: string;
}

/** Declares them. */
export function logged(command: Command): Command {
  return command
    .option('--quiet', 'errors only', false)
    .option('--log-json', 'log records as JSON lines on stderr', false);
}

/** The log that they ask for. */
export async function logOf({ quiet, logJson, shard }: LogFlags): Promise<Log> {
  const { openLog } = await import('../report/log.js');
  return openLog({ quiet, json: logJson, shard });
}

/** Parses a flag that may be given several times. */
export function repeated(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}

/** A line on stdout. */
export function print(line: string): void {
  process.stdout.write(`${escapeControls(line)}\n`);
}

/** A text on stdout, as it is. */
export function write(text: string): void {
  endProgressLine();
  process.stdout.write(text);
}
