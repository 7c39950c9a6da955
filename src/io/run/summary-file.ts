// `<output>.summary.json`: what a run did and with which configuration, for programs, and for `--config`.
import { VERSION } from '../../version.js';
import { writeText } from '../files/json-file.js';
import { summaryPath } from '../layout/run-paths.js';

/**
 * Writes a finished run's summary beside its output; there is none beside stdout.
 * @param figures the record with which the log ends
 */
export async function writeSummary(
  { kind, path }: { readonly kind: 'file' | 'folder' | 'stdout'; readonly path: string },
  config: Readonly<Record<string, unknown>>,
  figures: Readonly<Record<string, unknown>>,
): Promise<void> {
  if (kind === 'stdout') return;
  const summary = { format: 1, rredcot: VERSION, ...figures, config };
  await writeText(summaryPath(path), `${JSON.stringify(summary, null, 2)}\n`);
}
