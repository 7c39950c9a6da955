// The flags and help of the commands that hold credits against each other, or against a benchmark's truth: `compare` and `bench`.
import type { Command } from 'commander';
import { usageError } from '../errors.js';
import { oneOf, positiveInteger } from '../flag-values.js';
import { type BenchColumn, MEANINGS } from '../scored/bench-set.js';
import {
  type CreditColumn,
  type LabelPath,
  type Meaning,
  parseNamedPath,
  UNIFORM,
} from '../scored/trace-credits.js';
import { type Done, type LogFlags, logged, logOf, repeated, write } from './declare.js';
import { MAX_LINE_BYTES_FLAG, maxLineBytesOf } from './job-flags.js';

interface CompareFlags extends LogFlags, Partial<Record<Meaning, readonly string[]>> {
  readonly steps?: string;
  readonly truth?: string;
  readonly label?: string;
  readonly reward?: string;
  readonly seed: string;
  readonly maxLineBytes?: string;
  readonly json: boolean;
  readonly csv: boolean;
  readonly report?: string;
}

/** Names that the files' own credits have, or that stand for all of them. */
const OWN_NAMES = [UNIFORM, 'delta', 'sigma', 'first_wrong'];

/** Forms of differences that follow from others. */
const BOUNDED = ['scaled', 'smoothed'] as const;

/** Adds the command; it reports its exit code, and throws what goes wrong. */
export function addCompareCommand(program: Command, done: Done): void {
  const command = program
    .command('compare')
    .argument(
      '<files...>',
      'scored or segmented files, or run folders; others hold the same traces as the first',
    )
    .summary('how credits go together: methods, given values, labels')
    .description(
      'Correlates the credits of thought segments: differences of values, σ, uniform σ, and columns that flags name; inside traces first, with intervals over groups. See docs/compare.md.',
    )
    .option(
      '--credit <name=path>',
      'a column with a number a thought segment; may be given several times; uniform: draw that, too',
      repeated,
    )
    .option(
      '--values <name=path>',
      'values before and after each segment (K+1), or before each (K); compared are the changes',
      repeated,
    )
    .option(
      '--scores <name=path>',
      "a score after each segment, a process reward model's; compared are the changes",
      repeated,
    )
    .option('--steps <how,…>', 'also differences of values in these forms: scaled, smoothed (docs/method.md)')
    .option('--truth <name>', 'the credit that the others are held against (default: each against each)')
    .option(
      '--label <first_wrong=path>',
      'number of the first wrong segment, or a list of the wrong ones, from 0; first_wrong_from_1=path: from 1; null or -1 where none is wrong',
    )
    .option('--reward <path>', 'the reward, where the rows have no column reward (default: reward)')
    .option('--seed <n>', 'seed of the intervals: 1,000 resamples of the groups', '0')
    .option('--json', 'all figures as one JSON object', false)
    .option('--csv', 'all figures, one a line', false)
    .option(
      '--report <file>',
      'also a page with curves and scatter plots: one HTML file that needs nothing else',
    )
    .option(...MAX_LINE_BYTES_FLAG);
  logged(command)
    .addHelpText('after', '\nExample:\n  rredcot compare scored.parquet\n')
    .action(async (files: string[], flags: CompareFlags) => {
      const opts = resolved(flags);
      const { compare } = await import('../commands/compare.js');
      done(await compare(files, opts, write, await logOf(flags)));
    });
}

type BenchFlags = {
  readonly [flag in 'half' | 'name' | 'madeBy' | 'seed' | 'output' | BenchColumn['meaning']]?: string;
};

/** Adds the command; it reports its exit code, and throws what goes wrong. */
export function addBenchCommand(program: Command, done: Done): void {
  const command = program
    .command('bench')
    .argument('<set>', 'embedded, puzzles, bifurcation, reach, or a file of another set')
    .argument(
      '[credits]',
      'credits of its traces, by id, in any form that is read; without them the traces are printed',
    )
    .summary("hold credits against a benchmark's truth")
    .description(
      'Prints how near credits are to the true changes of value of a set, with intervals over its groups, beside what follows from length, outcome, surprise, entropy and chance, and writes the row. A file has, a row a trace, id and credit (a number a segment), values (of all exits) or tokens (a number a token), or was scored with --segmenter given.',
    )
    .option('--credit <path>', 'a number a thought segment; of a scored file also sigma or sigma_<rule>')
    .option('--values <path>', 'values before the thought and after each segment (K+1)')
    .option('--tokens <path>', 'a number a token of the completion, summed over each segment')
    .option('--half <name>', 'choose|judge|all; look at judge once', 'choose')
    .option('--name <name>', "of the row (default: the file's estimator, or its name)")
    .option('--made-by <text>', 'how the credits were made; the row keeps it')
    .option('--seed <n>', 'seed of the intervals and of the shuffled credit', '0')
    .option('-o, --output <file>', 'the row', 'row.json')
    .addHelpText('after', '\nExample:\n  rredcot bench embedded credits.parquet -o row.json\n');
  command.action(async (set: string, credits: string | undefined, flags: BenchFlags) => {
    const columns = MEANINGS.filter((meaning) => flags[meaning] !== undefined);
    const [meaning] = columns;
    if (columns.length > 1)
      throw usageError(`--${columns.join(' and --')}: a row has one credit`, 'leave out one');
    const { half = 'choose', name, madeBy, seed = '0', output = 'row.json' } = flags;
    const path = meaning && parseNamedPath(`--${meaning}`, `path=${flags[meaning]}`).path;
    const opts = {
      ...{ name, madeBy, output, half: oneOf('--half', half, ['choose', 'judge', 'all'] as const) },
      column: meaning && path && { name: meaning, meaning, path },
      seed: positiveInteger('--seed', seed, 0, 0),
    };
    const { bench } = await import('../commands/bench.js');
    done(await bench(set, credits, opts, write));
  });
}

function resolved(flags: CompareFlags) {
  if (flags.json && flags.csv)
    throw usageError('--json and --csv are two forms of one output', 'leave out one');
  const columns = (['credit', 'values', 'scores'] as const).flatMap((meaning) =>
    (flags[meaning] ?? [])
      .filter((text) => !(meaning === 'credit' && text === UNIFORM))
      .map((text): CreditColumn => ({ meaning, ...parseNamedPath(`--${meaning}`, text) })),
  );
  for (const [n, { name, meaning }] of columns.entries())
    if (OWN_NAMES.includes(name) || columns.findIndex((other) => other.name === name) !== n)
      throw usageError(`--${meaning} ${name}: the name is taken`, `--${meaning} another=path`);
  return {
    columns,
    drawsUniform: flags.credit?.includes(UNIFORM) === true || flags.truth === UNIFORM,
    steps: (flags.steps?.split(',') ?? []).map((name) => oneOf('--steps', name.trim(), BOUNDED)),
    truth: flags.truth,
    firstWrong: flags.label === undefined ? undefined : labelPath(flags.label),
    reward: flags.reward === undefined ? undefined : parseNamedPath('--reward', `path=${flags.reward}`).path,
    seed: positiveInteger('--seed', flags.seed, 0, 0),
    maxLineBytes: maxLineBytesOf(flags),
    page: flags.report,
    form: flags.json ? ('json' as const) : flags.csv ? ('csv' as const) : ('table' as const),
  };
}

function labelPath(text: string): LabelPath {
  const { name, path } = parseNamedPath('--label', text);
  if (name === 'first_wrong') return { path, from: 0 };
  if (name === 'first_wrong_from_1') return { path, from: 1 };
  throw usageError(`--label ${text}: unknown kind of label`, '--label first_wrong=mistake_index');
}
