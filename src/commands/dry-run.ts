// `--dry-run`: tells what a run would be, from the traces that are ready for the policy.
import { dataError } from '../errors.js';
import { itemsOf, windowsOf } from '../estimate/cut-windows.js';
import { type Forecast, forecast } from '../estimate/forecast.js';
import type { Started, ValueJob } from '../estimators/estimator.js';
import { count, plural } from '../plural.js';
import type { PolicyRuns } from '../policy/run/session.js';
import { escapeControls, printableJson } from '../printable.js';
import type { Log } from '../report/log.js';
import { duration } from '../report/progress.js';
import { statusWarnings } from '../report/run-figures.js';
import { rejectWarning } from '../report/summary.js';
import { type BadRow, eachTrace, isBad } from '../rows.js';
import { cureOf, type MaxRejects, RejectTally, tooMany } from './job/reject-limits.js';

/** What the policy and the first trace's references make of an exit. */
interface BranchText {
  readonly close: string;
  readonly open: string;
  readonly closer: string;
  readonly maxTokens: number;
  /** what runs it */
  readonly device: string;
}

/** What was found, and of how many rows. */
type Found = Forecast & { readonly rows: number | undefined; readonly isTwice: boolean };

const LABEL_WIDTH = 12;
const SHOWN = 160;

/** What of a run is told beside its traces. */
interface Facts {
  readonly text: BranchText;
  /** of the inputs, where they were counted */
  readonly rows: number | undefined;
}

/** How it is told. */
export interface DryRunOptions {
  /** one JSON object in place of lines for people */
  readonly json: boolean;
  readonly maxRejects: MaxRejects | undefined;
  print(line: string): void;
}

/** What was met on the way to the policy. */
class Met {
  readonly rejects = new RejectTally();
  /** traces by status code */
  readonly status: Record<string, number> = {};

  add({ status, reward }: Pick<ValueJob, 'status' | 'reward'>): void {
    for (const code of new Set([...status, ...reward.status]))
      this.status[code] = (this.status[code] ?? 0) + 1;
  }

  /** Warns as the run would. @throws RredcotError (exit 65) where every trace would be rejected, or too many */
  end(traces: number, limit: MaxRejects | undefined, log: Pick<Log, 'warn'>): void {
    const { commonest, counts, total } = this.rejects;
    if (traces === 0 && commonest !== undefined)
      throw dataError(
        `${total === 1 ? 'the only trace' : `every one of ${plural(total, 'trace')}`} would be rejected (${commonest.code} ${count(commonest.count)}, first ${commonest.first})`,
        cureOf(commonest.first) ?? 'correct the rows, or tell where their fields are with --map',
      );
    const byCode = Object.fromEntries(counts.map((each) => [each.code, each.count]));
    const many = rejectWarning(byCode, traces, (code) => counts.find((each) => each.code === code)?.first);
    for (const warning of [...statusWarnings(this.status), ...(many ? [many] : [])])
      log.warn(warning.code, warning.message);
    const over = tooMany({ traces, rejects: total }, limit, true);
    if (over !== undefined) throw dataError(over, 'raise --max-rejects, or correct the rows');
  }
}

/**
 * Counts the traces, runs a few of them, and tells what was found.
 * @throws RredcotError (exit 65) where every trace would be rejected, or more than `--max-rejects`
 */
export async function dryRun(
  ready: AsyncIterable<ValueJob | BadRow>,
  { together, values, tally, isSecondPass }: Started,
  session: PolicyRuns,
  { text, rows }: Facts,
  opts: DryRunOptions,
  log: Pick<Log, 'warn'>,
): Promise<void> {
  const met = new Met();
  let answer: string | undefined;
  const counted = tally?.();
  const all = together === undefined ? ready : itemsOf(together(windowsOf(ready, () => 0)));
  const noted = eachTrace(all, (item) => {
    answer ??= item.bank[0]?.answer;
    counted?.add(item);
    met.add(item);
    return item;
  });
  const inOneWindow = (items: AsyncIterable<ValueJob | BadRow>) => {
    const windows = windowsOf(items, () => 0);
    return together?.(windows) ?? windows;
  };
  const by = { session, together: inOneWindow, ...(isSecondPass && { again: values<ValueJob> }) };
  const found = await forecast(noted, by, (bad) => met.rejects.add(bad));
  const told = { ...found, rows, isTwice: isSecondPass === true };
  const besides = await counted?.measure();
  const record = { ...forecastRecord(told, met, text, answer), ...(besides && { [besides[0]]: besides[1] }) };
  tell(opts, record, [...drawForecast(told, met, text, answer), ...(besides ? [label(...besides)] : [])]);
  met.end(found.traces, opts.maxRejects, log);
}

