// What fidelity has measured in, its figures out: a file of CSV for each policy.
import { finder, methodsOf, sampledOf } from './figures.mjs';
import { OF_MODEL, OF_POLICY } from './prm-study.mjs';

const HEAD = ['figure', 'of', 'at', 'value', 'low', 'high'];
const LASTS = [0.25, 0.5, 0.75, 1];

/** Rows of HEAD. `x` is a number, or a figure with its interval; what is not known makes no row. */
function rows() {
  const all = [];
  const put = (figure, of, at, x) => {
    const { value, low, high } = typeof x === 'object' && x !== null ? x : { value: x };
    if (Number.isFinite(value)) all.push([figure, of, at, value, low ?? '', high ?? '']);
  };
  return { all, put };
}

/** A figure as CSV has it: four digits are more than its interval allows. */
const digits = (x) =>
  typeof x === 'number' && !Number.isInteger(x) ? `${Number(x.toPrecision(4))}` : `${x}`;
const quoted = (text) => (/[",]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
export const csvOf = (all) =>
  `${[HEAD, ...all].map((row) => row.map(digits).map(quoted).join(',')).join('\n')}\n`;

/** All figures of one policy. */
export function policyRows(measured) {
  const { comparison, calibration, segmenters } = measured;
  const { all, put } = rows();
  for (const name of ['traces', 'right', 'wrong', 'segments']) put(name, '', '', comparison[name]);
  put('tokens', '', '', measured.tokens);
  put('completions', '', '', measured.samples);
  put('reliability', '', '', comparison.ceiling && comparison.ceiling.value ** 2);
  put('ceiling', '', '', comparison.ceiling);
  put('fitted_to', '', '', measured.fit);
  for (const [name, loss] of Object.entries(calibration.log_loss ?? {})) put('log_loss', name, '', loss);
  put('sampling_minutes', '', '', Math.round(measured.taken / 60));
  agreement(measured, put);
  halves(measured, put);
  attributions(measured, put);
  if (measured.prm) judgements(measured, put);
  for (const each of measured.features) {
    const at = each.looksAhead ? 'looks ahead' : '';
    const of = each.text === '' ? 'none' : each.text;
    put('features_log_loss_left_out', of, at, each.leftOut);
    put('features_log_loss', of, at, each.loss);
    put('features_level_error', of, at, each.level);
    put('features_pearson', of, at, each.pearson);
    put('features_sign_of_large', of, at, each.sign);
    put('features_worst_segment', of, at, each.worst);
  }
  noise(measured, put);
  for (const name of ['traces', 'tokens', 'exits'])
    put(`cut_${name === 'traces' ? 'thoughts' : name}`, '', '', segmenters[name]);
  for (const { name, shares, segments } of segmenters.ways)
    for (const [i, K] of segmenters.counts.entries()) {
      put('kept', name === 'best' ? 'best cut' : name, `${K}`, shares[i]);
      put('cut_into', name === 'best' ? 'best cut' : name, `${K}`, segments[i]);
    }
  for (const [name, share] of segmenters.within) put('kept', `newline, within ${name}`, '', share);
  for (const { name, tokens, seconds } of measured.costs) {
    const of = name.replace(', M = ', ' ');
    put('run_tokens', of, '', tokens);
    put('run_seconds', of, '', seconds);
  }
  return all;
}

/** Each method against Monte Carlo and against the known mistakes. */
function agreement({ comparison, levels }, put) {
  const figure = finder(comparison);
  const label = finder(comparison, 'first_wrong');
  const names = methodsOf(comparison);
  for (const name of names) {
    put('level_error', name, '', levels[name]);
    for (const measure of ['pearson', 'spearman']) {
      for (const last of LASTS)
        put(measure, name, last === 1 ? 'all' : `last ${last}`, figure(measure, name, 'all', last));
      for (const traces of ['right', 'wrong'])
        put(measure, name, traces, figure(measure, name, traces)?.value);
    }
    for (const measure of ['pooled_pearson', 'pooled_spearman', 'sign_of_large'])
      put(measure, name, 'all', figure(measure, name));
  }
  for (const name of [...names, 'mc']) {
    put('worst_segment', name, 'wrong', figure('worst_segment', name, 'wrong'));
    put('known_auc', name, '', label('auc', name));
    put('known_worst', name, '', label('hit_at_1', name));
  }
  put('worst_segment', 'guessing', 'wrong', figure('worst_segment', names[0], 'wrong')?.chance);
  put('known_auc', 'guessing', '', 0.5);
  put('known_worst', 'guessing', '', label('hit_at_1', names[0])?.chance);
}

/** Monte Carlo of fewer or shorter completions, and what generates nothing, all by the same half of the completions. */
function halves({ byHalf, levels }, put) {
  const figure = finder(byHalf);
  const spelled = (name) => name.replace(/^mc_truncated_/, 'mc-truncated ').replace(/^mc_/, 'mc ');
  for (const name of [...sampledOf(byHalf), ...methodsOf(byHalf)]) {
    if (name.startsWith('mc_')) put('half_level_error', spelled(name), '', levels[name]);
    put('half_pearson', spelled(name), 'all', figure('pearson', name));
    put('half_sign_of_large', spelled(name), 'all', figure('sign_of_large', name));
    put('half_worst_segment', spelled(name), 'wrong', figure('worst_segment', name, 'wrong'));
  }
}

/** How the attributions go with each other: the paper's figure 4. */
function attributions({ among }, put) {
  for (const [name, comparison] of Object.entries(among))
    for (const other of ['attention', 'loo', 'pr', 'surprise'])
      put('pearson_with', name, other, finder(comparison, name)('pearson', other));
}

/** A reward model beside the policy's own NLL: the paper's figures 5 and 6. */
function judgements({ prm }, put) {
  for (const of of OF_POLICY)
    for (const { title, name } of OF_MODEL) {
      const pair = `${of === 'answer' ? 'answer' : 'solution'} ~ ${title}`;
      for (const traces of ['all', 'right', 'wrong'])
        put('prm_pearson', pair, traces, prm.find(of, name, 'pearson', traces));
      put('prm_spearman', pair, 'all', prm.find(of, name, 'spearman'));
      put('prm_pooled_pearson', pair, 'all', prm.find(of, name, 'pooled_pearson'));
    }
  for (const { title, name } of OF_MODEL) {
    put('prm_known_auc', title, '', prm.known[name].auc);
    put('prm_known_worst', title, '', prm.known[name].hit);
  }
}

/** Fewer completions, and completions that a limit loses: the paper's figures 7 and 3. */
function noise({ noise, lengths: { edges, limits } }, put) {
  const at = noise.exits.map(
    (exits, i) => `${exits.toFixed(1)} exits${i === noise.exits.length - 1 ? ', all of them' : ''}`,
  );
  for (const { M, deviations, ceilings } of noise.rows)
    for (const [i, place] of at.entries()) {
      put('sd', `${M}`, place, deviations[i]);
      put('ceiling', `${M}`, place, ceilings?.[i]);
    }
  for (const { limit, all, bins } of limits) {
    put('lost', `${limit}`, 'all', all);
    for (const [i, { lost }] of bins.entries())
      put('lost', `${limit}`, `${edges[i]} to ${edges[i + 1]}`, lost);
  }
}
