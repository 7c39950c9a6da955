// Fits a calibration to stored rows: whose values a file has, whether it has what is needed, and a trace as the fit takes it.
import { usageError } from '../errors.js';
import type { OutputColumn } from '../io/arrow/output-columns.js';
import type { Config } from '../io/write/output.js';
import { toFloat16 } from '../model/onnx/float16.js';
import type { OurColumn } from '../scored/columns.js';
import { type OutputRow, thoughtEnds, withoutShown } from '../scored.js';
import { ask } from './ask.js';
import { type CalibrationFile, calibrationFile, type FitAbout } from './calibration.js';
import { type Between, fitStates, type Known, type KnownTrace, MIDDLE } from './fit/fit.js';
import { groupPlace, KnownGroups } from './fit/groups.js';
import { pr, prGeo } from './one-pass.js';
import { STATES_COLUMN } from './probe.js';
import { storedNature } from './registry.js';
import { type Base, FEATURES_OF, type FitKind, type States, stateFeatures } from './states.js';
import { rowValues } from './value.js';

/** Columns without which nothing can be fitted. */
const NEEDED: readonly OurColumn[] = ['segments', 'logprobs', 'reward', 'id'];
const OF_REFERENCES = ['reference_logprobs', 'reference_tokens', 'reference_utilities'] as const;
/** Further ones, by whose values are calibrated. */
const NEEDED_OF: Readonly<Record<Base, readonly OurColumn[]>> = {
  pr: OF_REFERENCES,
  ask: [...OF_REFERENCES, 'entropies'],
  none: ['entropies'],
};

/** Columns that a fit of one kind needs beside these. */
export const furtherColumns = (isProbe: boolean): readonly OutputColumn[] => (isProbe ? [STATES_COLUMN] : []);

/** A stored row as a fit takes it, or why it does not; its peers are known when all are read. */
export function fitTraceOf(row: OutputRow, kind: FitKind): KnownTrace | string {
  const { reward, trace } = row;
  if (reward === null) return 'its reward is unknown';
  if (!(reward >= 0 && reward <= 1)) return `its reward is ${reward}, expected 0 to 1`;
  const known = storedKnown(row, kind, kind === 'probe');
  if (typeof known === 'string') return known;
  return { ...known, reward: Math.fround(reward), place: groupPlace(trace) };
}

/** What a stored row tells of its states, or why it does not. */
export function storedKnown(row: OutputRow, kind: FitKind, readsStates: boolean): Known | string {
  const unreferenced = kind === 'probe' && !row.referenceUtilities?.length;
  const base = kind !== 'probe' ? kind : unreferenced ? 'none' : 'pr';
  const known = storedStates(row, base, kind !== 'pr');
  if (typeof known === 'string') return known;
  const features = stateFeatures(known, kind);
  if (!readsStates) return { features };
  const numbers = row.requested?.[STATES_COLUMN.name];
  const exits = known.values.length;
  if (!(numbers instanceof Float32Array) || numbers.length === 0 || numbers.length % exits > 0)
    return `it has not as many numbers in ${STATES_COLUMN.name} at each of ${exits} exits`;
  return { features, states: toFloat16(numbers) };
}

/** Fits to stored traces. @throws RredcotError (exit 2) for hidden states of more than one policy */
export async function fitStored(
  pass: () => AsyncIterable<KnownTrace>,
  about: FitAbout,
  between: Between,
): Promise<CalibrationFile> {
  const { kind, policy } = about;
  if (kind !== 'probe') return calibrationFile(await fitStates(pass, kind, 0, between), about);
  if (policy === null)
    throw usageError(
      'hidden states of several policies, or of one that no file names, say nothing of each other',
      'rredcot calibrate --probe with files of one policy, in Parquet or Arrow: JSONL names none',
    );
  const groups = new KnownGroups();
  let D = 0;
  for await (const { place, reward, states, features } of pass()) {
    groups.add(place, reward);
    D = ((states?.length ?? 0) * FEATURES_OF.probe.length) / features.length;
  }
  async function* traces(): AsyncGenerator<KnownTrace> {
    for await (const trace of pass()) {
      const mean = groups.peersMean(trace.place, trace.reward, MIDDLE);
      yield { ...trace, peers: mean === undefined ? 0 : mean - MIDDLE };
    }
  }
  return calibrationFile(await fitStates(traces, kind, D, between), about);
}

