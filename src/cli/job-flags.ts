// The flags that several commands share: how they are declared, and what their values stand for.
import type { Command } from 'commander';
import { CORES_VARIABLE } from '../cores.js';
import { END_TOKEN } from '../estimate/finished.js';
import { given, oneOf, parseNames, positiveInteger } from '../flag-values.js';
import { MAX_LINE_BYTES } from '../io/read/jsonl.js';
import { FORMATS } from '../io/write/output.js';
import { parseShard } from '../io/write/target.js';
import { parseDevice } from '../model/onnx/device.js';
import { parseTemplateArgs } from '../model/text/chat-template.js';
import type { Log } from '../report/log.js';
import { resolveMaxRejects } from '../report/reject-limits.js';
import { type LogFlags, logOf, repeated } from './declare.js';
import { resolveSegmentOptions, type SegmentFlags, segmented } from './segment-flags.js';

/** `--chat-template-arg`, for every command that renders prompts; may be given several times. */
export const CHAT_TEMPLATE_ARG: [string, string, typeof repeated] = [
  '--chat-template-arg <name=value>',
  "variable of the policy's chat template, for prompts that are messages: enable_thinking=false",
  repeated,
];

/** Flags that say how rows become traces. */
export interface MappingFlags {
  readonly map?: string;
  readonly preset: string;
  readonly join?: string;
  readonly joinOn?: string;
  readonly maxLineBytes?: string;
}

/** Flags of every command that makes a run, as commander hands them on. */
export interface RunFlags extends MappingFlags, LogFlags {
  readonly output?: string;
  readonly format?: string;
  readonly columns?: string;
  readonly drop?: string;
  readonly joinColumns?: string;
  readonly device: string;
  readonly limit?: string;
  readonly maxRejects?: string;
  readonly shard?: string;
  readonly rowsPerPart?: string;
  readonly overwrite: boolean;
  readonly timeLimit?: string;
  readonly chatTemplateArg?: readonly string[];
}

/** Flags of `score` and `segment`. */
export interface JobFlags extends RunFlags, SegmentFlags {
  readonly endToken: string;
}

/** The flags that `score` and `segment` share. */
export function job(command: Command, defaultOutput: string, argv: readonly string[]): Command {
  return run(command, defaultOutput, (same) => segmented(same, argv))
    .optionsGroup('Rows to traces:')
    .option(
      '--end-token <how>',
      "auto|add|none: whether completions of text get the policy's end token back: those that were finished, all, or none",
      END_TOKEN[0],
    );
}

/** The flags that `score`, `segment` and `sample` share. @param more of the command's own, in their midst */
export function run(
  command: Command,
  defaultOutput: string,
  more: (command: Command) => Command = (same) => same,
): Command {
  const things = command.name() === 'sample' ? 'prompts' : 'traces';
  const output = mapped(command)
    .optionsGroup('Output:')
    .argument(
      '[inputs...]',
      'JSONL, JSON, Arrow or Parquet files (.gz, .zst), folders, quoted patterns, s3:// or hf:// addresses; none or - is stdin',
    )
    .option(
      '-o, --output <file|folder>',
      `.parquet, .arrow or .jsonl; a folder (out/) for shards; - is stdout, as an Arrow stream unless --format says jsonl (default: ${defaultOutput.includes(' ') ? defaultOutput : `./<input>.${defaultOutput}`})`,
    )
    .option(
      '--format <name>',
      `${FORMATS.join('|')} (default: by the output's name; arrow for -o -, parquet for a folder)`,
    )
    .option('--columns <a,b>', "which of our columns are written beside the input's (default: all)", appended)
    .option('--drop <a,b>', 'columns of the input that are not written', appended);
  return more(output)
    .optionsGroup('Rows to traces:')
    .option(...CHAT_TEMPLATE_ARG)
    .option(
      '--join-columns <a,b>',
      "columns of the joined file that are written beside the row's own",
      appended,
    )
    .optionsGroup('The machine:')
    .option(
      '--device <name>',
      'auto|cpu|cuda|cuda:<n>: what the policy runs on (rredcot doctor shows what there is)',
      'auto',
    )
    .option('--threads <n>', "cores that the policy may use (default: the machine's, or RREDCOT_THREADS)")
    .optionsGroup('The run:')
    .option('--limit <n>', `take the first n ${things}, rejected ones counted (default: all)`)
    .option(
      '--max-rejects <n|p%>',
      `rejected ${things} beyond which the run fails, with exit 65 (default: no limit)`,
    )
    .option('--shard <i/n>', 'make every n-th part of a folder, from the i-th (default: the whole)')
    .option(
      '--rows-per-part <n>',
      'input rows that are kept or done again together (default: 64 to 512 by the number of rows, fewer long ones; without a policy up to 16384)',
    )
    .option(...OVERWRITE_FLAG)
    .option(
      '--time-limit <time>',
      'end by itself after 90s, 55m or 11.5h, with exit 75, to be resumed (default: none)',
    )
    .option(...MAX_LINE_BYTES_FLAG)
    .option('--quiet', 'errors only', false)
    .option('--log-json', 'every line on stderr as a JSON record', false)
    .hook('preAction', (_, action) => applyThreads(action));
}

