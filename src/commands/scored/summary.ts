// `rredcot summary`: prints the numbers of a scored file for a terminal or a dashboard.
import { dataError, EXIT, type ExitCode } from '../../errors.js';
import { valueNameOf } from '../../estimate/nature.js';
import { HASH_KEY } from '../../io/files/seal.js';
import { RUN_KEY } from '../../io/write/output.js';
import { escapeControls, printableJson } from '../../printable.js';
import type { Log } from '../../report/log.js';
import { drawNumbers } from '../../report/numbers-view.js';
import { VERSION } from '../../version.js';
import { type Counted, countScored, policyOf, throughputOf } from './counted.js';
import { openScored, type Scored } from './open-scored.js';

export interface SummaryOptions {
  readonly json: boolean;
  /** the command that scores so once more */
  readonly commandOf: (config: Scored['config'], policy: Record<string, unknown>) => Promise<string>;
  readonly signal: AbortSignal;
}

/** @throws RredcotError: exit 2 for what `score` has not written; 65 for a file that was changed, or has no trace */
export async function summary(
  path: string,
  { json, commandOf, signal }: SummaryOptions,
  write: (text: string) => void,
  log: Log,
): Promise<ExitCode> {
  const source = await openScored(path, log);
  const counted = await countScored(source, { traces: 0, conditions: [], signal }, log);
  assertTraces(path, counted);
  const throughput = await throughputOf(path);
  const { estimator } = source.credit;
  const policy = policyOf(source.metadata);
  const command = await commandOf(source.config, policy);
  if (json) {
    const about = {
      ...{ format: 1, rredcot: VERSION, file: path },
      run: source.metadata.get(RUN_KEY) ?? null,
      sha256: source.metadata.get(HASH_KEY) ?? null,
      ...{ config: source.config, policy, command, throughput: throughput ?? null },
    };
    write(
      `${printableJson(JSON.stringify({ ...about, warnings: counted.warnings, ...counted.numbers }, null, 1))}\n`,
    );
  } else
    write(
      `${[...drawNumbers(counted.numbers, { path, throughput, valueName: valueNameOf(estimator), warnings: counted.warnings }), '', `so again: ${escapeControls(command)}`].join('\n')}\n`,
    );
  return EXIT.done;
}

/** @throws RredcotError (exit 65) where nothing was counted */
export function assertTraces(path: string, { numbers, firstBad }: Counted): void {
  if (numbers.traces > 0) return;
  const why =
    firstBad === undefined ? '' : `: ${firstBad.file}:${firstBad.row}: ${firstBad.rejection.reason}`;
  throw dataError(`${path}: no trace in it${why}`, 'rredcot verify tells what is wrong with it');
}
