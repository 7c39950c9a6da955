// How far values may be off, against their formula and against answers that are off by chance.
import { expect, it } from 'vitest';
import { askedValues } from '../../../dist/estimate/ask.js';
import { calibratedValues } from '../../../dist/estimate/calibrated.js';
import { Calibration } from '../../../dist/estimate/calibration.js';
import { loo } from '../../../dist/estimate/loo.js';
import { changeNoise } from '../../../dist/estimate/noise.js';
import { siblingValues } from '../../../dist/estimate/siblings.js';
import { FEATURES } from '../../../dist/estimate/states.js';
import { stateValues } from '../../../dist/estimate/value.js';
import { answerNoise } from '../../../dist/model/engine/noise.js';
import type { Answer, Answers } from '../../../dist/question.js';
import { offByChance } from '../../oracle/noise.js';
import { seeded } from '../../oracle/toy.js';
import { named } from '../../support/estimators.js';
import { plainTokens } from '../../support/fake-policy.js';

const [K, NOISE] = [5, 0.02];
const random = seeded(5);
const wrong = (one: Answer) => offByChance(one, NOISE, random);
const total = (numbers: ArrayLike<number>) => Array.from(numbers).reduce((a, b) => a + b, 0);

/** (exits) of (count) answers, from sure ones to improbable ones. */
const drawn = (exits: number, count: number): Answer[][] =>
  Array.from({ length: exits }, () =>
    Array.from({ length: count }, () => Float32Array.of(-0.01 - 5 * random() ** 4, -0.01 - random() ** 3)),
  );
const exits = Int32Array.from({ length: K + 1 }, (_, k) => k);
const ends = exits.slice(1);
const pieces = { tokens: plainTokens(K), thought: { start: 0, end: K, answered: false }, ends };
const segmentation = { exits, thoughtEnds: ends, tokens: K, answered: false };
const own = { logprobs: Float32Array.of(-0.1, -2.5, -0.3, -0.9, -0.2), entropies: new Float32Array(K) };
const utilities = Float32Array.of(1, 0.5, 0);
const trace = { completionIds: new Int32Array(K), pieces, draws: 1, trace: { id: 'a' }, tokens: {} };
const peers = [1, 0, 1].map((reward) => ({ ...trace, trace: {}, reward: { reward }, at: exits })) as never;
const referenceSet = Array.from(utilities, (utility) => ({ utility }));
const job = { ...trace, referenceSet, continuations: [0, 0, 0], reward: { reward: 1 }, peers } as never;
const weights = [0.2, 0.6, 1, 0, 0.1, 0, 0, 0, 0.1, 0.5];
const calibration = new Calibration({
  ...{ mean: FEATURES.map(() => 0), sd: FEATURES.map(() => 1), features: FEATURES, estimator: 'pr' },
  ...{ weights: Array(6).fill(weights), uses: 'features', group_marks: '' },
} as never);
const left = await (await loo.setUp?.({}, {} as never, loo))?.open({} as never);

const OF: Readonly<Record<string, (answers: Answers) => Float32Array>> = {
  pr: ({ branches }) => stateValues(branches, utilities, named('pr')),
  snis: ({ branches }) => stateValues(branches, utilities, named('snis')),
  calibrated: (answers) => calibratedValues(job, answers, calibration).values,
  siblings: (answers) => {
    const prior = calibratedValues(job, answers, calibration);
    return siblingValues(prior, answers, job, peers, { peers: 3, peerTokens: 2 }).values;
  },
  loo: (answers) => left?.values(job, answers, {} as never).values as Float32Array,
  ask: ({ branches }) => askedValues(branches, Float32Array.of(1, 0)).values,
};

it.each(Object.keys(OF))('%s: two deviations of what answers make of it that are off by chance', (name) => {
  const valuesOf = OF[name] as (typeof OF)[string];
  const isAsk = name === 'ask';
  const asked = { atExits: isAsk ? [{ also: 1 }] : [{}, {}, {}] } as never;
  const answers: Answers = {
    ...{ ...own, segmentation, noise: NOISE, branches: drawn(K + 1, isAsk ? 1 : 3) },
    ...(name === 'siblings' && { tails: [...drawn(K, 3), []], peers: Array(3).fill(own.logprobs) }),
    ...(name === 'loo' && { whenCut: drawn(K, 3).flat() }),
  };
  // yes and no are two answers in one list
  const offOne = (one: Answer) =>
    isAsk ? Float32Array.from(one, (lp) => wrong(Float32Array.of(lp))[0] ?? 0) : wrong(one);
  const changes = (found: Answers) => {
    const values = valuesOf(found);
    return values.subarray(1).map((value, k) => value - (values[k] as number));
  };
  const plain = changes(answers);
  const moved = Array.from({ length: 800 }, () =>
    changes({
      ...{ ...answers, branches: answers.branches.map((exit) => exit.map(offOne)) },
      ...(answers.tails && { tails: answers.tails.map((exit) => exit.map(offOne)) }),
      ...(answers.whenCut && { whenCut: answers.whenCut.map(offOne) }),
    }),
  );
  const found = changeNoise(valuesOf, answers, asked) as Float32Array;
  for (const [k, noise] of found.entries()) {
    const squares = moved.map((one) => ((one[k] as number) - (plain[k] as number)) ** 2);
    const share = (2 * Math.sqrt(total(squares) / squares.length)) / noise;
    // the errors of yes and no are taken to be opposite
    expect(share, `Δ_${k + 1}`).toBeGreaterThan(isAsk ? 0.65 : 0.88);
    expect(share, `Δ_${k + 1}`).toBeLessThan(1.12);
    if (name !== 'pr') continue;
    const odds = (answers.branches.slice(k, k + 2).flat() as Answer[]).map((one, n) => {
      const p = Math.exp(total(one));
      return ((utilities[n % 3] as number) * p * (1 - p)) ** 2;
    });
    expect(noise / (2 * NOISE * Math.sqrt(total(odds)))).toBeCloseTo(1, 3);
  }
  // nothing is known to be off, or nothing was asked
  expect(changeNoise(valuesOf, { ...answers, noise: 0 }, asked)).toBeUndefined();
  const none = { ...answers, branches: answers.branches.map(() => []) };
  if (name === 'pr') expect(changeNoise(valuesOf, none, asked)).toBeUndefined();
});

it('of answers it is the deviation of their odds, whatever a few are off by, and those that nobody would give', () => {
  const known = drawn(400, 1).flat();
  const off = (one: Answer, n: number) => total(wrong(one)) - (n % 10 === 0 || total(one) < -3 ? 1 : 0);
  const noise = answerNoise(known.flatMap((one, n) => [[off(one, n), total(one)] as const, [-1, -1]]));
  expect(Math.abs(noise / NOISE - 1.1)).toBeLessThan(0.3);
});
