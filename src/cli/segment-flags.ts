// What a segmenter is told: its flags declared, and their values made options, every one checked and of use to the segmenter.
import { existsSync, readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { usageError } from '../errors.js';
import { given, oneOf, otherFlag, positiveInteger } from '../flag-values.js';
import { fileError } from '../io/files/files.js';
import {
  declarationOf,
  IN_ALL,
  SEGMENTERS,
  type Segmenter,
  type SegmentOptions,
} from '../segment/segmenters.js';
import { THOUGHT_TAGS, type ThoughtTags } from '../segment/span.js';

/** Raw flag values of the segmentation, as commander hands them on; those of single segmenters by their names. */
export interface SegmentFlags {
  readonly segmenter: string;
  readonly maxSegments?: string;
  readonly thoughtTags?: string;
  readonly keywords?: string;
  readonly [flag: string]: unknown;
}

/** The flags that say where a thought is cut; help shows those of the segmenter that the command line names. */
export function segmented(command: Command, argv: readonly string[]): Command {
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
  const found = existsSync(text) ? readWords(text) : text.split(',');
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
