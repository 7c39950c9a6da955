// The command line: flags, defaults, help, and the one place where errors become exit codes.
import { fileURLToPath } from 'node:url';
import { Command, CommanderError, Option } from 'commander';
import { addPolicyCommands, CHAT_TEMPLATE_ARG } from './cli-policy.js';
import { addRunCommands } from './cli-run.js';
import { jobLog, shareAmongWorkers } from './cli-workers.js';
import { interruptible, parseTimeLimit } from './commands/interrupt.js';
import {
  DEFAULT_FIXED_LENGTH,
  DEFAULT_MAX_SEGMENTS,
  oneOf,
  positiveInteger,
  resolveCreditOptions,
  resolveMaxRejects,
  resolveSegmentOptions,
  usageError,
} from './commands/options.js';
import { parseColumns, parseExport } from './commands/written-columns.js';
import { EXIT, type ExitCode, RredcotError } from './errors.js';
import { BANKS } from './estimate/bank.js';
import { fileError } from './io/file-error.js';
import { MAX_LINE_BYTES } from './io/jsonl.js';
import { parseShard } from './io/shard.js';
import { parseTemplateArgs } from './policy/chat-template.js';
import { parseDevice } from './policy/device.js';
import { STRATEGIES } from './policy/strategy.js';
import { coloursOf } from './report/log.js';
import { escapeControls, escapeLines } from './report/trace-view.js';
import { VERSION } from './version.js';

/** The policy that ships with the program. */
const EMBEDDED_POLICY = fileURLToPath(new URL('../models/embedded', import.meta.url));
const FORMATS = ['parquet', 'arrow', 'jsonl'] as const;

/** Default of `--rows-per-chunk`: what a death costs at most. */
const ROWS_PER_CHUNK = 512;
/** The same where a row takes a millisecond. */
const ROWS_PER_CHEAP_CHUNK = 16_384;

/** Flags that say how rows become traces. */
interface MappingFlags {
  readonly map?: string;
  readonly preset: string;
  readonly join?: string;
  readonly joinOn?: string;
  readonly maxLineBytes: string;
}

/** Flags of `score` and `segment` as commander hands them on. */
interface JobFlags extends MappingFlags {
  readonly output?: string;
  readonly format?: string;
  readonly columns?: string;
  /** a folder; `false` for --no-policy */
  readonly policy: string | false;
  readonly device: string;
  readonly limit?: string;
  readonly maxRejects?: string;
  readonly segmenter: string;
  readonly maxSegments?: string;
  readonly fixedLength?: string;
  readonly shard?: string;
  readonly rowsPerChunk?: string;
  readonly restart: boolean;
  readonly timeLimit?: string;
  readonly chatTemplateArg: readonly string[];
  readonly quiet: boolean;
  readonly logJson: boolean;
}