/** Whose values are to be calibrated: of a file that says nothing of its estimator `pr`, where nothing was scored none. */
function baseOf(config: Config | undefined): Base | undefined {
  const nature = config && storedNature(config);
  if (nature === undefined) return 'pr';
  if (nature.scores === 'questions') return 'ask';
  if (nature.scores === 'nothing') return nature.isOfRow ? undefined : 'none';
  return nature.scores === 'answers' && !nature.isOfProver ? 'pr' : undefined;
}

/**
 * @returns whose values it has
 * @throws RredcotError (exit 2) for a file that has not what is needed, or v̂ of another kind
 */
export function baseOfFile(
  path: string,
  columns: readonly string[] | undefined,
  config: Config | undefined,
  further: readonly OutputColumn[],
): Base {
  const base = baseOf(config);
  const kept = further.map(({ name }) => name);
  const ours = [...NEEDED, ...NEEDED_OF[base ?? 'pr'], ...(kept.length > 0 ? ['entropies'] : [])];
  // without the groups that --columns has left out each trace would be fitted to its peers
  const needed = [...ours, ...(config?.columns === undefined ? [] : ['group']), ...kept];
  const missing = columns === undefined ? [] : needed.filter((name) => !columns.includes(name));
  if (missing.length > 0)
    throw usageError(
      `${path}: has no column ${missing.join(', ')}, expected a file of score`,
      missing.some((name) => kept.includes(name))
        ? 'score --estimator probe --keep-states, by a policy folder'
        : `score without --columns, or with --columns ${ours.join(',')},group`,
    );
  if (base === undefined)
    throw usageError(
      `${path}: was scored with --estimator ${config?.estimator}, expected one that scores answers at exit points, or asks there, or scores nothing`,
      'score with --estimator pr',
    );
  return base;
}

/**
 * The states of a stored row.
 * @param base what was scored there, if anything was
 * @param isUnsure whether entropies are read
 * @returns why the row has none, as half a sentence, where that is so
 */
function storedStates(scored: OutputRow, base: Base, isUnsure: boolean): States | string {
  const row = withoutShown(scored);
  const { logprobs, entropies, referenceLogprobs: exits } = row;
  const { referenceTokens: tokens, referenceUtilities: utilities } = row;
  if (row.segments.length === 0) return 'it has no segments';
  if (logprobs === null) return 'it has no logprobs';
  const ends = thoughtEnds(row);
  const isRising = ends.every((end, k) => end > (ends[k - 1] ?? 0));
  if (!isRising || (ends.at(-1) ?? 0) > logprobs.length)
    return `its segments end at ${ends.join(', ')}, with ${logprobs.length} tokens`;
  if (isUnsure && !entropies?.every(Number.isFinite)) return 'it has no finite entropies';
  if (!logprobs.every(Number.isFinite)) return NOT_FINITE;
  const read = { ends, logprobs, ...(isUnsure && entropies && { entropies }) };
  const none = new Float32Array(ends.length + 1);
  if (base === 'none') return { ...read, values: none, geoValues: none };
  if (utilities === null || exits === null) return 'it has no reference_logprobs';
  if (utilities.length === 0) return 'it has no reference';
  if (exits.length !== ends.length + 1)
    return `reference_logprobs has ${exits.length} exits, its segments ${ends.length + 1}`;
  // of another program's rows an exit may be anything
  if (!exits.every((exit) => exit?.length === utilities.length))
    return `reference_logprobs does not have ${utilities.length} entries at every exit`;
  if (tokens?.length !== utilities.length || !tokens.every((count) => count > 0))
    return `its reference_tokens are not ${utilities.length} counts`;
  const values = rowValues(exits, tokens, utilities, base === 'ask' ? ask : pr);
  if (!values.every(Number.isFinite)) return NOT_FINITE;
  return { ...read, values, geoValues: rowValues(exits, tokens, utilities, prGeo) };
}

const NOT_FINITE = 'its numbers are not finite';
