// `rredcot redistribute`: gives the traces of a scored file another credit, computed from what is stored.

import { ruleOf, SIGMA_RULES } from '../credit/rules.js';
import { dataError, EXIT, type ExitCode, TraceRejected, usageError } from '../errors.js';
import {
  calibrationDoubt,
  calibrated as fitted,
  readCalibration,
  scoredWith,
} from '../estimate/calibrated.js';
import type { Calibration } from '../estimate/calibration.js';
import { type CreditOptions, creditConfig } from '../estimate/credit.js';
import {
  ANY_RANGE,
  type CreditFlags,
  flagsOf,
  OF_RULES,
  resolveCreditOptions,
  resolveEstimator,
} from '../estimate/credit-flags.js';
import type { FlagValues } from '../estimate/estimator.js';
import { isMartingale, type Nature, valueNameOf } from '../estimate/nature.js';
import { pr } from '../estimate/one-pass.js';
import { ESTIMATORS, estimatorNamed } from '../estimate/registry.js';
import { methodNotice, normaliserColumn, OF_OTHERS, requestedColumns } from '../estimate/requested.js';
import { type ColumnChoice, isWritten } from '../io/arrow/output-columns.js';
import { type OutputFormat, POLICY_KEY } from '../io/write/output.js';
import { partText, wholeText } from '../io/write/part.js';
import { plural } from '../plural.js';
import type { Log } from '../report/log.js';
import { type BadRow, isBad } from '../rows.js';
import { resolveTarget, stemOf } from '../run/target.js';
import { writeScored } from '../run/write-scored.js';
import { again } from '../scored/again.js';
import { columnName, type OurColumn, type WrittenColumn } from '../scored/columns.js';
import { refuseUnknown, renamedText, resolveColumnNames } from '../scored/layout.js';
import { openScored, originOf, type ScoredFiles, setAside, storedTrace } from '../scored/open-scored.js';
import { REDISTRIBUTED_KEY, rejectsOf } from '../scored/origins.js';
import { lightOf, ofWholeGroups, refuseImpossible, surveyScored } from '../scored/survey-scored.js';
import type { OutputRow } from '../scored.js';

export interface RedistributeOptions {
  /** those that were given; the file's own stand for the others */
  readonly flags: CreditFlags;
  /** a file of `rredcot calibrate`, by which the values are made again */
  readonly calibration?: string | undefined;
  readonly output: string | undefined;
  readonly format: OutputFormat | undefined;
  /** ours that are written; undefined: those that the file has */
  readonly columns: readonly OurColumn[] | undefined;
  /** columns of the input that are written */
  readonly choice: ColumnChoice;
  readonly overwrite: boolean;
  readonly signal: AbortSignal;
}

/**
 * Makes a scored file's credit again by other rules.
 * @throws RredcotError: exit 2 for what the stored values do not allow, naming the reason; 65 for a file that was changed
 */
export async function redistribute(path: string, opts: RedistributeOptions, log: Log): Promise<ExitCode> {
  const { signal, choice, overwrite } = opts;
  const source = await openScored(path, log);
  const calibration = await calibrationOf(path, source, opts, log);
  const flags = mergedFlags(source.credit, opts.flags);
  const credit = resolveCreditOptions(flags, natureOf(source, opts.flags, flags, calibration));
  refuseImpossible(path, source, credit, calibration);
  const notice = methodNotice(credit);
  if (notice !== undefined) log.info(notice);
  const output = opts.output ?? `${stemOf(source.inputs)}.redistributed.parquet`;
  const target = await resolveTarget(output, opts.format, source.inputs);
  if (target.kind === 'folder')
    throw usageError(`${target.path}: redistribute writes one file`, '-o <file>.parquet, .arrow or .jsonl');
  const isOther = isOtherEstimator(source.config, opts.flags);
  const beside = [...requestedColumns(credit), ...(isOther ? [] : source.valued)];
  const ourColumns: WrittenColumn[] = [...chosen(path, source, opts.columns), ...beside];
  await checkPart(path, source, credit, log);
  const totals = await surveyScored(source, credit, target.format !== 'jsonl', signal);
  const isInputs = (name: string) => !source.made.has(name);
  refuseUnknown(choice, source.columns.filter(isInputs));
  const ofInput = (source.typed ?? totals.columns).filter(
    ({ name }) => isInputs(name) && isWritten(choice, name),
  );
  const unmapped = { mapped: new Map(), defaults: new Map() };
  const passThrough = resolveColumnNames(ofInput, ourColumns, unmapped, false);
  for (const column of passThrough)
    if (column.as !== column.name) log.warn('column_renamed', renamedText(column));

  async function* rows(): AsyncGenerator<OutputRow | BadRow> {
    let n = 0;
    for await (const row of source.read({})) {
      if (isBad(row)) {
        yield row;
        continue;
      }
      const light = lightOf(row, source.credit, credit);
      const stored = isBad(light) ? light : storedTrace(row, source);
      if (isBad(stored)) yield stored;
      else
        try {
          yield again(stored, n++, source, credit, totals, isOther, calibration);
        } catch (error) {
          if (!(error instanceof TraceRejected)) throw error;
          yield setAside(row, error);
        }
    }
  }
  // stdout is what score would have printed
  const origin = { [REDISTRIBUTED_KEY]: JSON.stringify(originOf(source)) };
  const texts = [...ourColumns.map(columnName), ...passThrough.map(({ as }) => as)];
  await writeScored(rows(), {
    ...{ command: 'redistribute', inputs: source.inputs },
    ...{ target, ourColumns, passThrough, choice, overwrite, signal, log },
    names: new Set(texts),
    metadata: source.metadata,
    config: mergedConfig(source.config, credit, opts, calibration),
    made: { ...source.origins, ...(target.path === '-' ? {} : origin) },
    valueName: valueNameOf(credit.estimator),
  });
  return EXIT.done;
}

