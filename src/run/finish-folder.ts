// The end of a run's folder: where all of its parts stand, the dataset card is written, and what killed processes have left goes.
import { EXIT, RredcotError } from '../errors.js';
import { wordsOf } from '../estimate/registry.js';
import { runPaths } from '../io/files/run-folder.js';
import { sumCounts } from '../io/write/facts.js';
import { type CardFacts, writeCard } from '../report/dataset-card.js';
import type { Log } from '../report/log.js';
import { existingParts, presentParts, removeLeftovers } from './folder.js';
import type { Run } from './identity.js';

/** Says how many parts are there; where all are, ends the run. Whichever shard is the last does so. */
export async function finishFolder(
  folder: string,
  run: Run,
  layout: Pick<CardFacts, 'ourColumns' | 'passThrough' | 'metadata'>,
  log: Log,
): Promise<void> {
  const { size } = await presentParts(folder, run);
  if (size < run.parts) return log.info(`${size} of ${run.parts} parts are there`);
  const parts = await existingParts(folder, run, () => true, log);
  if (parts.size < run.parts)
    throw new RredcotError(`${folder}: ${run.parts - parts.size} of ${run.parts} parts are damaged`, {
      exitCode: EXIT.interrupted,
      hint: 'the same command again, which makes them anew',
    });
  const { traces: rows, rejects } = sumCounts(parts.values());
  const facts = { ...layout, rows, rejects, format: run.output, words: wordsOf(run.config) };
  await writeCard(runPaths(folder).card, facts);
  await removeLeftovers(folder);
}
