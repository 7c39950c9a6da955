// The segmenters: where each cuts a thought, by which flags, and what of a stored row cannot be its work. Nobody else has their names.
import { usageError } from '../errors.js';
import { attributeOf, type Flag, finite, positiveInteger } from '../flag-values.js';
import { sentenceCuts } from './sentences.js';
import type { ThoughtSpan, ThoughtTags, TokenText } from './span.js';
import {
  cutpointCuts,
  entropyCuts,
  keywordCuts,
  newlineCuts,
  splitAt,
  splitFixed,
  splitGiven,
  splitHybrid,
  type TokenFigures,
} from './split.js';

export interface SegmentOptions {
  readonly segmenter: Segmenter;
  /** what the policy thinks between, where the known pairs have it not */
  readonly thoughtTags?: ThoughtTags;
  /** merge down to so many thought segments; absent: as many as the segmenter makes */
  readonly maxSegments?: number;
  /** tokens a segment of `fixed` */
  readonly fixedLength: number;
  /** tokens beyond which `hybrid` and `adaptive` split a piece at sentence ends */
  readonly longPiece?: number;
  /** words that open a piece, for `hybrid`, `keyword` and `adaptive`; absent: METHOD's transition words */
  readonly keywords?: readonly string[];
  /** share of the thought's tokens before which `entropy` cuts */
  readonly entropyShare?: number;
  /** in its place: nats from which on a token is cut before */
  readonly entropyThreshold?: number;
  /** `cutpoint`: tokens of a lower probability are cutpoints, before every so many of which is cut */
  readonly cutpointProbability?: number;
  readonly cutpointEvery?: number;
  /** `adaptive`: neighbours are merged while the lowest sum of two is at most so much (nats; characters without a policy) */
  readonly adaptiveLimit?: number;
}

type Flags = Readonly<Record<string, string | undefined>>;
type Options = Omit<SegmentOptions, 'segmenter'>;

interface Declared {
  /** where it cuts, in the words of help */
  readonly words: string;
  readonly flags?: readonly Flag[];
  /** Checks them. @throws RredcotError (exit 2) */
  readonly options?: (flags: Flags) => Partial<SegmentOptions>;
  /** (P) piece ends; every one that may be, where that shows late. @param given of the row's columns */
  readonly ends: (tokens: TokenText, thought: ThoughtSpan, opts: Options, given?: Int32Array) => Int32Array;
  /** cuts by what the policy says of the tokens: where, shows when it has read the trace */
  readonly cuts?: (tokens: TokenText, thought: ThoughtSpan, figures: TokenFigures, opts: Options) => number[];
  /** of so many places for a cut, those that it takes, where its options tell */
  readonly likely?: (places: number, opts: Options) => number;
  /** what it merges down to where nobody says so */
  readonly maxSegments?: number;
  /** it cuts where the row says */
  readonly isOfRow?: true;
}

/** METHOD §2: thought segments a trace is cut into. */
const MOST_SEGMENTS = 40;
const LENGTH = 64;
/** What every configuration has, whoever reads it. */
export const IN_ALL: Pick<SegmentOptions, 'fixedLength'> = { fixedLength: LENGTH };
/** METHOD §2, but for the share, which is ours: a piece for twenty tokens. */
const SHARE = 0.05;
const CUTPOINT = { probability: 0.9, every: 5 };

const KEYWORDS: Flag = [
  '--keywords <a,b|file>',
  'words that open a step at the start of a line or sentence, for hybrid, keyword and adaptive; a file has one a line (default: Wait, But, So, …: docs/method.md)',
];

const everyToken = (_: TokenText, thought: ThoughtSpan): Int32Array => splitFixed(1, thought);

const hybrid: Declared = {
  words: 'lines, sentences that open with a keyword',
  maxSegments: MOST_SEGMENTS,
  flags: [KEYWORDS],
  ends: (tokens, thought, { longPiece, keywords }) => splitHybrid(tokens, thought, longPiece, keywords),
};

const newline: Declared = {
  words: 'lines',
  ends: (tokens, thought) => splitAt(newlineCuts(tokens), tokens, thought),
};

const sentence: Declared = {
  words: 'sentences',
  ends: (tokens, thought) => splitAt(sentenceCuts(tokens, thought), tokens, thought),
};

const keyword: Declared = {
  words: 'at keywords',
  flags: [KEYWORDS],
  ends: (tokens, thought, { keywords }) => splitAt(keywordCuts(tokens, keywords), tokens, thought),
};

const fixed: Declared = {
  words: 'every so many tokens',
  flags: [['--fixed-length <n>', `tokens a segment of --segmenter fixed (default: ${LENGTH})`]],
  options: ({ fixedLength = `${LENGTH}` }) => ({
    fixedLength: positiveInteger('--fixed-length', fixedLength, LENGTH),
  }),
  ends: (_, thought, { fixedLength }) => splitFixed(fixedLength, thought),
};

