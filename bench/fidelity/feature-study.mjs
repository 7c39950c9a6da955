// Scored traces to fit to and to judge in, how near the calibrated value comes to Monte Carlo with each set of further features out.

import { storedStates } from '../../dist/estimate/calibrated.js';
import { Calibration, calibrationFile } from '../../dist/estimate/calibration.js';
import { fitCalibration, groupPlace } from '../../dist/estimate/calibration-fit.js';
import { FEATURES, parseFeatures, stateFeatures } from '../../dist/estimate/states.js';
import { storedRow } from '../../dist/scored/stored-rows.js';
import { finder } from './figures.mjs';
import { mean } from './samples.mjs';
import { differences, thoughtsOf, valuesOf } from './traces.mjs';

/** Each beside the nine that are always there. */
const SETS = [
  '',
  'entropy,highest_entropy',
  'progress',
  'prm',
  'lowest:prm',
  'posterior',
  'prm,lowest:prm,progress,posterior',
  'loo',
  'gradient',
  'attention',
];
/** Made of a whole trace, so that a state's number tells how the trace goes on. */
export const LOOKS_AHEAD = new Set(['loo', 'gradient', 'attention']);

/**
 * @param fitted by estimator, rows of the traces that are fitted to; `pr` has v̂
 * @param scored the same of those that are judged
 * @param truth (traces) of (K+1) values
 * @param compared holds credits against Monte Carlo
 * @returns of each set its names, log losses (of groups left out, of the judged ones), level error, and figures by `compare`
 */
export async function featureStudy({ fitted, scored, truth, compared, levelError }) {
  const known = new Set(['entropy', 'highest_entropy', ...fitted.keys()]);
  const sets = SETS.map((text) => ({ text, further: text === '' ? [] : parseFeatures(text) })).filter(
    ({ further }) => further.every(({ column }) => known.has(column)),
  );
  const [fit, judged] = [fitted, scored].map((by) => by.get('pr').map((row, i) => withColumns(row, by, i)));
  const studied = [];
  for (const { text, further } of sets) {
    const states = (row) => {
      const found = storedStates(row, further);
      if (typeof found === 'string') throw new Error(`${row.trace.id}: ${found}`);
      return found;
    };
    const traces = fit.map((row) => ({
      features: stateFeatures(states(row), further),
      reward: row.reward,
      place: groupPlace(row.trace.group),
    }));
    const found = await fitCalibration(async function* () {
      yield* traces;
    }, FEATURES.length + further.length);
    const about = { rredcot: '', skipped: {}, policy: null, scored_with: null };
    const calibration = new Calibration(calibrationFile(found, about, further));
    const values = judged.map((row) => [...calibration.values(row.trace.group, states(row))]);
    studied.push({
      text,
      looksAhead: further.some(({ column }) => LOOKS_AHEAD.has(column)),
      leftOut: found.quality.logLoss.calibrated,
      loss: mean(values.map((own, i) => mean(own.map((p) => lossOf(p, judged[i].reward))))),
      level: levelError(values, truth),
      values,
    });
  }
  const named = Object.fromEntries(
    studied.map(({ values }, n) => [`set_${n}`, values.map((own) => differences(own))]),
  );
  const figure = finder(compared('features.jsonl', { mc: truth.map(differences), ...named }));
  return studied.map(({ values: _, ...each }, n) => ({
    ...each,
    pearson: figure('pearson', `set_${n}`),
    sign: figure('sign_of_large', `set_${n}`),
    worst: figure('worst_segment', `set_${n}`, 'wrong'),
  }));
}

const lossOf = (p, reward) => -reward * Math.log(p) - (1 - reward) * Math.log1p(-p);

/** A row as it would stand in a file that has these columns, (K+1) numbers each. */
function withColumns(row, by, i) {
  const columns = { ...entropies(row) };
  for (const [name, rows] of by) if (name !== 'pr') columns[name] = valuesOf(rows[i]);
  const cells = { ...row, ...columns };
  return storedRow(cells, { file: '', stem: '', row: i, columns: cells });
}

/** Of the thought up to each state: the sum of its tokens' entropies, and the highest of them. */
function entropies(row) {
  const ends = [0, ...thoughtsOf(row).map(({ end }) => end)];
  const before = ends.map((end) => row.entropies.slice(0, end));
  return {
    entropy: before.map((own) => own.reduce((sum, H) => sum + H, 0)),
    highest_entropy: before.map((own) => own.reduce((most, H) => Math.max(most, H), 0)),
  };
}