/** Runs the command line. @returns the exit code (DESIGN §5) */
export async function main(argv: readonly string[]): Promise<ExitCode> {
  let result: ExitCode = EXIT.done;
  const interruption = interruptible();
  const { signal } = interruption;
  // a reader that has seen enough (`--help | head`) is no failure; outputs on stdout notice an error by themselves
  let stdoutError: unknown;
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') stdoutError = fileError(error, 'stdout', 'written');
  });
  // with nobody to tell, the work goes on
  process.stderr.on('error', () => {});
  const program = new Command('rredcot')
    .description(
      'Scores chain-of-thought traces offline: values at exit points, and σ, which redistributes the reward over tokens.',
    )
    .version(VERSION, '-V, --version')
    .exitOverride()
    .configureOutput({
      outputError: (text, write) => write(escapeLines(text.replace(/^error: /, 'rredcot: '))),
    })
    .showHelpAfterError('(rredcot --help lists commands, rredcot <command> --help their flags)');

  job(program.command('score'), 'scored.parquet')
    .summary('score traces: entropies, values at exit points, σ')
    .description(
      'Runs the policy over every trace and writes it with the entropy of every token, the value at every exit point, and σ.',
    )
    .option('--policy <folder>', 'policy folder', EMBEDDED_POLICY)
    .addOption(
      new Option(
        '--estimator <name>',
        'value of a state from its references (METHOD 3): pr|pr-mean|joint',
      ).default('pr'),
    )
    .addOption(
      new Option('--sigma <rule>', 'from values to σ (METHOD 4): rudder|share|uniform').default('rudder'),
    )
    .option(
      '--baseline <b>',
      "auto|group|value|<number>; auto: the group's mean reward, v̂(s_0) without a group",
      'auto',
    )
    .option(
      '--bank <source>',
      "references: row, or group: the answers of the group's other correct completions",
      'row',
    )
    .option('--residual <where>', 'where the reward that no segment explains goes: uniform|answer', 'uniform')
    .option('--within <how>', 'weights inside a segment: uniform|entropy', 'uniform')
    .option('--strategy <name>', 'runs of the policy a trace: auto|one-run|two-run', 'auto')
    .option('--reward-range <low,high>', "the rewards' scale, mapped onto 0..1", '0,1')
    .option('--export <form>', "a trainer's columns in place of ours: prm|tinker|vineppo (docs/trainers.md)")
    .addHelpText(
      'after',
      '\nExample:\n  rredcot score traces.jsonl --map prompt=question,reference=answer -o scored.parquet\n',
    )
    .action(
      async (
        inputs: string[],
        flags: JobFlags &
          Parameters<typeof resolveCreditOptions>[0] & { strategy: string; bank: string; export?: string },
        command: Command,
      ) => {
        const log = jobLog(flags);
        const { score } = await import('./commands/score.js');
        const credit = resolveCreditOptions(flags);
        if (flags.policy === false) throw usageError('score needs a policy', 'leave out --no-policy');
        const strategy = oneOf('--strategy', flags.strategy, STRATEGIES);
        const rowsPerChunk = rowsPerChunkOf(flags, ROWS_PER_CHUNK);
        const exportName = parseExport(flags.export);
        const bank = oneOf('--bank', flags.bank, BANKS);
        const method = { credit, strategy, bank, exportName };
        const job = { ...jobOptions(flags), rowsPerChunk, policy: flags.policy, ...method, signal };
        interruption.limitTime(parseTimeLimit(flags.timeLimit));
        result = (await shareAmongWorkers(command, inputs, job, log)) ?? (await score(inputs, job, log));
      },
    );

  job(program.command('segment'), 'JSONL on stdout')
    .summary('cut traces into segments, without scoring them')
    .description(
      'Cuts every completion into segments at token boundaries; neighbours of the lowest total entropy are merged.',
    )
    .option('--policy <folder>', 'policy folder', EMBEDDED_POLICY)
    .option('--no-policy', 'no entropies: merge by length, on characters')
    .addHelpText(
      'after',
      '\nExample:\n  rredcot segment traces.jsonl --max-segments 40 --no-policy | head -1\n',
    )
    .action(async (inputs: string[], flags: JobFlags, command: Command) => {
      const log = jobLog(flags);
      const { segment } = await import('./commands/segment.js');
      const policy = flags.policy === false ? null : flags.policy;
      if (policy === null && flags.device !== 'auto')
        throw usageError('--device has no meaning without a policy', 'leave out --device or --no-policy');
      if (policy === null && flags.chatTemplateArg.length > 0)
        throw usageError(
          '--chat-template-arg has no meaning without a policy',
          'leave it or --no-policy out',
        );
      const rowsPerChunk = rowsPerChunkOf(flags, policy === null ? ROWS_PER_CHEAP_CHUNK : ROWS_PER_CHUNK);
      interruption.limitTime(parseTimeLimit(flags.timeLimit));
      const job = { ...jobOptions(flags), rowsPerChunk, policy, signal };
      result = (await shareAmongWorkers(command, inputs, job, log)) ?? (await segment(inputs, job, log));
    });

  mapped(program.command('inspect'))
    .summary('show one row as a trace: the preset found, what is missing')
    .description(
      'Shows which preset fits a file and why, the trace that a row makes, what it lacks and the flag that gives it; of a scored file, the values and σ.',
    )
    .argument('[file]', 'a file or folder in any format of the inputs; - is stdin', '-')
    .option('--row <n|id>', 'number of the row, from 0, or id of a trace (default: the first row)')
    .option('--max-line-bytes <n>', 'longest input line', String(MAX_LINE_BYTES))
    .option('--json', 'one JSON object', false)
    .addHelpText('after', '\nExample:\n  rredcot inspect traces.jsonl\n')
    .action(async (file: string, flags: MappingFlags & { row?: string; json: boolean }) => {
      const { inspect } = await import('./commands/inspect.js');
      const view = { colours: coloursOf(process.stdout), width: process.stdout.columns || 100 };
      const opts = { ...mappingOptions(flags), ...view, row: flags.row, json: flags.json };
      result = await inspect(file, opts, (text) => process.stdout.write(text));
    });

  addRunCommands(program, signal, (code) => {
    result = code;
  });
  addPolicyCommands(program);
  program
    .command('doctor')
    .summary('check this machine: what the policy can run on, and what mends the rest')
    .description(
      'Checks Node, ONNX Runtime, the embedded policy, the NVIDIA driver and the CUDA libraries; each problem comes with the line that mends it. Ends with what --device auto will use. Exit 69 where not even the CPU works.',
    )
    .option('--json', 'one JSON object instead of the table', false)
    .addHelpText('after', '\nExample:\n  rredcot doctor\n')
    .action(async (flags: { json: boolean }) => {
      const { doctor } = await import('./commands/doctor.js');
      result = await doctor(EMBEDDED_POLICY, flags);
    });

  try {
    await program.parseAsync(argv as string[]);
    return stdoutError === undefined ? result : report(stdoutError);
  } catch (error) {
    // an input that is closed under its reader is what the interruption has come to
    const isOurs = error instanceof RredcotError || !signal.aborted;
    return report(isOurs ? error : new RredcotError('interrupted', { exitCode: EXIT.interrupted }));
  }
}

