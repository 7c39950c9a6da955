// What `compare` has found in, written as a page.
import type { CreditTable } from '../../compare/credit-table.js';
import { writeText } from '../../io/files/json-file.js';
import { escapeControls } from '../../printable.js';
import { type DrawnComparison, drawComparison } from '../../report/compare-view.js';
import type { Log } from '../../report/log.js';
import { comparePage } from '../../report/page/compare-page.js';

/** @throws RredcotError where it cannot be written */
export async function writeComparisonPage(
  output: string,
  report: DrawnComparison,
  table: CreditTable,
  log: Log,
): Promise<void> {
  await writeText(output, comparePage({ report, table, text: drawComparison(report) }));
  log.text(`written to ${escapeControls(output)}`);
}
