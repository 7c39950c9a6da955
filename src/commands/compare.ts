// `rredcot compare`: says how the credits of scored files go together, as a table, JSON or CSV.

import { type ComparedFigure, type CompareOptions, compareCredits } from '../compare/compare.js';
import { type CreditTable, NO_LABEL } from '../compare/credit-table.js';
import { boundedSteps } from '../credit/martingale.js';
import { dataError, EXIT, type ExitCode, RredcotError, usageError } from '../errors.js';
import { isMartingale, type Nature } from '../estimate/nature.js';
import { storedNature } from '../estimate/registry.js';
import { writeText } from '../io/files/json-file.js';
import { fileStem, type Input, readRows, resolveInputs } from '../io/read/inputs.js';
import { type Config, POLICY_KEY } from '../io/write/output.js';
import { type Part, partText } from '../io/write/part.js';
import { VERSION } from '../package-files.js';
import { count, plural } from '../plural.js';
import { escapeControls, printableJson } from '../printable.js';
import { comparisonCsv, type DrawnComparison, drawComparison } from '../report/compare-view.js';
import type { Log } from '../report/log.js';
import { comparePage } from '../report/page/compare-page.js';
import { duration } from '../report/progress.js';
import { listCodes } from '../report/run-figures.js';
import { assertPlace } from '../run/target.js';
import { CreditCollector, type Refusal } from '../scored/collect.js';
import { accountOf, assertWritten } from '../scored/open-scored.js';
import { partOf } from '../scored/origins.js';
import {
  type CreditRequest,
  DELTA,
  type FileCredits,
  isRead,
  SIGMA,
  UNIFORM,
} from '../scored/trace-credits.js';

export interface CompareCommandOptions extends CreditRequest, CompareOptions {
  /** forms of `--steps` in which the differences of values are compared, too */
  readonly steps: readonly BoundedSteps[];
  /** whether table and page have the pairs with uniform σ; JSON and CSV always have them */
  readonly drawsUniform: boolean;
  readonly form: 'table' | 'json' | 'csv';
  /** an HTML file that is written beside what is printed */
  readonly page: string | undefined;
  readonly maxLineBytes: number;
}

type BoundedSteps = Parameters<typeof boundedSteps>[3];

/** A file that is compared, as far as it says how it was made. */
export interface ComparedFile {
  readonly file: string;
  readonly traces: number;
  /** of them, those whose σ is uniform because it could not be made, by the status that says why */
  readonly fallbacks: Readonly<Record<string, number>>;
  readonly estimator: string | null;
  readonly sigma: string | null;
  readonly segmenter: string | null;
}

/** Everything that is told. */
export interface ComparisonReport extends DrawnComparison {
  readonly files: readonly ComparedFile[];
  readonly credits: readonly string[];
}

/**
 * Compares the credits of one file, or of several files with the same traces.
 * @throws RredcotError (exit 2) for a name that no credit has, (exit 65) where no trace is left, or a summary was edited
 */
