/** Leave one out against whole float64 passes without the segment, over policies of random weights. */
import { describe, expect, it } from 'vitest';
import { answererOf } from '../../dist/estimate/answerer/windows.js';
import type { ValueJob } from '../../dist/estimate/estimator.js';
import { loo } from '../../dist/estimate/loo.js';
import { isBad } from '../../dist/rows.js';
import { cutPieces } from '../../dist/segment/segment.js';
import { looValues, type OracleTrace } from '../oracle/attribution.js';
import { seeded } from '../oracle/toy.js';
import { plainTokens } from '../support/fake-policy.js';
import { FAMILIES, openFamily } from '../support/family-checks.js';
import { collect, streamOf, traceAt } from '../support/streams.js';

const random = seeded(11);
const randomIds = (length: number) => Int32Array.from({ length }, () => Math.floor(random() * 131));
const ENDS = Int32Array.of(8, 9, 15, 20);

/** A trace of four segments, of which the second is one token; two references of other lengths. */
function madeTrace(scoredFrom = 2): { job: ValueJob; oracle: OracleTrace } {
  const [promptIds, completionIds] = [randomIds(5), randomIds(20)];
  const continuations = [4, 5].map((length) => ({ ids: randomIds(length), scoredFrom }));
  const referenceSet = [1, 0.5].map((utility) => ({ answer: '', utility }));
  const pieces = cutPieces(plainTokens(20), { segmenter: 'given', fixedLength: 1 }, ENDS);
  const job = { trace: traceAt(0), promptIds, completionIds, continuations, referenceSet, pieces };
  return {
    job: job as unknown as ValueJob,
    oracle: {
      ids: [...promptIds, ...completionIds],
      exits: [0, ...ENDS].map((exit) => 5 + exit),
      references: continuations.map(({ ids }, n) => ({
        ...{ ids: [...ids], utility: referenceSet[n]?.utility as number },
        scored: ids.length - scoredFrom,
      })),
    },
  };
}

/** The estimator in a run. */
async function opened(how: 'deleted' | 'masked') {
  const run = { segments: { segmenter: 'given', fixedLength: 1 }, inputs: [] } as const;
  const setUp = await loo.setUp?.({ loo: how }, run, loo);
  const estimator = await setUp?.open({} as never);
  if (estimator?.ask === undefined) throw new Error('it asks nothing');
  return { ask: estimator.ask, values: estimator.values };
}

describe('leave one out', () => {
  // Mistral's window hides keys by position: a gap has to count
  it.each([
    ['Llama', {}, 2],
    ['Llama', {}, 0],
    ['Qwen2', {}, 2],
    ['Mistral', { sliding_window: 9 }, 2],
  ] as const)('%s %j, scored from %i: what whole passes say, either way', async (family, more, from) => {
    await using policy = await openFamily({ ...FAMILIES[family], ...more });
    const { session, model } = policy;
    const answerer = answererOf(session, undefined, () => 0);
    const { job, oracle } = madeTrace(from);
    const expected = {
      deleted: looValues(model, oracle, 'deleted'),
      masked: looValues(model, oracle, 'masked'),
    };
    for (const how of ['deleted', 'masked'] as const) {
      const { ask, values } = await opened(how);
      const found = async (trace: ValueJob) => {
        const asked = await ask(trace);
        const [item] = await collect(answerer(streamOf([[{ ...trace, asked }]])));
        if (item === undefined || isBad(item)) throw new Error('nothing was found');
        const made = values(trace, item.result, asked).values;
        return Array.from(made.subarray(1), (value, k) => value - (made[k] as number));
      };
      const own = await found(job);
      // a first token that is scored follows on the hidden segment's last one in a whole pass, on what is before it in ours
      const told = expected[how].slice(0, from === 0 && how === 'masked' ? -1 : undefined);
      for (const [k, a] of told.entries()) expect(own[k]).toBeCloseTo(a, 4);
      // the reference set is a set: its order changes nothing
      const [referenceSet, continuations] = [job.referenceSet.toReversed(), job.continuations.toReversed()];
      const turned = { ...job, referenceSet, continuations };
      for (const [k, a] of (await found(turned)).entries()) expect(own[k]).toBeCloseTo(a, 5);
    }
    expect(Math.abs((expected.deleted[0] as number) - (expected.masked[0] as number))).toBeGreaterThan(0.01);
  });

  it('asks nothing where no reference earns anything, and nothing counts', async () => {
    const { job } = madeTrace();
    const { ask, values } = await opened('deleted');
    const worthless = { ...job, referenceSet: job.referenceSet.map((each) => ({ ...each, utility: 0 })) };
    const asked = await ask(worthless);
    expect(asked.whenCut).toBeUndefined();
    const exits = Int32Array.of(0, ...ENDS);
    const answers = { branches: [], segmentation: { exits } } as never;
    expect([...values(worthless, answers, asked).values]).toEqual([0, 0, 0, 0, 0]);
  });
});
