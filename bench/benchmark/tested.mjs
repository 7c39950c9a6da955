// Makes what the benchmark has of the task whose reward is a test: its set, an older policy, and the traces that calibrations are fitted to.
import { cpSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { buildFolder } from '../fidelity/prepare.mjs';
import { ROOT, readLines, rredcot, writeLines } from '../fidelity/program.mjs';
import { folderOf, HALF, halfOf, inRecipe, linesOf, ofLines, python, WORK, writeSet } from './sets.mjs';

/** The policy whose answers a test judges; of version 1 of its set none of the groups is in this one. */
export const TESTED = {
  ...{ name: 'reach', version: 2, isTested: true },
  ...{ checkpoint: join(ROOT, 'models/reach'), seed: 'bench-2', problems: 96 },
};

const sampleTested = ({ seed, problems }) =>
  python('values.py', '--seed', seed, '--problems', `${problems}`, '--half', `${HALF}`);

/** Writes the set of the policy whose task has a test. @param rows its traces, with completions at the end of each line */
export function writeTested(toy = TESTED, rows = sampleTested(toy)) {
  const at = (name) => join(WORK, toy.name, name);
  const policy = folderOf(toy);
  writeLines(at('traces.jsonl'), rows);
  const own = ['--estimator', 'surprise', '--segmenter', 'newline', '--overwrite', '--quiet'];
  rredcot('score', at('traces.jsonl'), '-o', at('scored.jsonl'), '--policy', policy, ...own);
  const scored = readLines(at('scored.jsonl')).map((row, i) => {
    const { mistake, wins_first, wins_second, ...given } = rows[i];
    const ends = row.segments.filter(({ kind }) => kind === 'thought').map(({ end }) => end);
    if (`${ends}` !== `${given.segment_ends}`) throw new Error(`${row.id}: is cut at ${ends}`);
    return {
      half: halfOf(row.group),
      ...given,
      ...{ logprobs: row.logprobs, entropies: row.entropies, completions_a_half: HALF },
      ...{ wins_first, wins_second, first_wrong: row.reward <= 0.5 ? mistake : null },
    };
  });
  writeSet(join(ROOT, `fixtures/bench/${toy.name}.parquet`), `${toy.name}@${toy.version}`, scored);
}

/** A policy folder of the tested policy's training stopped early, which is made where it is not there: minutes. */
export function olderFolder({ name, checkpoint } = TESTED) {
  const [older, folder] = ['older-checkpoint', 'older'].map((own) => join(WORK, name, own));
  const weights = join(older, 'model.safetensors');
  if (!existsSync(weights)) {
    cpSync(checkpoint, older, { recursive: true, filter: (path) => !path.endsWith('.safetensors') });
    // the third of the recipe's commands for this policy
    const how =
      '--begin ../embedded/model.safetensors --steps 900 --stop 200 --accumulate 3 --muon-rate 0.015 --adam-rate 0.002 --kind F16';
    inRecipe('train.py', '--task', name, ...how.split(' '), '--out', weights);
  }
  buildFolder(older, folder);
}

/** Samples traces of other problems, to which calibrations are fitted. @returns their file */
export function sampleFit(toy = TESTED) {
  const file = join(WORK, toy.name, 'fit.jsonl');
  const how = ['--task', toy.name, '--model', join(toy.checkpoint, 'model.safetensors'), '--problems', '300'];
  inRecipe('sample.py', ...how, '--out', file);
  const taken = new Set(ofLines(linesOf(toy.name, 'all')).map(({ prompt }) => prompt));
  writeLines(
    file,
    readLines(file).filter(({ prompt }) => !taken.has(prompt)),
  );
  return file;
}