export async function compare(
  paths: readonly string[],
  opts: CompareCommandOptions,
  write: (text: string) => void,
  log: Log,
): Promise<ExitCode> {
  if (opts.page !== undefined) await assertPlace(opts.page, paths);
  const refused = new Map<string, { count: number; first: string }>();
  const collector = new CreditCollector(opts, (refusal) => countRefusal(refused, refusal));
  const found: FileOrigin[] = [];
  const taken = new Set<string>();
  for (const path of paths) {
    const inputs = await resolveInputs([path]);
    const { metadata, config } = await accountOf(path, inputs);
    const facts = {
      ...factsOf(path, config ?? {}, metadata.get(POLICY_KEY)),
      edit: await editOf(inputs),
      part: (await partOf(inputs))?.part,
    };
    found.push(facts);
    const names = new Map<string, string>();
    const read = readRows(inputs, { maxLineBytes: opts.maxLineBytes, columns: isRead(opts) });
    const nameOf = (own: string): string => {
      const name = names.get(own) ?? freeName(creditName(own, facts), facts, taken);
      names.set(own, name);
      return name;
    };
    await collector.add(path, told(read, path, log), nameOf, {
      isMagnitude: facts.nature?.isMagnitude === true,
      ...bounded(opts.steps, facts),
    });
    for (const name of names.values()) taken.add(name);
  }
  for (const [n, { file }] of found.entries())
    if (n > 0 && collector.matched[n] === 0)
      throw dataError(`${file}: no trace of it can be compared${firstRefusal(refused, file)}`, CURE);
  const table = collector.done();
  checkNames(table, opts, refused);
  const started = performance.now();
  const figures = compareCredits(table, opts, (pairs, of) => {
    const left = ((performance.now() - started) / 1000) * (of / pairs - 1);
    log.progress(`comparing: ${count(pairs)} of ${plural(of, 'pair')} · ${duration(left)} left`, {
      pairs,
      of,
    });
  });
  const files = found.map(({ file, estimator, sigma, segmenter }, n) => ({
    ...{ file, estimator, sigma, segmenter },
    traces: collector.matched[n] as number,
    fallbacks: Object.fromEntries(collector.fallbacks[n] ?? []),
  }));
  // a σ that is uniform by fallback goes with `uniform`, and says nothing; of two such no more
  const isAlike = ({ value }: ComparedFigure) => value !== null && value > ALL_ONE;
  const withUniform = figures.filter((each) => each.of === UNIFORM && isAlike(each));
  const flat = new Set([UNIFORM, ...withUniform.map(({ credit }) => credit)]);
  const isNothing = (each: ComparedFigure) =>
    each.value === null || (isAlike(each) && flat.has(each.of) && flat.has(each.credit));
  if (figures.every(isNothing))
    throw dataError(
      `nothing can be compared: no credit differs within a trace (${files.map(({ file, traces, fallbacks }) => `${file}: ${plural(traces, 'trace')}${listCodes(Object.entries(fallbacks))}`).join('; ')})`,
      'rredcot summary <file> says what its statuses mean, and what mends them',
    );
  const report: ComparisonReport = {
    files,
    ...sizesOf(table),
    credits: table.credits.map(({ name }) => name),
    truth: opts.truth ?? null,
    refused: Object.fromEntries(Array.from(refused).sort(([a], [b]) => (a < b ? -1 : 1))),
    notes: notesOf(found, files),
    figures,
  };
  const drawn = opts.drawsUniform ? report : withoutUniform(report);
  if (opts.page !== undefined) {
    await writeText(opts.page, comparePage({ report: drawn, table, text: drawComparison(drawn) }));
    log.text(`written to ${escapeControls(opts.page)}`);
  }
  if (opts.form === 'csv') write(comparisonCsv(report));
  else if (opts.form === 'json')
    write(`${printableJson(JSON.stringify({ format: 1, rredcot: VERSION, ...report }, null, 1))}\n`);
  else write(drawComparison(drawn));
  return EXIT.done;
}

/** Uniform σ goes with little and stands in most pairs: left out of what is drawn, where anything else is. */
function withoutUniform(report: ComparisonReport): ComparisonReport {
  const figures = report.figures.filter(({ of, credit }) => of !== UNIFORM && credit !== UNIFORM);
  return figures.length === 0 ? report : { ...report, figures };
}

/** @returns the file and what befell it; undefined where its bytes are those that were written, or nobody knows these */
async function editOf(inputs: readonly Input[]) {
  try {
    await assertWritten(inputs);
  } catch (error) {
    if (error instanceof RredcotError && error.exitCode === EXIT.data) return error.message;
    throw error;
  }
  return undefined;
}

/** The rows as they come, counted. */
async function* told<T>(rows: AsyncIterable<T>, file: string, log: Log): AsyncGenerator<T> {
  let read = 0;
  for await (const row of rows) {
    if (++read % ROWS_TOLD === 0) log.progress(`reading ${file}: ${plural(read, 'row')}`, { file, read });
    yield row;
  }
}

const ROWS_TOLD = 1000;
/** A correlation of what is the same but for rounding. */
const ALL_ONE = 1 - 1e-6;
const CURE = 'score the same traces with the same --segmenter, or leave the file out';

/** Why the first of a file's rows was left out. */
function firstRefusal(refused: ReadonlyMap<string, { readonly first: string }>, file: string): string {
  const own = [...refused.values()].find(({ first }) => first.startsWith(file));
  return own === undefined ? '' : `, ${own.first}`;
}

type FileOrigin = Omit<ComparedFile, 'traces' | 'fallbacks'> & {
  readonly policy: string | undefined;
  /** in which form its differences are; undefined where they are free */
  readonly steps: string | undefined;
  /** what its values are; undefined where nobody knows */
  readonly nature: Nature | undefined;
  /** how it was cut */
  readonly options: string;
  /** what was changed since it was written, which may be what is asked about: columns that were added */
  readonly edit?: string | undefined;
  /** what has cut it out of a data set */
  readonly part?: Part | undefined;
};

function factsOf(file: string, config: Config, policy: string | undefined): FileOrigin {
  const text = (value: unknown) => (typeof value === 'string' ? value : null);
  const { segmenter, maxSegments, fixedLength, keywords, thoughtTags, rule, steps } = config;
  return {
    file,
    estimator: text(config.estimator),
    nature: storedNature(config),
    // of several rules the first one's is in the segments
    sigma: text(Array.isArray(rule) ? rule[0] : rule),
    segmenter: text(segmenter),
    policy,
    steps: text(steps) ?? undefined,
    options: JSON.stringify([segmenter, maxSegments, fixedLength, keywords, thoughtTags]),
  };
}

