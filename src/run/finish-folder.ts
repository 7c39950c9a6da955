// The end of a run's folder: where all of its parts stand, the dataset card is written, and what killed processes have left goes.

import { EXIT, RredcotError } from '../errors.js';
import { wordsOf } from '../estimate/registry.js';
import { type OutputColumn, outputColumns } from '../io/arrow/output-columns.js';
import type { PassThroughColumn } from '../io/arrow/schema.js';
import { writeText } from '../io/files/atomic-file.js';
import { textOf } from '../io/files/files.js';
import { runPaths } from '../io/files/run-folder.js';
import { sumCounts } from '../io/write/facts.js';
import { datasetCard } from '../report/dataset-card.js';
import type { Log } from '../report/log.js';
import { existingParts, presentParts, removeLeftovers } from './folder.js';
import type { Run } from './identity.js';

/** What every part of a run has. */
interface PartLayout {
  readonly ourColumns: readonly OutputColumn[];
  readonly passThrough: readonly PassThroughColumn[];
  readonly metadata: Readonly<Record<string, string>>;
}

/** Says how many parts are there; where all are, ends the run. Whichever shard is the last does so. A card that somebody else has put there stays. */
export async function finishFolder(
  folder: string,
  run: Run,
  { ourColumns, passThrough, metadata }: PartLayout,
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
  const { card } = runPaths(folder);
  if ((await textOf(card)) === undefined) {
    const columns = outputColumns(run.output === 'jsonl' ? [] : passThrough, ourColumns);
    const meanings = columns.flatMap(({ name, meaning }) => (meaning === undefined ? [] : [[name, meaning]]));
    const { traces: rows, rejects } = sumCounts(parts.values());
    const text = datasetCard({
      ...{ format: run.output, columns: columns.map(({ name }) => name), metadata, rows, rejects },
      ...{ words: wordsOf(run.config), meanings: Object.fromEntries(meanings) },
      files: `part-*.${run.output}`,
    });
    await writeText(card, text).catch(async (error: unknown) => {
      // another shard has ended the run at the same time
      if ((await textOf(card)) === undefined) throw error;
    });
  }
  await removeLeftovers(folder);
}
