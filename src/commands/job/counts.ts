// Counts what this command's own workers have done in a run folder.
import { readdir } from 'node:fs/promises';
import { valueNameOf } from '../../estimate/nature.js';
import { storedNature } from '../../estimators/registry.js';
import type { Shard } from '../../io/files/chunks.js';
import type { RunDescription } from '../../io/run/description.js';
import { sumCounts } from '../../io/run/records.js';
import { readRunState } from '../../io/run/state.js';

/** What the records of this command's own workers hold. */
export async function ownCounts(folder: string, { index, count: n }: Shard, workers: number) {
  const hasRun = (await readdir(folder).catch((): string[] => [])).includes('run.json');
  const state = hasRun ? await readRunState(folder) : undefined;
  // a run of another layout is told of by the workers
  const isOwn = state?.description.shards === n * workers;
  const own = (state?.shards ?? []).filter(({ shard }) => isOwn && shard.index % n === index);
  const chunks = own.reduce((sum, shard) => sum + shard.chunks, 0);
  return {
    ...sumCounts(own.map(({ counts }) => counts)),
    chunks,
    figures: own.map(({ figures }) => figures),
    valueName: state && shownValues(state.description),
  };
}

/** How values are called; undefined where a command makes none. */
function shownValues({ command, config }: RunDescription): string | undefined {
  return command === 'score' ? valueNameOf(storedNature(config)) : undefined;
}
