// `--dry-run`: traces that are ready for the policy in, what a run of them would be out, as lines for a terminal.
import type { Attributes, AttributionOptions } from '../../estimate/attributing/attributed.js';
import { type AttributionForecast, AttributionTally } from '../../estimate/attributing/forecast.js';
import type { PassJob } from '../../estimate/passes/cut-windows.js';
import { type Forecast, type ForecastBy, forecast } from '../../estimate/passes/forecast.js';
import { type SamplingForecast, SamplingTally } from '../../estimate/sampling/forecast.js';
import type { MonteCarloOptions } from '../../estimate/sampling/sampled.js';
import { count, plural } from '../../plural.js';
import type { PolicyWrites } from '../../policy/run/continue.js';
import { escapeControls } from '../../printable.js';
import { duration } from '../../report/progress.js';
import { type BadRow, eachTrace } from '../../rows.js';
import type { Reference } from '../../trace.js';
import { RejectTally } from '../job/reject-limits.js';

/** What the policy and the first trace's references make of an exit. */
interface BranchText {
  readonly close: string;
  readonly open: string;
  readonly closer: string;
  readonly maxTokens: number;
  /** what runs it */
  readonly device: string;
}

const LABEL_WIDTH = 12;
const SHOWN = 160;

/** How the traces would be run. */
interface DryRun<T extends PassJob> extends ForecastBy<T> {
  readonly session: ForecastBy<T>['session'] & PolicyWrites & Attributes;
  readonly text: BranchText;
  /** of the inputs, where they were counted */
  readonly rows: number | undefined;
  /** how values are sampled, by a session whose decoder is open */
  readonly monteCarlo?: MonteCarloOptions | undefined;
  /** how segments are attributed to, where the policy reads a trace again for it */
  readonly attribution?: AttributionOptions | undefined;
}

/** Counts the traces, runs a few of them, and tells what was found. */
export async function dryRun<T extends PassJob & { readonly bank: readonly Reference[] }>(
  ready: AsyncIterable<T | BadRow>,
  { text, rows, monteCarlo, attribution, ...by }: DryRun<T>,
  print: (line: string) => void,
): Promise<void> {
  const rejects = new RejectTally();
  let answer: string | undefined;
  const sampling = monteCarlo && new SamplingTally(monteCarlo);
  const attributing = attribution && new AttributionTally(attribution);
  const noted = eachTrace(ready, (item) => {
    answer ??= item.bank[0]?.answer;
    sampling?.add(item);
    attributing?.add(item);
    return item;
  });
  const found = await forecast(noted, by, (bad) => rejects.add(bad));
  const isTwice = by.again !== undefined;
  for (const line of drawForecast({ ...found, rows, isTwice }, rejects, text, answer)) print(line);
  if (attributing !== undefined) print(drawAttribution(await attributing.measure(by.session)));
  if (sampling !== undefined) print(drawSampling(await sampling.measure(by.session, text.maxTokens)));
}

function drawAttribution({ sequences, tokens, seconds, measured }: AttributionForecast): string {
  const all = `${plural(sequences, 'sequence')}, ${plural(tokens, 'token')} to be read besides`;
  const time =
    measured === 0 ? '' : `: about ${duration(seconds)} more, by ${count(measured)} that were read`;
  return `${'again'.padEnd(LABEL_WIDTH)}${all}${time}`;
}

function drawSampling({ completions, tokens, written, seconds }: SamplingForecast): string {
  const all = `${count(completions)} of some ${count(tokens)} tokens, if each is as long as the rest of its trace`;
  const time =
    completions === 0
      ? ''
      : `: about ${duration(seconds)} more, by ${plural(written, 'token')} that were written`;
  return `${'samples'.padEnd(LABEL_WIDTH)}${all}${time}`;
}

/** The lines, control characters made visible. */
function drawForecast(
  found: Forecast & { readonly rows: number | undefined; readonly isTwice: boolean },
  rejects: RejectTally,
  { close, open, closer, maxTokens, device }: BranchText,
  answer: string | undefined,
): string[] {
  const { traces, promptTokens, completionTokens, longest, exits, branches, state, isTwice } = found;
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
        : `about ${duration(found.seconds)} on ${device}${isTwice ? ' with the second pass' : ''}, by ${plural(found.sample, 'trace')} that ran`,
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
