// Scored traces in, with their values out: from the references' log-probabilities, or from what else an estimator asks of a policy.
import { TraceRejected } from '../../errors.js';
import {
  type AttributionOptions,
  attributedValues,
  openAttribution,
} from '../../estimate/attributing/attributed.js';
import { surpriseValues } from '../../estimate/attribution/surprise.js';
import type { Calibration } from '../../estimate/calibrate/calibration.js';
import { calibratedValues } from '../../estimate/calibrated.js';
import type { ReadyTrace } from '../../estimate/credit.js';
import type { Estimator } from '../../estimate/estimators.js';
import { type HintedBy, hintedValues } from '../../estimate/hint/hinted-values.js';
import type { PassJob } from '../../estimate/passes/cut-windows.js';
import type { Scored, Valued } from '../../estimate/passes/windows.js';
import { type JudgedBy, prmValues } from '../../estimate/prm/prm-values.js';
import { type ProvedBy, provedValues } from '../../estimate/prover/proved-values.js';
import { type MonteCarloOptions, sampledValues } from '../../estimate/sampling/sampled.js';
import type { MateOptions } from '../../estimate/siblings/mates.js';
import { siblingValues } from '../../estimate/siblings/sibling-values.js';
import type { WithMates } from '../../estimate/siblings/with-mates.js';
import { givenValues, noReferences, traceValues } from '../../estimate/value.js';
import type { PolicyFolder } from '../../policy/folder.js';
import type { PolicySession } from '../../policy/run/session.js';
import type { Spelling } from '../../policy/text/tokenizer.js';
import type { TokenMeter } from '../../report/progress.js';
import { type BadRow, eachTrace } from '../../rows.js';
import type { Reference } from '../../trace.js';

/** Which values, and how. */
export interface ValueOptions {
  readonly estimator: Estimator;
  /** of estimators that have one; undefined where it stands back */
  readonly calibration: Calibration | undefined;
  /** how mates are used, for estimators that do */
  readonly mates: MateOptions | undefined;
  /** how segments are attributed to, for estimators that read a trace again for it */
  readonly attribution: AttributionOptions | undefined;
  /** how values are sampled, for estimators that do */
  readonly monteCarlo: MonteCarloOptions | undefined;
}

/** What runs for them. */
export interface ValueSource {
  readonly policy: PolicyFolder;
  readonly session: PolicySession;
  readonly tokenizer: Spelling;
  readonly meter: TokenMeter;
  readonly signal: AbortSignal;
  /** the window of an input row: traces of different ones never share a run */
  readonly window: (row: number) => number;
  /** another policy, whose values are asked for */
  readonly prover?: Omit<ProvedBy, 'window'> | undefined;
  /** what reads the traces again behind a hint */
  readonly hint?: Omit<HintedBy, 'window'> | undefined;
  /** a process reward model, whose judgements are asked for */
  readonly prm?: Omit<JudgedBy, 'window'> | undefined;
}

/** A trace as its values are asked for. */
type Job = PassJob &
  ReadyTrace &
  Partial<WithMates> & { readonly references: readonly Reference[]; readonly prmPromptIds?: Int32Array };

/** Values of every trace at its exit points; what was set aside passes by in its place. */
export async function* valuesOf<T extends Job>(
  scored: AsyncIterable<Scored<T> | BadRow>,
  { estimator, calibration, mates, monteCarlo, attribution }: ValueOptions,
  { policy, session, tokenizer, meter, signal, window, prover, hint, prm }: ValueSource,
): AsyncGenerator<Valued<T> | BadRow> {
  // continue: completions from the exit points, and what they have earned
  if (monteCarlo !== undefined) {
    const { architecture, exitTemplate: template, decoding } = policy;
    const writer = { session, tokenizer, template, stops: decoding?.stops ?? [] };
    const onTokens = (count: number): void => meter.add(count);
    const opts = { ...monteCarlo, signal, onTokens };
    yield* sampledValues(scored, { ...writer, maxTokens: architecture.maxTokens }, opts, window);
    return;
  }
  // read again: without a segment, or for attention and gradients
  if (attribution !== undefined) {
    await openAttribution(session, attribution);
    yield* attributedValues(scored, session, attribution);
    return;
  }
  // read again: behind a hint of the answer
  if (hint !== undefined) {
    yield* hintedValues(scored, { ...hint, window });
    return;
  }
  // ask another policy: it reads the same tokens, and answers at the same exits
  if (prover !== undefined) {
    yield* provedValues(scored, { ...prover, window });
    return;
  }
  // ask a process reward model, which reads the segments as steps
  if (prm !== undefined) {
    yield* prmValues(scored, { ...prm, window });
    return;
  }
  yield* eachTrace(scored, ({ job, trace, result, needed }) => {
    if (result instanceof TraceRejected) throw result;
    if (estimator === 'surprise') {
      const { exits, thoughtEnds } = result.segmentation;
      const values = surpriseValues(result.logprobs, thoughtEnds);
      return { job, trace, result, values: { values, ...noReferences(exits.length) } };
    }
    const utilities = Float32Array.from(job.bank, (reference) => reference.utility);
    const found =
      estimator === 'given'
        ? givenValues(trace.values, result.segmentation.exits.length)
        : traceValues(result.branches, utilities, estimator);
    const prior =
      calibration === undefined ? found : calibratedValues(found, trace, result, utilities, calibration);
    const values = mates === undefined ? prior : siblingValues(prior, result, job, needed, mates);
    return { job, trace, result, values };
  });
}