function tell({ json, print }: DryRunOptions, record: object, lines: readonly string[]): void {
  for (const line of json ? [printableJson(JSON.stringify(record))] : lines) print(line);
}

/** What was counted. */
function countRecord(traces: number, rows: number | undefined, { rejects, status }: Met) {
  return {
    ...{ format: 1, rows: rows ?? null, traces, rejects: rejects.total },
    reject_codes: Object.fromEntries(
      rejects.counts.map(({ code, count, first }) => [code, { count, first }]),
    ),
    status,
  };
}

/** The same for programs: what was not measured is null. */
function forecastRecord(
  found: Found,
  met: Met,
  { close, open, closer, maxTokens, device }: BranchText,
  answer: string | undefined,
): Record<string, unknown> {
  const { state, traces } = found;
  return {
    ...countRecord(traces, found.rows, met),
    prompt_tokens: found.promptTokens,
    completion_tokens: found.completionTokens,
    longest: found.longest,
    max_tokens: maxTokens,
    exits: found.exits,
    branches: found.branches,
    template: { close, open, closer },
    branch: state === undefined ? null : { state, answer: answer ?? null },
    device,
    seconds: traces === 0 ? null : found.seconds,
    measured_traces: found.sample,
    bytes: traces === 0 ? null : found.bytes,
  };
}

/** The same where no policy reads the traces: they are counted. @param rows of the inputs, where they were counted */
export async function unreadDryRun(
  ready: AsyncIterable<ValueJob | BadRow>,
  rows: number | undefined,
  opts: DryRunOptions,
  log: Pick<Log, 'warn'>,
): Promise<void> {
  const met = new Met();
  let [traces, tokens, exits] = [0, 0, 0];
  for await (const item of ready) {
    if (isBad(item)) {
      met.rejects.add(item);
      continue;
    }
    met.add(item);
    traces++;
    tokens += item.completionIds.length;
    exits += item.pieces.segments + 1;
  }
  const record = { ...countRecord(traces, rows, met), completion_tokens: tokens, exits, seconds: null };
  tell(opts, record, [
    ...drawCounts(traces, rows, met),
    label('tokens', `${count(tokens)} in completions`),
    label('exits', count(exits)),
    label('time', 'no policy runs'),
  ]);
  met.end(traces, opts.maxRejects, log);
}

function drawCounts(traces: number, rows: number | undefined, { rejects, status }: Met): string[] {
  const codes = rejects.counts.map(({ code, count: n }) => `${code} ${count(n)}`).join(', ');
  const statuses = Object.entries(status).sort();
  return [
    label('traces', rows === undefined ? count(traces) : `${count(traces)}, from ${plural(rows, 'row')}`),
    label('rejected', rejects.total === 0 ? '0' : `${count(rejects.total)} (${codes})`),
    ...rejects.counts.map(({ first }) => label('', first)),
    ...(statuses.length === 0
      ? []
      : [label('status', statuses.map(([code, n]) => `${code} ${count(n)}`).join(', '))]),
  ];
}

/** A line, control characters made visible. */
function label(name: string, text: string): string {
  return escapeControls(`${name.padEnd(LABEL_WIDTH)}${text}`);
}

function drawForecast(
  found: Found,
  met: Met,
  { close, open, closer, maxTokens, device }: BranchText,
  answer: string | undefined,
): string[] {
  const { traces, promptTokens, completionTokens, longest, exits, branches, state, isTwice } = found;
  const tooLong = met.rejects.counts.find(({ code }) => code === 'too_long')?.count ?? 0;
  const tokens = `${count(completionTokens)} in completions, ${count(promptTokens)} in prompts`;
  return [
    ...drawCounts(traces, found.rows, met),
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
