// The flags that several commands share: how they are declared, and what their values stand for.
import { existsSync, readFileSync, statSync } from 'node:fs';
import type { Command } from 'commander';
import { usageError } from '../errors.js';
import { END_TOKEN } from '../estimate/finished.js';
import { given, oneOf, otherFlag, parseNames, positiveInteger } from '../flag-values.js';
import { fileError } from '../io/files/files.js';
import type { Shard } from '../io/files/run-folder.js';
import { MAX_LINE_BYTES } from '../io/read/jsonl.js';
import { FORMATS } from '../io/write/output.js';
import { parseDevice } from '../model/onnx/device.js';
import { parseTemplateArgs } from '../model/text/chat-template.js';
import { resolveMaxRejects } from '../report/reject-limits.js';
import {
  declarationOf,
  IN_ALL,
  SEGMENTERS,
  type Segmenter,
  type SegmentOptions,
} from '../segment/segmenters.js';
import { THOUGHT_TAGS, type ThoughtTags } from '../segment/span.js';
import { CORES_VARIABLE } from '../thread.js';
import { type LogFlags, repeated } from './declare.js';

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

/** Flags of `score` and `segment`, as commander hands them on. */
export interface JobFlags extends MappingFlags, SegmentFlags, WrittenFlags, LogFlags {
  readonly joinColumns?: string;
  readonly device: string;
  readonly limit?: string;
  readonly maxRejects?: string;
  readonly rowsPerPart?: string;
  readonly partition?: string;
  readonly timeLimit?: string;
  readonly chatTemplateArg?: readonly string[];
  readonly endToken: string;
}

/**
 * The flags that `score` and `segment` share.
 * @param argv of which help shows those of the segmenter that it names
 */
