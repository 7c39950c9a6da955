// Reads a scored file once from end to end, counts its numbers, and keeps the traces that are worth a page.
import { TraceRejected, throwIfInterrupted } from '../../errors.js';
import { hasLevel } from '../../estimate/nature.js';
import { creditColumn } from '../../estimate/requested.js';
import { readJson } from '../../io/files/json-file.js';
import { summaryPath } from '../../io/files/run-paths.js';
import { HASH_KEY } from '../../io/files/seal.js';
import { POLICY_KEY, RUN_KEY, VERSION_KEY, VOCAB_KEY } from '../../io/write/output.js';
import { partText } from '../../io/write/part.js';
import { plural } from '../../plural.js';
import { TraceChoice } from '../../report/counted/choice.js';
import { RunCounts, type RunNumbers } from '../../report/counted/run-counts.js';
import { extremes, turnsOf } from '../../report/counted/turns.js';
import { type RunWarning, warningsOf } from '../../report/counted/warnings.js';
import type { Log } from '../../report/log.js';
import { type BadRow, isBad, rejectRow } from '../../rows.js';
import { isFallback } from '../../scored.js';
import type { Scored } from './open-scored.js';
import { storedTrace } from './scored-rows.js';
import type { Condition } from './where.js';

/** What the run says that scored the file; undefined where it does not. */
export type Throughput =
  | { readonly seconds: number; readonly traces: number; readonly tokens: number }
  | undefined;

export interface Counted {
  readonly numbers: RunNumbers;
  readonly warnings: readonly RunWarning[];
  /** traces worth a page, by number of their row */
  readonly choice: TraceChoice;
  /** the first row that is not as `score` writes one */
  readonly firstBad: BadRow | undefined;
}

export interface CountOptions {
  /** traces to choose */
  readonly traces: number;
  /** of those that fit all of these */
  readonly conditions: readonly Condition[];
  readonly signal: AbortSignal;
}

/** Reads all rows once; what it holds does not grow with them. */
export async function countScored(
  source: Scored,
  { traces, conditions, signal }: CountOptions,
  log: Log,
): Promise<Counted> {
  const { estimator } = source.credit;
  const counts = new RunCounts(hasLevel(estimator));
  const choice = new TraceChoice(traces);
  const magnitude = estimator.isMagnitude === true;
  let firstBad: BadRow | undefined;
  let read = 0;
  for await (const row of source.read({})) {
    throwIfInterrupted(signal);
    if (++read % ROWS_TOLD === 0) log.progress(`reading: ${plural(read, 'row')}`, { read });
    const bad = isBad(row) ? row : take(row);
    if (bad === undefined) continue;
    counts.reject(bad);
    firstBad ??= bad;
  }
  const { numbers } = counts;
  const { part } = source;
  const ofPart = part && {
    code: 'part' as const,
    text: `the file ${partText(part)}: its groups may lack traces`,
  };
  const warnings = [...(ofPart ? [ofPart] : []), ...warningsOf(numbers, vocabOf(source), source.config.rule)];
  return { numbers, warnings, choice, firstBad };

  function take(row: Exclude<Parameters<typeof storedTrace>[0], BadRow>): BadRow | undefined {
    try {
      const trace = storedTrace(row, source);
      const { values } = trace.creditable;
      counts.add({ row: trace.row, values, place: row.row });
      if (!conditions.every(({ holds }) => holds(trace))) return undefined;
      const { status, reward } = trace.row;
      choice.add({
        ...{ id: trace.row.trace.id, ordinal: row.ordinal, reward },
        hasCredit: !status.some(isFallback),
        ...extremes(turnsOf(trace.row, magnitude)),
      });
      return undefined;
    } catch (error) {
      if (!(error instanceof TraceRejected)) throw error;
      return rejectRow(row, error);
    }
  }
}

const ROWS_TOLD = 1000;

/** Tokens of the vocabulary of the policy that scored a file; undefined where it does not say. */
export function vocabOf({ metadata }: Pick<Scored, 'metadata'>): number | undefined {
  const vocab = Number(metadata.get(VOCAB_KEY));
  return vocab > 1 ? vocab : undefined;
}

/** How a file was made, by name: what identifies it, its configuration, and the hashes of its policy. */
export function factsOf(path: string, { metadata, config, credit }: Scored): [name: string, text: string][] {
  const named: [string, string | undefined][] = [
    ['file', path],
    ['version', metadata.get(VERSION_KEY)],
    ['run', metadata.get(RUN_KEY)],
    ['sha256', metadata.get(HASH_KEY)],
  ];
  for (const [name, value] of Object.entries(config))
    named.push([name, typeof value === 'string' ? value : JSON.stringify(value)]);
  if ((credit.others ?? []).length > 0)
    named.push(['columns of further credits', (credit.others ?? []).map(creditColumn).join(', ')]);
  for (const [name, hash] of Object.entries(policyOf(metadata)))
    named.push([`policy: ${name}`, String(hash)]);
  return named.flatMap(([name, text]) => (text === undefined ? [] : [[name, text] as [string, string]]));
}

/** Hashes of the policy's files; empty where the file has none. */
export function policyOf(metadata: ReadonlyMap<string, string>): Record<string, unknown> {
  return JSON.parse(metadata.get(POLICY_KEY) ?? '{}') as Record<string, unknown>;
}

/** From the summary beside the file, where it is that of a run of the policy. */
export async function throughputOf(path: string): Promise<Throughput> {
  const {
    seconds,
    traces,
    tokens,
    tokens_per_s: rate,
  } = (await readJson<Record<string, unknown>>(summaryPath(path))) ?? {};
  if (typeof seconds !== 'number' || typeof traces !== 'number' || typeof tokens !== 'number')
    return undefined;
  return typeof rate === 'number' ? { seconds, traces, tokens } : undefined;
}
