// `--dry-run`: tells what a run would be, from the traces that are ready for the policy.
import { dataError } from '../errors.js';
import type { Started, ValueJob } from '../estimate/estimator.js';
import { type Forecast, forecast } from '../estimate/forecast.js';
import { itemsOf, windowsOf } from '../estimate/windows.js';
import type { PolicyRuns } from '../model/onnx/session.js';
import { count, plural } from '../plural.js';
import { escapeControls, printableJson } from '../printable.js';
import type { Log } from '../report/log.js';
import { duration } from '../report/progress.js';
import { statusWarnings } from '../report/run-figures.js';
import { RejectTally, rejectWarning } from '../report/summary.js';
import { type BadRow, eachTrace } from '../rows.js';
import { allRejected, type MaxRejects, tooMany } from '../run/reject-limits.js';

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

/** What of a run is told beside its traces. */
interface DryRunFacts {
  /** of the inputs, where they were counted */
  readonly rows: number | undefined;
  /** what runs them; absent where no policy reads them: they are counted */
  readonly passes?: { readonly started: Started; readonly session: PolicyRuns; readonly text: BranchText };
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
    const { counts, total } = this.rejects;
    if (traces === 0 && total > 0) throw allRejected('would be', total, counts[0]);
    const byCode = Object.fromEntries(counts.map((each) => [each.code, each.count]));
    const many = rejectWarning(byCode, traces, this.rejects);
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
  { rows, passes }: DryRunFacts,
  opts: DryRunOptions,
  log: Pick<Log, 'warn'>,
): Promise<void> {
  const met = new Met();
  const { together, values, tally, isSecondPass } = passes?.started ?? {};
  const inOneWindow = (items: AsyncIterable<ValueJob | BadRow>) => {
    const windows = windowsOf(items, () => 0);
    return together?.(windows) ?? windows;
  };
  let answer: string | undefined;
  const counted = tally?.();
  const noted = eachTrace(together === undefined ? ready : itemsOf(inOneWindow(ready)), (item) => {
    answer ??= item.bank[0]?.answer;
    counted?.add(item);
    met.add(item);
    return item;
  });
  const by = passes && { session: passes.session, together: inOneWindow, again: isSecondPass && values };
  const found = await forecast(noted, by, (bad) => met.rejects.add(bad));
  const besides = await counted?.measure();
  const isTwice = isSecondPass === true;
  const [record, lines] =
    passes === undefined
      ? [
          // nothing runs
          { completion_tokens: found.completionTokens, exits: found.exits, seconds: null },
          unreadLines(found),
        ]
      : [forecastRecord(found, passes.text, answer), forecastLines(found, met, passes.text, answer, isTwice)];
  if (opts.json) {
    const told = {
      ...countRecord(found, rows, met),
      ...record,
      ...(besides && { [besides[0]]: besides[1] }),
    };
    opts.print(printableJson(JSON.stringify(told)));
  } else
    for (const line of [...countLines(found, rows, met), ...lines, ...(besides ? [label(...besides)] : [])])
      opts.print(line);
  met.end(found.traces, opts.maxRejects, log);
}

/** What was counted. */
function countRecord({ traces }: Forecast, rows: number | undefined, { rejects, status }: Met) {
  return {
    ...{ format: 1, rows: rows ?? null, traces, rejects: rejects.total },
    reject_codes: Object.fromEntries(
      rejects.counts.map(({ code, count, first }) => [code, { count, first }]),
    ),
    status,
  };
}

function unreadLines({ completionTokens, exits }: Forecast): string[] {
  return [
    label('tokens', `${count(completionTokens)} in completions`),
    label('exits', count(exits)),
    label('time', 'no policy runs'),
  ];
}

/** And where one does: what was not measured is null. */
function forecastRecord(
  found: Forecast,
  { close, open, closer, maxTokens, device }: BranchText,
  answer: string | undefined,
) {
  const { state, traces } = found;
  return {
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

function countLines({ traces }: Forecast, rows: number | undefined, { rejects, status }: Met): string[] {
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

function forecastLines(
  found: Forecast,
  met: Met,
  { close, open, closer, maxTokens, device }: BranchText,
  answer: string | undefined,
  isTwice: boolean,
): string[] {
  const { traces, promptTokens, completionTokens, longest, exits, branches, state } = found;
  const tooLong = met.rejects.counts.find(({ code }) => code === 'too_long')?.count ?? 0;
  const tokens = `${count(completionTokens)} in completions, ${count(promptTokens)} in prompts`;
  const parts = Object.entries({ close, open, closer });
  const lines = [
    label('tokens', `${tokens}; the longest trace has ${count(longest)}`),
    label('too long', `${count(tooLong)}; the policy takes ${count(maxTokens)} tokens`),
    label('exits', `${count(exits)}, with ${plural(branches, 'branch', 'branches')}`),
    label('template', parts.map(([part, text]) => `${part} ${JSON.stringify(text)}`).join(', ')),
  ];
  if (state !== undefined && answer !== undefined)
    lines.push(label('branch', `${tail(state)} ┃${close}${open}┃ ${answer}${closer}`));
  if (traces === 0) return [...lines, label('time', 'no trace to run')];
  const how = `on ${device}${isTwice ? ' with the second pass' : ''}`;
  const memory = `${count(Math.round(found.bytes / 2 ** 20))} MiB`;
  return [
    ...lines,
    label('time', `about ${duration(found.seconds)} ${how}, by ${plural(found.sample, 'trace')} that ran`),
    label('memory', `about ${memory}, the longest trace's run included`),
  ];
}

function tail(text: string): string {
  const characters = [...text];
  return characters.length <= SHOWN ? text : `… ${characters.slice(-SHOWN).join('')}`;
}
