// Checks that the segments of a stored row end inside its completion.
import { codePoints } from '../../code-points.js';
import type { StoredRow } from './stored-rows.js';

/**
 * Looks at the column `completion`, unless `--map` took the completion from elsewhere.
 * @param row our columns
 * @param whole the input's too
 * @param map `--map` as it was given
 */
export function textFaults(row: StoredRow, whole: StoredRow, map: unknown): string[] {
  const isElsewhere = typeof map === 'string' && /(^|,)\s*completion\s*=(?!\s*completion\s*(,|$))/.test(map);
  const completion = isElsewhere ? null : whole.cell('completion');
  const segments = row.cell('segments');
  const end: unknown = Array.isArray(segments) ? segments.at(-1)?.char_end : null;
  if (typeof completion !== 'string' || typeof end !== 'number') return [];
  const characters = codePoints(completion);
  return end > characters ? [`segments end at character ${end} of ${characters}`] : [];
}
