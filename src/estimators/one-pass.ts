// What estimators have in common that ask for nothing but the policy's one pass over a trace.
import { TraceRejected, usageError } from '../errors.js';
import type { Nature } from '../estimate/nature.js';
import type { TraceResult } from '../estimate/trace-result.js';
import { scoredReferences, type TraceValues, traceValues } from '../estimate/value.js';
import type { Scored } from '../estimate/windows.js';
import { eachTrace } from '../rows.js';
import type { Asked, Estimator, FlagValues, ValueJob, Values } from './estimator.js';

/** @param of a trace, what the policy said of it, and its mates' log-probabilities where it has mates */
export function perTrace(
  of: (
    job: ValueJob,
    result: TraceResult,
    needed: Scored<ValueJob>['needed'],
  ) => TraceValues | Promise<TraceValues>,
): Values {
  return (scored) =>
    eachTrace(scored, async ({ job, trace, result, needed }) => {
      if (result instanceof TraceRejected) throw result;
      return { job, trace, result, values: await of(job, result, needed) };
    });
}

/** (N) ζ_n of a trace's bank */
export function utilitiesOf({ bank }: Pick<ValueJob, 'bank'>): Float32Array {
  return Float32Array.from(bank, ({ utility }) => utility);
}

/** Values that follow from the references' log-probabilities alone. */
export function ofReferences(nature: Nature): Asked {
  return asked(perTrace((job, { branches }) => traceValues(branches, utilitiesOf(job), nature)));
}

/** Values that an estimator makes of what the pass has seen. @throws RredcotError (exit 2) where it makes not one for each exit */
export function ofSeen(name: string, of: NonNullable<Estimator['of']>, flags: FlagValues): Asked {
  return asked(
    perTrace((job, { logprobs, entropies, segmentation, branches }) => {
      const { exits, thoughtEnds: ends } = segmentation;
      const seen = {
        trace: job.trace,
        logprobs,
        entropies,
        exits,
        ends,
        branches,
        utilities: utilitiesOf(job),
      };
      const values = Float32Array.from(of(seen, flags));
      if (values.length !== exits.length || values.some(Number.isNaN))
        throw usageError(
          `--estimator ${name} gave ${values.length} values (${values.join(', ')}) for the trace ${JSON.stringify(job.trace.id)}, expected ${exits.length} numbers`,
          'one for each exit point',
        );
      return { values, ...scoredReferences(branches) };
    }),
  );
}

function asked(values: Values): Asked {
  return { open: () => ({ values, start: () => ({ values }) }) };
}
