// Tells inputs that were scored before by their first row: hardly anybody wants two credits in one file.

import { OUR_COLUMNS, type OurColumn } from '../../io/arrow/output-columns.js';
import { STDIN } from '../../io/files/byte-source.js';
import type { Columns } from '../../io/map/path.js';
import type { Input } from '../../io/read/inputs.js';
import { type ColumnChoice, isWritten } from '../../io/write/column-choice.js';
import { shellWord } from '../../printable.js';
import { isScored } from '../../report/scored-row.js';

/** What a trace is made of, and the same in every run. */
const OF_TRACES: readonly OurColumn[] = [
  ...(['id', 'group', 'prompt', 'completion', 'prompt_ids', 'completion_ids', 'reward'] as const),
];

/** undefined where the row was not scored, or nothing of that is written again */
export function scoredAlready(
  inputs: readonly Input[],
  first: Columns,
  choice: ColumnChoice,
): string | undefined {
  const made = OUR_COLUMNS.filter(
    (name) => !OF_TRACES.includes(name) && Object.hasOwn(first, name) && isWritten(choice, name),
  );
  if (!isScored(first) || made.length === 0) return undefined;
  const path = inputs.length === 1 ? inputs[0]?.path : undefined;
  const file = path === undefined || path === STDIN ? '<file>' : shellWord(path);
  return `${path ?? 'the input'}: was scored already: rredcot redistribute ${file} gives another credit without a policy; here what that has made is kept as input_<name>, without it: --drop ${made.join(',')}`;
}
