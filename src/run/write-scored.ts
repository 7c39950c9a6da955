// Writes rows that are made of stored ones to one file or to stdout, with the rejects and the summary beside it.
import { orAbort } from '../io/files/files.js';
import { WHOLE } from '../io/files/run-folder.js';
import type { Input } from '../io/read/inputs.js';
import {
  CONFIG_KEY,
  INPUTS_KEY,
  type OutputTarget,
  POLICY_KEY,
  RUN_KEY,
  TEXT_KEY,
  VERSION_KEY,
  VOCAB_KEY,
} from '../io/write/output.js';
import type { Target } from '../io/write/target.js';
import { VERSION } from '../package-files.js';
import type { Log } from '../report/log.js';
import { openStats } from '../report/run-stats.js';
import type { BadRow } from '../rows.js';
import type { OutputRow } from '../scored.js';
import { describeRun } from './identity.js';
import { beginRun, leaveRun, openSink, refuseColumns, writeRows } from './write-run.js';

/** What is written, and how. */
export interface ScoredOutput extends Omit<OutputTarget, 'path' | 'format' | 'metadata'> {
  readonly command: string;
  readonly target: Target;
  /** that the rows come from */
  readonly inputs: readonly Input[];
  /** of these */
  readonly metadata: ReadonlyMap<string, string>;
  readonly config: Readonly<Record<string, unknown>>;
  /** what it says of how it was made of another one, by key of its metadata */
  readonly made: Readonly<Record<string, string>>;
  /** columns of the output, of which texts may be among the dropped */
  readonly names: ReadonlySet<string>;
  /** what is told besides, of all that was done */
  readonly figures?: () => Readonly<Record<string, unknown>>;
  readonly valueName: string | undefined;
  /** what stands at its place is replaced */
  readonly overwrite: boolean;
  readonly signal: AbortSignal;
  readonly log: Log;
}

/** Keys of metadata begin so; the summary's do not. */
const OURS = 'rredcot.';

/**
 * Writes rows and rejects in their order, and tells what was done.
 * @returns false where the file that stands there is the one that was asked for: nothing is read or touched then
 * @throws RredcotError (exit 75) where it was interrupted: nothing is left then but rows that are whole, for the same command
 */
export async function writeScored(
  items: AsyncIterable<OutputRow | BadRow>,
  out: ScoredOutput,
): Promise<boolean> {
  const { command, target, config, made, inputs, overwrite, signal, log, figures, metadata: said } = out;
  const run = describeRun({
    ...{ rredcot: VERSION, command, config, made, passes: null },
    policy: JSON.parse(said.get(POLICY_KEY) ?? 'null'),
    ...{ inputs: inputs.map(({ print }) => print), output: target.format },
    ...{ rows_per_part: 1, parts: 1, part: null },
  });
  const begun = await beginRun(target, run, WHOLE, { overwrite, isStream: false, log });
  if (begun.made !== undefined) {
    log.info(`${target.path} is already done`);
    return false;
  }
  const provenance = Object.entries(made).map(([key, origin]) => [key.replace(OURS, ''), JSON.parse(origin)]);
  const stats = openStats({
    ...{ target, config, log, valueName: out.valueName, policy: undefined },
    ...{ isComputed: false, isNamed: true, usesGroups: false },
    expected: { traces: undefined, share: () => undefined },
    ...{ figures, beside: Object.fromEntries(provenance) },
  });
  const place = { target, run, begun, log, isAll: false };
  const write = async () => {
    await refuseColumns(target, run, out);
    const sink = await openSink({ ...out, ...place, metadata: metadataOf(out, run.run), stats });
    await writeRows(items, sink, stats, signal, place);
  };
  await orAbort(write(), (error) => leaveRun(begun, target, run, true, error));
  return true;
}

/** The output's account of itself: as a fresh run has it, and what it was made of. */
function metadataOf({ metadata, config, made, names, target }: ScoredOutput, run: string) {
  const kept = [POLICY_KEY, VOCAB_KEY, INPUTS_KEY].filter((key) => metadata.has(key));
  return {
    [VERSION_KEY]: VERSION,
    [CONFIG_KEY]: JSON.stringify(config),
    ...(target.path === '-' ? {} : { [RUN_KEY]: run }),
    ...Object.fromEntries(kept.map((key) => [key, metadata.get(key) as string])),
    ...made,
    ...textsOf(metadata.get(TEXT_KEY), names),
  };
}

/** Where the texts are, of those that are still there. */
function textsOf(text: string | undefined, names: ReadonlySet<string>): Record<string, string> {
  if (text === undefined) return {};
  const places = Object.entries(JSON.parse(text) as Record<string, string>);
  const left = places.filter(([, column]) => names.has(column));
  return left.length === 0 ? {} : { [TEXT_KEY]: JSON.stringify(Object.fromEntries(left)) };
}
