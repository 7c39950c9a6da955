// JSON lines say nothing of how they were made: what lies beside them in, the configuration of their run out.
import { readJson } from '../../io/files/json-file.js';
import { readSum } from '../../io/files/sum-file.js';
import { runPaths } from '../../io/layout/run-paths.js';
import { mergedPath } from '../../io/merge/merged.js';
import { readSummary } from '../../io/run/summary-file.js';
import { edited } from '../../io/verify/as-written.js';
import { ownSummary } from '../../io/verify/check-beside.js';

export type Config = Readonly<Record<string, unknown>>;

/**
 * The summary beside a file tells it, or what describes a folder; undefined where there is none of them.
 * @throws RredcotError (exit 65) for a summary that is not the one that was written
 */
export async function configBeside(path: string): Promise<Config | undefined> {
  const { summary, findings } = await ownSummary(path, undefined, await readSum(path));
  const [finding] = findings;
  if (finding !== undefined) throw edited(finding.file, finding.text);
  const beside = summary ?? (await readSummary(path));
  if (beside !== undefined) return beside.config;
  for (const place of [runPaths(path).run, mergedPath(path)]) {
    const found = await readJson<{ config?: unknown; rredcot?: unknown }>(place);
    if (typeof found?.rredcot === 'string' && typeof found.config === 'object' && found.config !== null)
      return found.config as Config;
  }
  return undefined;
}