/** The flags that `score` and `segment` share. */
function job(command: Command, defaultOutput: string): Command {
  return mapped(command)
    .argument(
      '[inputs...]',
      'JSONL, JSON, Arrow or Parquet files (.gz, .zst), folders or quoted patterns; none or - is stdin',
    )
    .option(
      '-o, --output <file|folder>',
      `.parquet, .arrow, .jsonl or .jsonl.gz; a folder (out/) for shards; - is stdout (default: ${defaultOutput === 'scored.parquet' ? '<input>.scored.parquet' : defaultOutput})`,
    )
    .option('--format <name>', `${FORMATS.join('|')} (default: by the output's name)`)
    .option('--columns <a,b>', "which of our columns are written beside the input's (default: all)")
    .option('--segmenter <name>', 'hybrid|newline|fixed|given (METHOD 2)', 'hybrid')
    .option(
      '--max-segments <n>',
      `thought segments a trace at most (default: ${DEFAULT_MAX_SEGMENTS} for hybrid, as many as there are for the others)`,
    )
    .option('--fixed-length <n>', `tokens a segment of --segmenter fixed (default: ${DEFAULT_FIXED_LENGTH})`)
    .option(...CHAT_TEMPLATE_ARG)
    .option(
      '--device <name>',
      'auto|cpu|cuda|cuda:<n>|webgpu: what the policy runs on (rredcot doctor shows what there is)',
      'auto',
    )
    .option(
      '--workers <n>',
      'processes that share the rows, and the cores (with --devices: for each of these)',
    )
    .option('--devices <a,b>', 'a process for each device: cuda:0,cuda:1')
    .option('--limit <n>', 'take the first n traces, rejected ones counted')
    .option('--max-rejects <n|p%>', 'fail (exit 65) beyond so many rejected traces (default: no limit)')
    .option(
      '--shard <i/n>',
      'do every n-th row, from the i-th (default: the place in a Slurm array or Indexed Job)',
    )
    .option(
      '--rows-per-chunk <n>',
      `input rows that are kept or done again together (default: ${ROWS_PER_CHUNK}; ${ROWS_PER_CHEAP_CHUNK} without a policy)`,
    )
    .option('--restart', 'drop what an earlier run has left at the output', false)
    .option('--time-limit <time>', 'end by itself after 90s, 55m or 11.5h, with exit 75, to be resumed')
    .option('--max-line-bytes <n>', 'longest input line', String(MAX_LINE_BYTES))
    .option('--quiet', 'errors only', false)
    .option('--log-json', 'log records as JSON lines on stderr', false);
}

/** The flags that say where the fields of a trace are. */
function mapped(command: Command): Command {
  return command
    .option(
      '--preset <name>',
      'what the rows are: auto|none|<name> (docs/presets.md); auto tells by the first row',
      'auto',
    )
    .option(
      '--map <field=path,…>',
      'where the fields of a trace are in a row: prompt=question,completion=generations[].text',
    )
    .option('--join <file>', 'a data set that has the prompts or the answers which the rows lack')
    .option(
      '--join-on <field=field>',
      'a field of the rows and one of the joined file that are equal in both',
    );
}

function mappingOptions(flags: MappingFlags) {
  return {
    map: flags.map,
    preset: flags.preset,
    join: flags.join,
    joinOn: flags.joinOn,
    maxLineBytes: positiveInteger('--max-line-bytes', flags.maxLineBytes),
  };
}

function jobOptions(flags: JobFlags) {
  return {
    ...mappingOptions(flags),
    device: parseDevice(flags.device),
    output: flags.output,
    format: flags.format === undefined ? undefined : oneOf('--format', flags.format, FORMATS),
    columns: parseColumns(flags.columns),
    limit: flags.limit === undefined ? undefined : positiveInteger('--limit', flags.limit),
    maxRejects: resolveMaxRejects(flags.maxRejects),
    segments: resolveSegmentOptions(flags),
    chatTemplateArgs: parseTemplateArgs(flags.chatTemplateArg),
    shard: flags.shard === undefined ? undefined : parseShard(flags.shard),
    restart: flags.restart,
  };
}

function rowsPerChunkOf({ rowsPerChunk }: JobFlags, byDefault: number): number {
  return rowsPerChunk === undefined ? byDefault : positiveInteger('--rows-per-chunk', rowsPerChunk);
}

/** One clear line on stderr, what mends it on the next, and the exit code. */
function report(caught: unknown): ExitCode {
  // a failure of the file system that nobody has named yet is the machine's, no bug
  const { path, syscall } = (caught ?? {}) as NodeJS.ErrnoException;
  const error =
    path === undefined ? caught : fileError(caught, path, syscall === 'open' ? 'read' : 'written');
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
  if (error instanceof RredcotError) {
    const hint = error.hint === undefined ? '' : `\n  try: ${escapeControls(error.hint)}`;
    process.stderr.write(`rredcot: ${escapeControls(error.message)}${hint}\n`);
    return error.exitCode;
  }
  process.stderr.write(
    `rredcot: this is a bug, please report it\n${escapeLines((error as Error)?.stack ?? String(error))}\n`,
  );
  return EXIT.bug;
}
