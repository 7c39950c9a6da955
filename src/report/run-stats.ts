// What a command counts of its rows and rejects as they go by, and what it says of them at the end.
import type { Counts } from '../io/write/facts.js';
import type { Target } from '../io/write/target.js';
import { type PolicyFacts, type PolicyFolder, policyFacts } from '../model/onnx/folder.js';
import { plural } from '../plural.js';
import { escapeControls } from '../printable.js';
import { type BadRow, isBad } from '../rows.js';
import type { OutputRow } from '../scored.js';
import { type RejectTally, RunCounts } from './counts.js';
import type { Log } from './log.js';
import { type SeenNames, seenNames } from './names.js';
import { endLines, endRecord, sizeLine, tokensPerSecond } from './numbers-view.js';
import { duration, type Expected, Progress, type TokenMeter } from './progress.js';
import { type MadeBy, rejectWarning, warningsOf } from './warnings.js';

export interface StatsOptions {
  /** where the command counts tokens as it writes them */
  readonly meter?: TokenMeter | undefined;
  readonly policy: PolicyFolder | undefined;
  /** whether what follows of a trace's group counts */
  readonly usesGroups: boolean;
  /** how values are called in the trace that is drawn at the end; undefined where there are none */
  readonly valueName?: string | undefined;
  /** rows of the output that a trace of the input becomes (default 1) */
  readonly rowsPerTrace?: number;
  readonly target: Target;
  /** the resolved configuration */
  readonly config: Readonly<Record<string, unknown>>;
  readonly expected: Expected;
  /** what earlier attempts have counted */
  readonly before?: Pick<Counts, 'traces' | 'rejects' | 'tokens'>;
  /** its rows are computed here, not made of stored ones */
  readonly isComputed: boolean;
  /** what is recorded besides */
  readonly beside?: () => Readonly<Record<string, unknown>>;
  /** traces of all inputs, where a limit takes fewer */
  readonly whole?: number | undefined;
  /** the first pass has looked at the traces' names */
  readonly isNamed: boolean;
  readonly log: Log;
}

/** Traces after which the figures say something. */
const ENOUGH_TO_WARN = 64;

/** What is counted of a command's share of a run. */
export class RunStats {
  private readonly progress: Progress;
  private readonly counts: RunCounts;
  private readonly warned = new Set<string>();
  private readonly names: SeenNames | undefined;
  /** what made the rows, where a policy did */
  private readonly policy: PolicyFacts | undefined;

  constructor(private readonly opts: StatsOptions) {
    const { log, expected, meter, policy, isNamed, usesGroups } = opts;
    this.policy = policy && policyFacts(policy);
    this.progress = new Progress(log, expected, meter);
    // that values do not tell right from wrong is for `summary` to say
    this.counts = new RunCounts(false, this.policy?.vocab);
    this.names = isNamed ? undefined : seenNames(usesGroups);
  }

  /** Everything of this share, the parts of earlier attempts included. */
  get totals(): Pick<Counts, 'traces' | 'rejects' | 'tokens'> {
    const { before = { traces: 0, rejects: 0, tokens: 0 } } = this.opts;
    const { traces, rejects, tokens } = this.progress.totals();
    return {
      traces: traces + before.traces,
      rejects: rejects + before.rejects,
      tokens: tokens + before.tokens,
    };
  }

  /** The reasons of this process's rejects. */
  get rejects(): RejectTally {
    return this.counts.rejects;
  }

  add(item: OutputRow | BadRow): void {
    const { progress, counts } = this;
    if (isBad(item)) {
      progress.reject(item.ordinal);
      counts.rejects.add(item);
      return;
    }
    progress.trace(item.completionIds?.length ?? 0, item.trace.source.ordinal);
    counts.add(item);
    this.names?.add({ ...item.trace, prompt: item.promptIds?.join() ?? null, completion: undefined });
    // hours may pass until the end
    if (progress.totals().traces === ENOUGH_TO_WARN) this.warn(true);
  }

  private warn(isEarly: boolean): void {
    const { config, log } = this.opts;
    const { rule, thoughtTags } = config as MadeBy;
    const made = { policy: this.policy, rule, thoughtTags };
    for (const { code, message } of warningsOf(this.counts.numbers, made)) {
      // the first traces may well be of one side
      if (isEarly && code === 'one_sided') continue;
      if (!this.warned.has(code)) log.warn(code, message);
      this.warned.add(code);
    }
  }

  /** The record with which the log ends. */
  doneRecord(): Record<string, unknown> {
    const { traces, tokens, rejects, seconds } = this.progress.totals();
    const tokens_per_s = tokensPerSecond({ tokens, seconds });
    const done = { traces, tokens, rejects, seconds, ...(this.opts.isComputed && { tokens_per_s }) };
    const figures = endRecord(this.counts.numbers, this.policy);
    return { ...done, ...figures, ...this.opts.beside?.(), output: this.opts.target.path };
  }

  /** The same of the whole run, for its summary: where an earlier attempt has made a part of it, what both can count. */
  get wholeRecord(): Record<string, unknown> {
    const { beside, target } = this.opts;
    return this.isResumed ? { ...this.totals, ...beside?.(), output: target.path } : this.doneRecord();
  }

  private get isResumed(): boolean {
    const { traces = 0, rejects = 0 } = this.opts.before ?? {};
    return traces + rejects > 0;
  }

  /** Nothing is told of the progress any more. */
  end(): void {
    this.progress.end();
  }

  /** What all of the inputs would take where a limit has ended the run. @param whole their traces */
  private wholeText(whole: number): string {
    const { traces, rejects, seconds } = this.progress.totals();
    const done = Math.max(1, traces / (this.opts.rowsPerTrace ?? 1) + rejects);
    return `the whole input, about ${plural(whole, 'trace')}, would take about ${duration((seconds / done) * whole)}`;
  }

  /** Tells the user what was done. */
  report(): void {
    const { counts, names, policy, progress } = this;
    const { log, target, valueName, whole } = this.opts;
    const lines = endLines(counts.numbers, counts.rejects, policy, valueName);
    log.text([sizeLine(progress.totals()), ...lines].join('\n'));
    this.warn(false);
    for (const { code, message } of names?.warnings() ?? []) log.warn(code, message);
    const rejected = rejectWarning(counts.rejects, this.totals.traces);
    if (rejected !== undefined) log.warn(rejected.code, rejected.message);
    if (this.isResumed) log.info('these figures are of this attempt alone: rredcot summary counts them all');
    if (counts.rejects.total > 0) log.text(`rejects in ${escapeControls(target.rejects)}`);
    if (target.path !== '-') log.text(`written to ${escapeControls(target.path)}`);
    if (whole !== undefined) log.text(this.wholeText(whole));
    log.record('done', this.doneRecord());
  }
}