const entropy: Declared = {
  words: 'before uncertain tokens',
  flags: [
    [
      '--entropy-share <f>',
      `of --segmenter entropy: the share of tokens, those of most entropy, before which is cut (default: ${SHARE})`,
    ],
    [
      '--entropy-threshold <nats>',
      'in its place: cut before every token of at least so much entropy (default: none, --entropy-share says where)',
    ],
  ],
  options({ entropyShare, entropyThreshold }) {
    if (entropyThreshold === undefined)
      return { entropyShare: share('--entropy-share', entropyShare ?? String(SHARE)) };
    if (entropyShare !== undefined)
      throw usageError('--entropy-share and --entropy-threshold both say where to cut', 'leave out one');
    return { entropyThreshold: atLeastZero('--entropy-threshold', entropyThreshold, '1.5') };
  },
  ends: everyToken,
  cuts: (tokens, thought, figures, { entropyShare = SHARE, entropyThreshold: threshold }) =>
    entropyCuts(tokens, thought, figures, threshold === undefined ? { share: entropyShare } : { threshold }),
  likely: (places, { entropyShare = SHARE, entropyThreshold }) =>
    entropyThreshold === undefined ? 1 + Math.ceil(places * entropyShare) : places,
};

const cutpoint: Declared = {
  words: 'before every 5th unlikely one',
  flags: [
    [
      '--cutpoint-probability <p>',
      `of --segmenter cutpoint: a token less likely than this is a cutpoint (default: ${CUTPOINT.probability})`,
    ],
    ['--cutpoint-every <m>', `cut before every m-th cutpoint (default: ${CUTPOINT.every})`],
  ],
  options: ({
    cutpointProbability = String(CUTPOINT.probability),
    cutpointEvery = String(CUTPOINT.every),
  }) => ({
    cutpointProbability: share('--cutpoint-probability', cutpointProbability),
    cutpointEvery: positiveInteger('--cutpoint-every', cutpointEvery, CUTPOINT.every),
  }),
  ends: everyToken,
  cuts(tokens, thought, figures, opts) {
    const { cutpointProbability: probability = CUTPOINT.probability, cutpointEvery: every = CUTPOINT.every } =
      opts;
    return cutpointCuts(tokens, thought, figures, { probability, every });
  },
  likely: (places, { cutpointEvery = CUTPOINT.every }) => 1 + Math.ceil(places / cutpointEvery),
};

const adaptive: Declared = {
  ends: hybrid.ends,
  words: 'hybrid, merged to a limit',
  flags: [
    KEYWORDS,
    [
      '--adaptive-limit <nats>',
      'of --segmenter adaptive: neighbours are merged while their entropies sum to at most so much; with --no-policy characters (default: none, adaptive needs one)',
    ],
  ],
  options({ adaptiveLimit: limit }) {
    if (limit === undefined)
      throw usageError(
        '--segmenter adaptive: expected the sum of entropies up to which neighbours are merged',
        '--adaptive-limit <nats>, e.g. 4 (without a policy: characters, e.g. 200)',
      );
    return { adaptiveLimit: atLeastZero('--adaptive-limit', limit, '4') };
  },
};

const given: Declared = {
  words: 'by the row',
  isOfRow: true,
  ends: (tokens, thought, _, ends) => splitGiven(ends ?? new Int32Array(0), tokens, thought),
};

const TABLE = { hybrid, newline, sentence, keyword, fixed, entropy, cutpoint, adaptive, given } as const;
export type Segmenter = keyof typeof TABLE;
/** In the order in which help names them; the first is the default. */
export const SEGMENTERS = Object.keys(TABLE) as readonly Segmenter[];

/** Keys of a configuration that single segmenters have, but for the one that is in all of them. */
export const OWN_KEYS: readonly string[] = [
  ...new Set(SEGMENTERS.flatMap((name) => declarationOf(name).flags ?? []).map(attributeOf)),
].filter((key) => !(key in IN_ALL));

/** What a segmenter declares; undefined for a name that none has. */
export function segmenterNamed(name: unknown): Declared | undefined {
  return SEGMENTERS.some((known) => known === name) ? TABLE[name as Segmenter] : undefined;
}

/** The same of one that is known. */
export function declarationOf(name: Segmenter): Declared {
  return TABLE[name];
}

/** Whether a key of a configuration says nothing with a segmenter, since it is of others. */
export function isIdle(name: unknown, key: string): boolean {
  const reads = (each: Declared | undefined) =>
    each?.flags?.some((flag) => attributeOf(flag) === key) === true;
  return !reads(segmenterNamed(name)) && SEGMENTERS.some((each) => reads(TABLE[each]));
}

/** Sum of per-token values over each segment, accumulated in float64: values (T), ends (K) → (K). */
export function segmentSums(values: Float32Array, ends: Int32Array): Float64Array {
  const sums = new Float64Array(ends.length);
  let t = 0;
  for (let k = 0; k < ends.length; k++)
    for (; t < (ends[k] as number); t++) sums[k] = (sums[k] as number) + (values[t] as number);
  return sums;
}

function share(flag: string, text: string): number {
  return finite(flag, text, 'a number above 0, at most 1', '0.9', (x) => x > 0 && x <= 1);
}

function atLeastZero(flag: string, text: string, example: string): number {
  return finite(flag, text, 'a number of nats, at least 0', example, (x) => x >= 0);
}
