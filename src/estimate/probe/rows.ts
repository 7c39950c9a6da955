// Rows that a probe is fitted to: those that have kept their hidden states.
import { usageError } from '../../errors.js';
import { toFloat16 } from '../../model/onnx/float16.js';
import type { OutputRow } from '../../scored.js';
import type { FitAbout } from '../calibration.js';
import { type FitKind, fitTraceOf } from '../calibration-rows.js';
import type { Pass } from '../fit/cross-fit.js';
import { KnownGroups } from '../fit/groups.js';
import { FEATURES_OF } from '../states.js';
import { type ProbeFile, probeFile } from './file.js';
import { fitProbe, MIDDLE, type ProbeTrace } from './fit.js';
import { STATES_COLUMN } from './probe.js';

const FEATURES = FEATURES_OF.probe.length;

/** A stored row as the fit takes it, or why it does not; its peers are known when all are read. */
function storedProbeTrace(row: OutputRow): ProbeTrace | string {
  const found = fitTraceOf(row, row.referenceUtilities?.length ? 'pr' : 'none', 'probe');
  if (typeof found === 'string') return found;
  const numbers = row.requested?.[STATES_COLUMN.name];
  const exits = found.features.length / FEATURES;
  if (!(numbers instanceof Float32Array) || numbers.length === 0 || numbers.length % exits > 0)
    return `it has not as many numbers in ${STATES_COLUMN.name} at each of ${exits} exits`;
  return { ...found, states: toFloat16(numbers), peers: 0 };
}

/** Fits a probe to stored traces. */
async function fitStored(given: Pass, about: FitAbout): Promise<ProbeFile> {
  if (about.policy === null)
    throw usageError(
      'hidden states of several policies, or of one that no file names, say nothing of each other',
      'rredcot calibrate --probe with files of one policy',
    );
  const pass = given as () => AsyncIterable<ProbeTrace>;
  const groups = new KnownGroups();
  let D = 0;
  for await (const { place, reward, states, features } of pass()) {
    groups.add(place, reward);
    D = (states.length * FEATURES) / features.length;
  }
  async function* traces() {
    for await (const trace of pass()) {
      const mean = groups.peersMean(trace.place, trace.reward, MIDDLE);
      yield { ...trace, peers: mean === undefined ? 0 : mean - MIDDLE };
    }
  }
  return probeFile(await fitProbe(traces, D), about);
}

export const PROBE_FIT: FitKind = { columns: [STATES_COLUMN], traceOf: storedProbeTrace, fit: fitStored };
