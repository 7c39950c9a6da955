// What a segmenter is told: its flags declared, and their values made options, every one checked and of use to the segmenter.
import { existsSync, readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { finite, oneOf, positiveInteger } from '../../commands/job/flag-values.js';
import { usageError } from '../../errors.js';
import { fileError } from '../../io/files/file-error.js';
import {
  DEFAULT_CUTPOINT,
  DEFAULT_ENTROPY_SHARE,
  LATE_SEGMENTERS,
  SEGMENTERS,
  type Segmenter,
  type SegmentOptions,
} from '../../segment/segment.js';

/** METHOD §2: thought segments a trace is cut into. */
export const DEFAULT_MAX_SEGMENTS = 40;
/** tokens a segment of `--segmenter fixed` */
export const DEFAULT_FIXED_LENGTH = 64;

/** Raw flag values of the segmentation, as commander hands them on. */
export interface SegmentFlags {
  readonly segmenter: string;
  readonly maxSegments?: string;
  readonly fixedLength?: string;
  readonly keywords?: string;
  readonly entropyShare?: string;
  readonly entropyThreshold?: string;
  readonly cutpointProbability?: string;
  readonly cutpointEvery?: string;
  readonly adaptiveLimit?: string;
}

/** The segmenters that a flag is for. */
const MEANT_FOR: Readonly<Partial<Record<keyof SegmentFlags, readonly Segmenter[]>>> = {
  fixedLength: ['fixed'],
  keywords: ['hybrid', 'keyword', 'adaptive'],
  entropyShare: ['entropy'],
  entropyThreshold: ['entropy'],
  cutpointProbability: ['cutpoint'],
  cutpointEvery: ['cutpoint'],
  adaptiveLimit: ['adaptive'],
};

/** The flags that say where a thought is cut. */
export function segmented(command: Command): Command {
  return command
    .option(
      '--segmenter <name>',
      'where a thought is cut: hybrid (lines, sentences that open with a keyword), newline, sentence, keyword, fixed, entropy (before uncertain tokens), cutpoint (before every 5th unlikely one), adaptive (hybrid, merged to a limit), given (by the row)',
      'hybrid',
    )
    .option(
      '--max-segments <n>',
      `thought segments a trace at most (default: ${DEFAULT_MAX_SEGMENTS} for hybrid, as many as there are for the others)`,
    )
    .option(
      '--keywords <a,b|file>',
      'words that open a step at the start of a line or sentence, for hybrid, keyword and adaptive; a file has one a line (default: Wait, But, So, …: docs/method.md)',
    )
    .option('--fixed-length <n>', `tokens a segment of --segmenter fixed (default: ${DEFAULT_FIXED_LENGTH})`)
    .option(
      '--entropy-share <f>',
      `of --segmenter entropy: the share of tokens, those of most entropy, before which is cut (default: ${DEFAULT_ENTROPY_SHARE})`,
    )
    .option(
      '--entropy-threshold <nats>',
      'in its place: cut before every token of at least so much entropy (default: none, --entropy-share says where)',
    )
    .option(
      '--cutpoint-probability <p>',
      `of --segmenter cutpoint: a token less likely than this is a cutpoint (default: ${DEFAULT_CUTPOINT.probability})`,
    )
    .option('--cutpoint-every <m>', `cut before every m-th cutpoint (default: ${DEFAULT_CUTPOINT.every})`)
    .option(
      '--adaptive-limit <nats>',
      'of --segmenter adaptive: neighbours are merged while their entropies sum to at most so much; with --no-policy characters (default: none, adaptive needs one)',
    );
}

/** @throws RredcotError (exit 2) for a value that is none, and for a flag that the segmenter does not look at */
export function resolveSegmentOptions(flags: SegmentFlags): SegmentOptions {
  const segmenter = oneOf('--segmenter', flags.segmenter, SEGMENTERS);
  refuseIdle(flags, segmenter);
  const asked =
    flags.maxSegments === undefined
      ? undefined
      : positiveInteger('--max-segments', flags.maxSegments, DEFAULT_MAX_SEGMENTS);
  // only hybrid is defined by its merge to a number; the others are cut down only where the user says so
  const maxSegments = asked ?? (segmenter === 'hybrid' ? DEFAULT_MAX_SEGMENTS : undefined);
  const keywords = flags.keywords === undefined ? undefined : resolveKeywords(flags.keywords);
  return {
    segmenter,
    fixedLength: positiveInteger(
      '--fixed-length',
      flags.fixedLength ?? String(DEFAULT_FIXED_LENGTH),
      DEFAULT_FIXED_LENGTH,
    ),
    ...(maxSegments === undefined ? {} : { maxSegments }),
    ...(keywords === undefined ? {} : { keywords }),
    ...(segmenter === 'entropy' ? resolveEntropy(flags) : {}),
    ...(segmenter === 'cutpoint' ? resolveCutpoint(flags) : {}),
    ...(segmenter === 'adaptive' ? { adaptiveLimit: resolveLimit(flags.adaptiveLimit) } : {}),
  };
}

/**
 * A segmenter that cuts by the policy's figures would have a branch at every token in a single run, and without a policy no
 * figures. @throws RredcotError (exit 2)
 */
export function checkSegmenter(
  { segmenter }: SegmentOptions,
  { policy }: { readonly policy: string | null },
): void {
  if (!LATE_SEGMENTERS.includes(segmenter)) return;
  if (policy === null)
    throw usageError(
      `--segmenter ${segmenter} cuts by what a policy says of the tokens, and there is none`,
      'leave out --no-policy',
    );
}

function refuseIdle(flags: SegmentFlags, segmenter: Segmenter): void {
  for (const [key, segmenters] of Object.entries(MEANT_FOR)) {
    if (flags[key as keyof SegmentFlags] === undefined || segmenters.includes(segmenter)) continue;
    const name = `--${key.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    throw usageError(
      `${name} has no meaning here`,
      `add --segmenter ${segmenters.join('|')}, or leave out ${name}`,
    );
  }
}

function resolveEntropy({ entropyShare, entropyThreshold }: SegmentFlags): Partial<SegmentOptions> {
  if (entropyThreshold === undefined)
    return { entropyShare: share('--entropy-share', entropyShare ?? String(DEFAULT_ENTROPY_SHARE)) };
  if (entropyShare !== undefined)
    throw usageError('--entropy-share and --entropy-threshold both say where to cut', 'leave out one');
  return { entropyThreshold: atLeastZero('--entropy-threshold', entropyThreshold, '1.5') };
}

function resolveCutpoint(flags: SegmentFlags): Partial<SegmentOptions> {
  const { probability, every } = DEFAULT_CUTPOINT;
  return {
    cutpointProbability: share('--cutpoint-probability', flags.cutpointProbability ?? String(probability)),
    cutpointEvery: positiveInteger('--cutpoint-every', flags.cutpointEvery ?? String(every), every),
  };
}

function resolveLimit(text: string | undefined): number {
  if (text === undefined)
    throw usageError(
      '--segmenter adaptive: expected the sum of entropies up to which neighbours are merged',
      '--adaptive-limit <nats>, e.g. 4 (without a policy: characters, e.g. 200)',
    );
  return atLeastZero('--adaptive-limit', text, '4');
}

function share(flag: string, text: string): number {
  const expected = 'a number above 0, at most 1';
  const value = finite(flag, text, expected, '0.9');
  if (value > 0 && value <= 1) return value;
  throw usageError(`${flag} ${text}: expected ${expected}`, `${flag} 0.9`);
}

function atLeastZero(flag: string, text: string, example: string): number {
  const expected = 'a number of nats, at least 0';
  const value = finite(flag, text, expected, example);
  if (value >= 0) return value;
  throw usageError(`${flag} ${text}: expected ${expected}`, `${flag} ${example}`);
}

const EXAMPLE = '--keywords Wait,But,Let me, or --keywords words.txt with a word a line';

/** The words of a list, or of a file where there is one of that name, a word a line. */
function resolveKeywords(text: string): readonly string[] {
  const found = existsSync(text) ? readWords(text) : text.split(',');
  const words = [...new Set(found.map((word) => word.trim()).filter((word) => word !== ''))];
  if (words.length === 0) throw usageError(`--keywords ${text}: holds no word`, EXAMPLE);
  // as a list they stand in the configuration, from which --config takes them
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
