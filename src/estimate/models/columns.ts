// The column that a pass behind a hint writes beside ours.
import { FLOAT32_LIST, type OutputColumn, requestedColumn } from '../../io/arrow/output-columns.js';

export const HINT_LOGPROBS = 'hint_logprobs';

/** The column that such a run writes beside ours: log p of the completion's tokens with the hint. */
export const HINT_COLUMNS: readonly OutputColumn[] = [
  requestedColumn(
    HINT_LOGPROBS,
    FLOAT32_LIST,
    'log-probability of each completion token behind the prompt with the hint, nats',
  ),
];
