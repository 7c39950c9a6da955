// Finds out from what lies beside JSON lines how they were made, since they say nothing of it themselves.
import { readJson } from '../../io/files/json-file.js';
import { runPaths } from '../../io/files/run-paths.js';
import { readSum } from '../../io/files/sum-file.js';
import { mergedPath } from '../../io/run/merged.js';
import { readSummary } from '../../io/run/summary-file.js';
import { edited } from '../../io/scored/as-written.js';
import { ownSummary } from '../../io/scored/check-beside.js';
import { REDISTRIBUTED_KEY } from '../../io/scored/origins.js';

export type Config = Readonly<Record<string, unknown>>;

/** What a run or file of JSON lines says of itself. */
export interface Account {
  readonly config: Config;
  /** what it was made of, by the keys under which columnar files say it */
  readonly origins: Readonly<Record<string, string>>;
}

/**
 * The summary beside a file tells it, or what describes a folder; undefined where there is none of them.
 * @throws RredcotError (exit 65) for a summary that is not the one that was written
 */
export async function accountBeside(path: string): Promise<Account | undefined> {
  const { summary, findings } = await ownSummary(path, undefined, await readSum(path));
  const [finding] = findings;
  if (finding !== undefined) throw edited(finding.file, finding.text);
  const beside = summary ?? (await readSummary(path));
  if (beside !== undefined) {
    const { config, redistributed } = beside;
    return {
      config,
      origins: redistributed === undefined ? {} : { [REDISTRIBUTED_KEY]: JSON.stringify(redistributed) },
    };
  }
  for (const place of [runPaths(path).run, mergedPath(path)]) {
    const found = await readJson<{ config?: unknown; rredcot?: unknown }>(place);
    if (typeof found?.rredcot === 'string' && typeof found.config === 'object' && found.config !== null)
      return { config: found.config as Config, origins: {} };
  }
  return undefined;
}