/** @throws RredcotError (exit 2) for a column that the file has not */
function chosen(
  path: string,
  { ours }: ScoredFiles,
  columns: readonly OurColumn[] | undefined,
): readonly OurColumn[] {
  const absent = columns?.find((name) => !ours.includes(name));
  if (absent !== undefined)
    throw usageError(
      `--columns ${absent}: ${path} has no such column`,
      `--columns with some of ${ours.join(',')}`,
    );
  return columns ?? ours;
}

/**
 * The flags that the file was made with, those that are given in their place. A rule that is given begins anew: what shaped the
 * credit of another one is given beside it, or is not.
 */
function mergedFlags(stored: CreditOptions, given: CreditFlags): CreditFlags {
  const { rule, others = [], rewardRange, normalisers = [], estimator } = stored;
  const method = given.method ?? stored.method;
  const rules = given.sigma?.split(',').map((name) => name.trim()) ?? [rule, ...others];
  const readsValues = SIGMA_RULES.some((name) => rules.includes(name) && ruleOf(name).ofSegments);
  const named: readonly string[] = given.normalisers?.split(',') ?? normalisers;
  const other = given.estimator === undefined ? estimator : estimatorNamed(given.estimator);
  const readsSteps = other !== undefined && isMartingale(other) && (readsValues || method === 'segment');
  const idle = [
    ...(given.sigma === undefined ? [] : OF_RULES),
    ...(readsSteps ? [] : ['steps']),
    ...(method === 'hierarchical' ? [] : ['alpha', 'beta']),
    ...(named.includes('batch_tokens') ? [] : ['batchSize']),
    ...(named.includes('dr_grpo') ? [] : ['maxCompletionLength']),
  ];
  const own = Object.entries(flagsOf(creditConfig(stored))).filter(([key]) => !idle.includes(key));
  return {
    estimator: estimator.name,
    ...Object.fromEntries(own),
    ...((given.estimator ?? estimator.name) === estimator.name && ownFlags(estimator.config, given)),
    ...given,
    ...(given.rewardRange === ANY_RANGE && { rewardRange: rewardRange.join(',') }),
  };
}

/** How values were made, as flags. Another reading of the prover's begins anew: the best of K has no meaning for all. */
function ownFlags(config: Nature['config'] = {}, given: CreditFlags): FlagValues {
  if (Object.keys(config).some((key) => given[key] !== undefined && key !== 'bestOf')) return {};
  return Object.fromEntries(Object.entries(config).map(([key, value]) => [key, String(value)]));
}

/** Whether another estimator is asked for. */
function isOtherEstimator({ estimator }: Readonly<Record<string, unknown>>, flags: CreditFlags): boolean {
  return flags.estimator !== undefined && flags.estimator !== estimator;
}

/** Keys of a run's configuration, in their order, that stand before those of the credit. */
const FIRST_KEYS = [
  ...['command', 'map', 'preset', 'joinColumns', 'join', 'limit', 'columns', 'keep', 'drop', 'text'],
  ...['bank', 'chatTemplateArgs'],
];

/** The calibration that is asked for; undefined where values stay as they are. @throws RredcotError (exit 2) where it has no use */
async function calibrationOf(
  path: string,
  { config, metadata }: ScoredFiles,
  { flags, calibration }: RedistributeOptions,
  log: Log,
): Promise<Calibration | undefined> {
  const asked = flags.estimator ?? config.estimator;
  if (asked === 'calibrated' && calibration === undefined && config.estimator !== 'calibrated')
    throw usageError(
      `--estimator calibrated: ${path} has the values of ${config.estimator}, and no calibration`,
      'rredcot calibrate scored.parquet -o calibration.json, then --calibration calibration.json',
    );
  if (calibration === undefined) return undefined;
  if (asked !== 'calibrated')
    throw usageError(
      `--calibration has no meaning with --estimator ${asked} here`,
      asked === 'siblings' ? 'its values are kept as they are: leave it out' : 'add --estimator calibrated',
    );
  const found = await readCalibration(calibration);
  const { estimator: base } = found.model;
  if (base !== 'pr')
    throw usageError(
      `--calibration ${calibration}: is of ${base === 'ask' ? 'the values of ask' : 'no values'}, and here those of references are exchanged`,
      'rredcot score --estimator calibrated with it',
    );
  const policy = metadata.get(POLICY_KEY);
  const own = { policy: policy === undefined ? null : JSON.parse(policy), scored_with: scoredWith(config) };
  const doubt = calibrationDoubt(found, own);
  if (doubt !== undefined) log.warn('calibration', doubt);
  return found;
}

