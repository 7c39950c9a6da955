// `rredcot redistribute`: gives the traces of a scored file another credit, computed from what is stored.

import { credited } from '../credit/credit.js';
import { valueNameOf } from '../credit/nature.js';
import { requestedColumns } from '../credit/requested.js';
import { dataError, EXIT, type ExitCode, TraceRejected, usageError } from '../errors.js';
import { type CreditFlags, STORED } from '../estimate/credit-flags.js';
import { hasSameValues, mergedConfig, newCredit, revalued } from '../estimate/stored-values.js';
import { TEACHER_COLUMNS } from '../estimate/teacher.js';
import { partText, wholeText } from '../io/write/facts.js';
import type { OutputFormat } from '../io/write/output.js';
import { resolveTarget, stemOf } from '../io/write/target.js';
import { plural } from '../plural.js';
import type { Log } from '../report/log.js';
import { isBad } from '../rows.js';
import { writeScored } from '../run/write-scored.js';
import { chosenColumns, declared } from '../scored/columns.js';
import { ofWholeGroups, sumGroups } from '../scored/group-sums.js';
import { refuseUnknown, renamedText, resolveColumnNames } from '../scored/layout.js';
import { openScored, originOf, rejected, type ScoredFiles, storedTrace } from '../scored/open-scored.js';
import { REDISTRIBUTED_KEY, rejectsOf } from '../scored/stored-run.js';

export interface RedistributeOptions {
  /** those that were given; the file's own stand for the others */
  readonly flags: CreditFlags;
  /** a file of `rredcot calibrate`, by which the values are made again */
  readonly calibration?: string | undefined;
  readonly output: string | undefined;
  readonly format: OutputFormat | undefined;
  /** ours that are written; undefined: those that the file has */
  readonly columns: readonly string[] | undefined;
  /** columns of the input that are not written */
  readonly drop: readonly string[] | undefined;
  readonly overwrite: boolean;
  readonly signal: AbortSignal;
}

/**
 * Makes a scored file's credit again by other rules.
 * @throws RredcotError: exit 2 for what the stored values do not allow, naming the reason; 65 for a file that was changed
 */
export async function redistribute(path: string, opts: RedistributeOptions, log: Log): Promise<ExitCode> {
  const { signal, drop = [], overwrite, columns } = opts;
  const source = await openScored(path, STORED, log);
  const { credit, calibration, readsPeers } = await newCredit(path, source, opts, log);
  const output = opts.output ?? `${stemOf(source.inputs)}.redistributed.parquet`;
  const target = await resolveTarget(output, opts.format, source.inputs);
  if (target.kind === 'folder')
    throw usageError(`${target.path}: redistribute writes one file`, '-o <file>.parquet, .arrow or .jsonl');

  // the file as a whole, and the columns
  await checkPart(path, source, ofWholeGroups(source, credit, readsPeers), log);
  const sums = await sumGroups(source, credit, { isTyped: target.format !== 'jsonl', readsPeers }, signal);
  const isOther = opts.flags.estimator !== undefined && opts.flags.estimator !== source.config.estimator;
  // what a teacher has said stays, whatever values are
  const valued = isOther ? source.valued.filter((each) => TEACHER_COLUMNS.includes(each)) : source.valued;
  const beside = [...requestedColumns(credit), ...valued];
  const ours = columns === undefined ? source.ours : chosenColumns(source.ours, columns, beside).columns;
  const ourColumns = declared([...ours, ...beside]);
  const isInputs = (name: string) => !source.made.has(name);
  refuseUnknown('--drop', drop, source.columns.filter(isInputs));
  const ofInput = (source.typed ?? sums.columns).filter(({ name }) => isInputs(name) && !drop.includes(name));
  const unmapped = { mapped: new Map(), defaults: new Map() };
  const passThrough = resolveColumnNames(ofInput, ourColumns, unmapped, false);
  for (const column of passThrough)
    if (column.as !== column.name) log.warn('column_renamed', renamedText(column));

  // read, values where they are others, credit
  const isKept = hasSameValues(source.credit, credit) && calibration === undefined;
  async function* rows() {
    for await (const row of source.read({})) {
      const stored = isBad(row) ? row : storedTrace(row, source);
      if (isBad(row) || isBad(stored)) {
        yield stored;
        continue;
      }
      try {
        const means = sums.meansOf(stored);
        const valued = isKept ? stored : revalued(stored, means, credit.estimator, isOther, calibration);
        yield credited(valued, means, credit);
      } catch (error) {
        if (!(error instanceof TraceRejected)) throw error;
        yield rejected(row, error);
      }
    }
  }
  // stdout is what score would have printed
  const origin = { [REDISTRIBUTED_KEY]: JSON.stringify(originOf(source)) };
  await writeScored(rows(), {
    ...{ command: 'redistribute', inputs: source.inputs },
    ...{ target, ourColumns, passThrough, drop, overwrite, signal, log },
    names: new Set([...ourColumns.map(({ name }) => name), ...passThrough.map(({ as }) => as)]),
    metadata: source.account,
    config: mergedConfig(source.config, credit, { columns, drop: opts.drop, isOther, calibration }),
    made: { ...source.provenance, ...(target.path === '-' ? {} : origin) },
    valueName: valueNameOf(credit.estimator),
  });
  return EXIT.done;
}

/**
 * A part has not all traces of its groups, so what is left of their rewards has another mean and deviation.
 * @throws RredcotError (exit 65) where one of these would follow from it
 */
async function checkPart(path: string, source: ScoredFiles, figure: string | undefined, log: Log) {
  const { part } = source;
  if (figure === undefined) return;
  if (part !== undefined)
    throw dataError(
      `${path}: ${partText(part)}, so that the ${figure} of its groups' rewards is not known`,
      `rredcot redistribute ${wholeText(part)}, with these flags`,
    );
  const rejects = await rejectsOf(source.inputs);
  if (rejects > 0)
    log.warn(
      'part',
      `${path}: its run has rejected ${plural(rejects, 'trace')}: the ${figure} of a group's rewards is that of those that are left; rredcot score with these flags counts them all`,
    );
}