/** The same differences in other forms, where the file's values have them. */
function bounded(asked: readonly BoundedSteps[], { nature, steps: own }: FileOrigin): FileCredits {
  if (nature === undefined || !isMartingale(nature)) return {};
  return {
    further: (...of) =>
      asked
        .filter((steps) => steps !== own)
        .map((steps) => [`${DELTA}_${steps}`, boundedSteps(...of, steps).deltas] as const),
  };
}

/** The file's own credits are called after how they were made, where the file says so. */
function creditName(own: string, { estimator, sigma, steps }: FileOrigin): string {
  if (own === DELTA) return `${estimator ?? DELTA}${steps === undefined ? '' : `_${steps}`}`;
  if (own.startsWith(`${DELTA}_`)) return own.replace(DELTA, estimator ?? DELTA);
  return own === SIGMA && sigma !== null ? `sigma_${sigma}` : own;
}

/** A name that no other file has taken. */
function freeName(name: string, { file }: FileOrigin, taken: ReadonlySet<string>): string {
  const own = `${fileStem(file)}:${name}`;
  if (!taken.has(name)) return name;
  for (let n = 2; ; n++) {
    const free = n === 2 ? own : `${own}#${n}`;
    if (!taken.has(free)) return free;
  }
}

function countRefusal(refused: Map<string, { count: number; first: string }>, refusal: Refusal): void {
  const { code, file, row, reason } = refusal;
  const before = refused.get(code);
  const place = row < 0 ? file : `${file}:${row}`;
  refused.set(code, { count: (before?.count ?? 0) + 1, first: before?.first ?? `${place}: ${reason}` });
}

/** @throws RredcotError for what cannot be compared */
function checkNames(
  { credits, rewards, firstWrong }: CreditTable,
  { columns, truth, firstWrong: label }: CompareCommandOptions,
  refused: ReadonlyMap<string, { count: number; first: string }>,
): void {
  const why = Array.from(
    refused,
    ([code, { count, first }]) => `${plural(count, 'row')} ${code}, first ${first}`,
  );
  const names = credits.map(({ name }) => name);
  const inspect = 'rredcot inspect <file> shows the columns of a row';
  if (rewards.length === 0)
    throw dataError(
      `no trace to compare${why.length === 0 ? '' : `: ${why.join('; ')}`}`,
      refused.has('credit') && columns.length > 0 ? inspect : 'rredcot score traces.jsonl -o scored.parquet',
    );
  for (const { name, path, meaning } of columns)
    if (!names.includes(name))
      throw usageError(
        `--${meaning} ${name}=${path.text}: no row has it${why.length === 0 ? '' : ` (${why.join('; ')})`}`,
        inspect,
      );
  if (label !== undefined && firstWrong.every((wrong) => wrong === NO_LABEL))
    throw usageError(`--label first_wrong=${label.path.text}: no row has it`, inspect);
  if (truth !== undefined && !names.includes(truth))
    throw usageError(`--truth ${truth}: no credit has that name`, `--truth ${names.join('|')}`);
  if (names.length < 2)
    throw usageError(
      'there is one credit alone, uniform',
      '--credit, --values or --scores name=path, or a scored file',
    );
}

function sizesOf({ rewards, offsets }: CreditTable) {
  const wrong = rewards.filter((reward) => reward <= 0.5).length;
  const right = rewards.filter((reward) => reward > 0.5).length;
  return { traces: rewards.length, right, wrong, segments: offsets.at(-1) as number };
}

/** What of the files as a whole makes the comparison less than it seems. */
function notesOf(facts: readonly FileOrigin[], files: readonly ComparedFile[]): DrawnComparison['notes'] {
  const notes: { code: string; text: string }[] = [];
  const add = (code: string, text: string) => notes.push({ code, text });
  const [first, ...others] = facts;
  for (const other of others) {
    const both = `${other.file} and ${first?.file}`;
    if (first?.policy !== undefined && other.policy !== undefined && other.policy !== first.policy)
      add('other-policy', `${both} were scored by different policies`);
    if (first?.segmenter !== null && other.segmenter !== null && other.options !== first?.options)
      add('other-segmenter', `${both} were cut by different flags, though at the same places`);
  }
  for (const { edit } of facts)
    if (edit !== undefined) add('edited', `${edit}: what is said of how it was made may be untrue of it`);
  for (const { file, part } of facts)
    if (part !== undefined)
      add(
        'part',
        `${file} ${partText(part)}: its groups may lack traces, which have no say in a baseline (uniform) nor in an interval`,
      );
  for (const { file, fallbacks, traces } of files)
    for (const [code, n] of Object.entries(fallbacks)) {
      const what = code.endsWith('flat-values')
        ? 'differences of their values are noise'
        : 'their σ is uniform';
      add(code, `${file}: ${count(n)} of ${plural(traces, 'trace')}: ${what}`);
    }
  return notes;
}