/** What values are: those of a calibration, of the flags, or, where none of these is given, as the file has them. */
function natureOf(
  { credit: { estimator } }: ScoredFiles,
  given: CreditFlags,
  merged: CreditFlags,
  calibration: Calibration | undefined,
): Nature {
  if (calibration !== undefined) return calibration.standsBack ? pr : fitted;
  const others = ['estimator', ...Object.keys(estimator.config ?? {})];
  return others.some((flag) => given[flag] !== undefined) ? resolveEstimator(merged) : estimator;
}

/** The configuration with which `score` would have made the same file. */
function mergedConfig(
  stored: Readonly<Record<string, unknown>>,
  credit: CreditOptions,
  { columns, choice, flags }: RedistributeOptions,
  calibration: Calibration | undefined,
): Record<string, unknown> {
  const isOther = isOtherEstimator(stored, flags);
  // the weights of `calibrated` go with it; where they stand back it is still its name
  const estimator = isOther ? credit.estimator.name : stored.estimator;
  const made = {
    ...creditConfig(credit),
    estimator: calibration === undefined ? estimator : ('calibrated' as const),
  };
  // what is said of mates and the like goes with the estimator that had them
  const of = ESTIMATORS.flatMap((each) => each.configKeys ?? []);
  const unmated = Object.entries(stored).filter(([key]) => !of.includes(key));
  // no bank is read where nothing is scored
  const bank = isOther && credit.estimator.scores === 'nothing' ? { bank: 'row' } : {};
  const kept =
    isOther || calibration !== undefined
      ? { ...Object.fromEntries(unmated), calibration: calibration?.model, ...bank }
      : stored;
  const all = { ...kept, ...choiceOf(stored, choice), ...(columns === undefined ? {} : { columns }) };
  const first = FIRST_KEYS.filter((key) => key in all).map((key) => [key, all[key as keyof typeof all]]);
  // what is told of a prover or a method goes with it; K of 1 is not told
  const known = [
    ...FIRST_KEYS,
    ...['proverEstimator', 'bestOf', 'alpha', 'beta', 'returnEquivalent'],
    ...(credit.estimator.isOfProver ? [] : ['prover']),
  ];
  const others = Object.entries(all).filter(([key]) => !known.includes(key) && !(key in made));
  const entries = [...first, ...Object.entries(made), ...others];
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
}

/** `--keep` and `--drop` of both calls as those of one. */
function choiceOf({ keep, drop }: Readonly<Record<string, unknown>>, asked: ColumnChoice): ColumnChoice {
  if (asked.keep !== undefined) return { keep: asked.keep, drop: undefined };
  if (asked.drop === undefined) return {};
  const before = (list: unknown) => (Array.isArray(list) ? (list as string[]) : []);
  if (keep !== undefined) return { keep: before(keep).filter((name) => !asked.drop?.includes(name)) };
  return { drop: [...before(drop), ...asked.drop] };
}

/**
 * A part has not all traces of its groups, so what is left of their rewards has another mean and deviation, of their tokens another sum.
 * @throws RredcotError (exit 65) where a mean or a deviation would follow from it
 */
async function checkPart(path: string, source: ScoredFiles, credit: CreditOptions, log: Log): Promise<void> {
  const { part } = source;
  const figure = ofWholeGroups(source, credit);
  const ofTokens = credit.normalisers?.filter((each) => OF_OTHERS.includes(each)) ?? [];
  const rejects =
    part === undefined && (figure !== undefined || ofTokens.length > 0) ? await rejectsOf(source.inputs) : 0;
  if (rejects > 0) {
    const figures = [
      ...(figure === undefined ? [] : [`the ${figure} of a group's rewards`]),
      ...ofTokens.map(normaliserColumn),
    ];
    log.warn(
      'part',
      `${path}: its run has rejected ${plural(rejects, 'trace')}: ${figures.join(' and ')} is that of those that are left; rredcot score with these flags counts them all`,
    );
  }
  if (part === undefined) return;
  if (figure !== undefined)
    throw dataError(
      `${path}: ${partText(part)}, so that the ${figure} of its groups' rewards is not known`,
      `rredcot redistribute ${wholeText(part)}, with these flags`,
    );
  for (const name of ofTokens)
    log.warn(
      'part',
      `${path}: ${partText(part)}: ${normaliserColumn(name)} is one over the tokens of those traces that are left`,
    );
}
