// Draws what `--dry-run` has found, for a terminal.
import type { Forecast } from '../estimate/passes/forecast.js';
import { count, plural } from '../plural.js';
import { escapeControls } from '../printable.js';
import { duration } from './progress.js';

/** What the policy and the first trace's references make of an exit. */
export interface BranchText {
  readonly close: string;
  readonly open: string;
  readonly closer: string;
  readonly maxTokens: number;
  /** what runs it */
  readonly device: string;
}

/** Traces that would be rejected. */
export interface ForecastRejects {
  readonly total: number;
  /** the commonest first */
  readonly counts: readonly { readonly code: string; readonly count: number; readonly first: string }[];
}

const LABEL_WIDTH = 12;
const SHOWN = 160;

/** The lines, control characters made visible. */
export function drawForecast(
  found: Forecast & { readonly rows: number | undefined },
  rejects: ForecastRejects,
  { close, open, closer, maxTokens, device }: BranchText,
  answer: string | undefined,
): string[] {
  const { traces, promptTokens, completionTokens, longest, exits, branches, state } = found;
  const label = (name: string, text: string) => escapeControls(`${name.padEnd(LABEL_WIDTH)}${text}`);
  const tooLong = rejects.counts.find(({ code }) => code === 'too_long')?.count ?? 0;
  const codes = rejects.counts.map(({ code, count: n }) => `${code} ${count(n)}`).join(', ');
  const tokens = `${count(completionTokens)} in completions, ${count(promptTokens)} in prompts`;
  return [
    label(
      'traces',
      found.rows === undefined ? count(traces) : `${count(traces)}, from ${plural(found.rows, 'row')}`,
    ),
    label('rejected', rejects.total === 0 ? '0' : `${count(rejects.total)} (${codes})`),
    ...rejects.counts.map(({ first }) => label('', first)),
    label('tokens', `${tokens}; the longest trace has ${count(longest)}`),
    label('too long', `${count(tooLong)}; the policy takes ${count(maxTokens)} tokens`),
    label('exits', `${count(exits)}, with ${plural(branches, 'branch', 'branches')}`),
    label(
      'template',
      `close ${JSON.stringify(close)}, open ${JSON.stringify(open)}, closer ${JSON.stringify(closer)}`,
    ),
    ...(state === undefined || answer === undefined
      ? []
      : [label('branch', `${tail(state)} ┃${close}${open}┃ ${answer}${closer}`)]),
    label(
      'time',
      traces === 0
        ? 'no trace to run'
        : `about ${duration(found.seconds)} on ${device}, by ${plural(found.sample, 'trace')} that ran`,
    ),
    ...(traces === 0
      ? []
      : [
          label(
            'memory',
            `about ${count(Math.round(found.bytes / 2 ** 20))} MiB, the longest trace's run included`,
          ),
        ]),
  ];
}

function tail(text: string): string {
  const characters = [...text];
  return characters.length <= SHOWN ? text : `… ${characters.slice(-SHOWN).join('')}`;
}