export function run(command: Command, defaultOutput: string, argv: readonly string[]): Command {
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
    .option('--drop <a,b>', 'columns of the input that are not written', appended)
    .option(
      '--partition <column>',
      "deals a folder's rows out to folders, step=12/, by a column of the input",
    );
  return segmented(output, argv)
    .optionsGroup('Rows to traces:')
    .option(
      '--end-token <how>',
      "auto|add|none: which completions of text get the policy's end token back: those that were finished, all, none",
      END_TOKEN[0],
    )
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
    .option('--limit <n>', 'take the first n traces, rejected ones counted (default: all)')
    .option(
      '--max-rejects <n|p%>',
      'rejected traces beyond which the run fails, with exit 65 (default: no limit)',
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
    .hook('preAction', (_, action) => {
      // this process goes by it
      const { threads } = action.opts<{ threads?: string }>();
      if (threads !== undefined) process.env[CORES_VARIABLE] = `${positiveInteger('--threads', threads, 2)}`;
    });
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

export function parseMaxLineBytes(text: string): number {
  return positiveInteger('--max-line-bytes', text, MAX_LINE_BYTES);
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

export function mappingOptions({ map, preset, join, joinOn, maxLineBytes }: MappingFlags) {
  return { map, preset, join, joinOn, maxLineBytes: given(maxLineBytes, parseMaxLineBytes) };
}

/** Flags of the commands that make rows. */
export interface WrittenFlags {
  readonly output?: string | undefined;
  readonly format?: string | undefined;
  readonly columns?: string | undefined;
  readonly drop?: string | undefined;
  readonly overwrite: boolean;
}

export function writtenOptions({ output, format, columns, drop, overwrite }: WrittenFlags) {
  return {
    ...{ output, overwrite },
    format: given(format, (text) => oneOf('--format', text, FORMATS)),
    columns: given(columns, (text) => parseNames('--columns', text)),
    drop: given(drop, (text) => parseNames('--drop', text)),
  };
}

export function jobOptions(flags: JobFlags) {
  return {
    ...mappingOptions(flags),
    device: parseDevice(flags.device),
    ...writtenOptions(flags),
    joinColumns: given(flags.joinColumns, (text) => parseNames('--join-columns', text)),
    partition: flags.partition,
    limit: given(flags.limit, (text) => positiveInteger('--limit', text, 100)),
    maxRejects: given(flags.maxRejects, resolveMaxRejects),
    chatTemplateArgs: parseTemplateArgs(flags.chatTemplateArg),
    shard: given(flags.shard, parseShard),
    rowsPerPart: given(flags.rowsPerPart, (text) => positiveInteger('--rows-per-part', text, 512)),
    endToken: oneOf('--end-token', flags.endToken, END_TOKEN),
    segments: resolveSegmentOptions(flags),
  };
}

// ------ where a thought is cut: the segmenters' flags, every one checked and of use to the segmenter

/** Raw flag values of the segmentation, as commander hands them on; those of single segmenters by their names. */
export interface SegmentFlags {
  readonly segmenter: string;
  readonly maxSegments?: string;
  readonly thoughtTags?: string;
  readonly keywords?: string;
  readonly [flag: string]: unknown;
}

/** The flags that say where a thought is cut; help shows those of the segmenter that the command line names. */
function segmented(command: Command, argv: readonly string[]): Command {
  const named = SEGMENTERS.find((name) => argv.includes(name) || argv.includes(`--segmenter=${name}`));
  const shown = new Set(named === undefined ? [] : declarationOf(named).flags?.map(([flag]) => flag));
  const words = SEGMENTERS.map((name) => `${name}: ${declarationOf(name).words}`);
  const own = SEGMENTERS.flatMap((name) => declarationOf(name).flags ?? []);
  const merged = SEGMENTERS.flatMap((name) => {
    const { maxSegments } = declarationOf(name);
    return maxSegments === undefined ? [] : [`${maxSegments} for ${name}`];
  });
  command
    .optionsGroup('Segments:')
    .option(
      '--segmenter <name>',
      `where a thought is cut: ${SEGMENTERS.join('|')} (${words.join('; ')})`,
      SEGMENTERS[0],
    )
    .option(
      '--max-segments <n>',
      `thought segments a trace at most (default: ${merged.join(', ')}, as many as there are for the others)`,
    )
    .option(
      '--thought-tags <open,close>',
      'what the policy thinks between, where it is not one of the known pairs (default: <think>, <reasoning>, <thinking>, <thought> or <|begin_of_thought|>, as the trace has it)',
    );
  for (const [flag, text] of new Map(own))
    command.addOption(command.createOption(flag, text).hideHelp(!shown.has(flag)));
  return command;
}

/** @throws RredcotError (exit 2) for a value that is none, and for a flag that the segmenter does not look at */
export function resolveSegmentOptions(flags: SegmentFlags): SegmentOptions {
  const segmenter = oneOf('--segmenter', flags.segmenter, SEGMENTERS);
  const values = flags as Readonly<Record<string, string | undefined>>;
  refuseIdle(values, segmenter);
  const { options, maxSegments: most } = declarationOf(segmenter);
  const asked = given(flags.maxSegments, (text) => positiveInteger('--max-segments', text, 40));
  // others are cut down only where the user says so
  const maxSegments = asked ?? most;
  return {
    segmenter,
    ...IN_ALL,
    ...(flags.thoughtTags === undefined ? {} : { thoughtTags: resolveTags(flags.thoughtTags) }),
    ...(maxSegments === undefined ? {} : { maxSegments }),
    ...(flags.keywords === undefined ? {} : { keywords: resolveKeywords(flags.keywords) }),
    ...options?.(values),
  };
}

/** @throws RredcotError (exit 2) for a segmenter that cuts by the policy's figures */
export function refuseWithoutPolicy({ segmenter }: SegmentOptions): void {
  if (declarationOf(segmenter).cuts !== undefined)
    throw usageError(
      `--segmenter ${segmenter} cuts by what a policy says of the tokens, and there is none`,
      'leave out --no-policy',
    );
}

/** @throws RredcotError (exit 2) for a flag of other segmenters alone */
function refuseIdle(values: Readonly<Record<string, unknown>>, segmenter: Segmenter): void {
  const of = (name: Segmenter) => declarationOf(name).flags ?? [];
  const idle = otherFlag(of(segmenter), SEGMENTERS.flatMap(of), values);
  if (idle === undefined) return;
  const [name] = idle[0].split(' ');
  const readers = SEGMENTERS.filter((each) => of(each).some(([flag]) => flag === idle[0]));
  throw usageError(
    `${name} has no meaning here`,
    `add --segmenter ${readers.join('|')}, or leave out ${name}`,
  );
}

/** Reads `--shard i/n`. @throws RredcotError (exit 2) */
function parseShard(text: string): Shard {
  const [, index, count] = /^(\d{1,5})\/(\d{1,5})$/.exec(text) ?? [];
  const shard = { index: Number(index), count: Number(count) };
  if (index === undefined || shard.count < 1 || shard.index >= shard.count)
    throw usageError(`--shard ${text}: expected i/n with 0 ≤ i < n ≤ 99999`, '--shard 0/8');
  return shard;
}

function resolveTags(text: string): ThoughtTags {
  const [open = '', close = '', ...more] = text.split(',').map((tag) => tag.trim());
  if (open !== '' && close !== '' && open !== close && more.length === 0)
    return THOUGHT_TAGS.find((known) => known[0] === open && known[1] === close) ?? [open, close];
  throw usageError(
    `--thought-tags ${text}: expected an opening tag, a comma, and another one that closes`,
    '--thought-tags "<scratchpad>,</scratchpad>"',
  );
}

const EXAMPLE = '--keywords Wait,But,Let me, or --keywords words.txt with a word a line';

/** The words of a list, or of a file where there is one of that name, a word a line. */
function resolveKeywords(text: string): readonly string[] {
  const isThere = existsSync(text);
  // a pipe without a writer would hold the program up, and no clock would be heard
  if (isThere && !statSync(text).isFile())
    throw usageError(`--keywords ${text}: is no regular file, expected one with a word a line`, EXAMPLE);
  const found = isThere ? readWords(text) : text.split(',');
  const words = [...new Set(found.map((word) => word.trim()).filter((word) => word !== ''))];
  if (words.length === 0) throw usageError(`--keywords ${text}: holds no word`, EXAMPLE);
  // as a list they stand in the configuration, and in the command that `summary` prints
  const odd = words.find((word) => word.includes(','));
  if (odd !== undefined) throw usageError(`--keywords ${text}: "${odd}" has a comma in it`, EXAMPLE);
  return words;
}

function readWords(path: string): string[] {
  try {
    return readFileSync(path, 'utf8').split(/\r?\n/);
  } catch (error) {
    throw fileError(error, path, 'read');
  }
}
