// Published chains of thought in, where the shared data is there: what their values and labels say of credits, out.
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { buildFolder } from './prepare.mjs';
import { ROOT, readLines, rredcot, toldBy } from './program.mjs';
import { thoughtsOf } from './traces.mjs';

const DATA = join(ROOT, '../shared/data');
const ANCHORS = join(DATA, 'thought_anchors_r1distill_llama8b.jsonl');
const LABELLED = [
  ['multistep_arithmetic', 300],
  ['logical_deduction', 30],
].map(([name, traces]) => ({ name, traces, path: join(DATA, `bigbench_mistake_${name}.jsonl`) }));

/** @returns null where the data is not there */
export function realChains(work, isQuick) {
  if (![ANCHORS, ...LABELLED.map(({ path }) => path)].every((path) => existsSync(path))) return null;
  mkdirSync(work, { recursive: true });
  const prm = join(work, 'prm');
  buildFolder(join(ROOT, 'models/prm'), prm);
  return {
    anchors: anchors(work, isQuick),
    labelled: LABELLED.map((each) => labelled(each, work, isQuick, prm)),
  };
}

function score(input, output, ...flags) {
  rredcot('score', input, '-o', output, '--overwrite', ...flags);
  return readLines(output);
}

function anchors(work, isQuick) {
  const out = join(work, 'anchors.jsonl');
  const columns = ['--columns', 'id,segments,value_start,reward,status'];
  const few = isQuick ? ['--limit', '2'] : [];
  const rows = score(ANCHORS, out, '--estimator', 'given', '--segmenter', 'given', ...columns, ...few);
  const pairs = rows.flatMap((row) =>
    thoughtsOf(row)
      .slice(0, -1) // no state comes after the last sentence
      .map(({ delta }, k) => Math.abs(delta - row.chunks[k].resampling_importance_accuracy)),
  );
  const credits = ['resampling_importance', 'forced_importance'].flatMap((name) => [
    '--credit',
    `${name}=chunks[].${name}_accuracy`,
  ]);
  const comparison = toldBy('compare', out, ...credits, '--truth', 'resampling_importance', '--json');
  return { comparison, pairs: pairs.length, farthest: Math.max(...pairs) };
}

/** What needs no policy that knows the task: how a policy or a reward model reads the text, right or wrong. `pr` is there for comparison. */
function labelled({ name, traces, path }, work, isQuick, prm) {
  const [pr, surprise, judged] = ['pr', 'surprise', 'prm'].map((by) => join(work, `${name}-${by}.jsonl`));
  const limit = ['--segmenter', 'given', '--limit', `${isQuick ? 4 : traces}`];
  const rows = score(path, pr, ...limit, '--sigma', 'share,surprise,entropy');
  rredcot('redistribute', pr, '-o', surprise, '--estimator', 'surprise');
  score(path, judged, ...limit, '--estimator', 'prm', '--prm', prm);
  const flat = rows.filter(({ status }) => status.includes('flat-values')).length;
  const files = [pr, surprise, judged];
  const comparison = toldBy('compare', ...files, '--label', 'first_wrong=mistake_index', '--json');
  return { name, flat, comparison };
}