/** The log of a command that makes a run: its records say which shard. */
export function jobLog(flags: LogFlags & Pick<RunFlags, 'shard'>): Promise<Log> {
  return logOf(flags, flags.shard);
}

/** `--threads` as what this process goes by. */
function applyThreads(command: Command): void {
  const { threads } = command.opts<{ threads?: string }>();
  if (threads !== undefined) process.env[CORES_VARIABLE] = `${positiveInteger('--threads', threads, 2)}`;
}

/** `--overwrite`, for every command that writes rows. */
export const OVERWRITE_FLAG: [string, string, boolean] = [
  '--overwrite',
  'put the output in the place of another one, and drop what a run has left there',
  false,
];

/** `--max-line-bytes`, for every command that reads rows. */
export const MAX_LINE_BYTES_FLAG: [string, string] = [
  '--max-line-bytes <n>',
  `longest input line, in bytes (default: ${MAX_LINE_BYTES}, 256 MiB)`,
];

export function maxLineBytesOf({ maxLineBytes: text }: { readonly maxLineBytes?: string }): number {
  return positiveInteger('--max-line-bytes', text ?? `${MAX_LINE_BYTES}`, MAX_LINE_BYTES);
}

/** A list that may be given in several flags. */
export function appended(value: string, before: string | undefined): string {
  return before === undefined ? value : `${before},${value}`;
}

/** The flags that say where the fields of a trace are. */
export function mapped(command: Command): Command {
  return command
    .optionsGroup('Rows to traces:')
    .option(
      '--preset <name>',
      'what the rows are: auto|none|<name> (docs/presets.md); auto tells by the first row',
      'auto',
    )
    .option(
      '--map <field=path,…>',
      'where the fields of a trace are in a row: prompt=question,completion=generations[].text; several flags add up (default: as the preset says)',
      appended,
    )
    .option('--join <file>', 'a data set that has the prompts or the answers which the rows lack')
    .option(
      '--join-on <field=field>',
      'a field of the rows and one of the joined file that are equal in both (default: the prompts)',
    );
}

export function mappingOptions(flags: MappingFlags) {
  return {
    map: flags.map,
    preset: flags.preset,
    join: flags.join,
    joinOn: flags.joinOn,
    maxLineBytes: maxLineBytesOf(flags),
  };
}

export function jobOptions(flags: JobFlags) {
  const endToken = oneOf('--end-token', flags.endToken, END_TOKEN);
  return { ...runOptions(flags), segments: resolveSegmentOptions(flags), endToken };
}

export function runOptions(flags: RunFlags) {
  return {
    ...mappingOptions(flags),
    device: parseDevice(flags.device),
    output: flags.output,
    format: given(flags.format, (text) => oneOf('--format', text, FORMATS)),
    columns: given(flags.columns, (text) => parseNames('--columns', text)),
    drop: given(flags.drop, (text) => parseNames('--drop', text)),
    joinColumns: given(flags.joinColumns, (text) => parseNames('--join-columns', text)),
    limit: given(flags.limit, (text) => positiveInteger('--limit', text, 100)),
    maxRejects: resolveMaxRejects(flags.maxRejects),
    chatTemplateArgs: parseTemplateArgs(flags.chatTemplateArg),
    shard: given(flags.shard, parseShard),
    rowsPerPart: given(flags.rowsPerPart, (text) => positiveInteger('--rows-per-part', text, 512)),
    overwrite: flags.overwrite,
  };
}
