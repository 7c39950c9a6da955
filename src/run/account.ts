// What a command counts of its rows and rejects as they go by, or as its workers note them, and what it says of them at the end.
import { isAnswerNow } from '../estimate/nature.js';
import { storedNature } from '../estimate/registry.js';
import { policyFacts } from '../model/onnx/folder.js';
import { plural } from '../plural.js';
import { escapeControls } from '../printable.js';
import type { Log } from '../report/log.js';
import { SeenNames } from '../report/names.js';
import { duration, type Expected, Progress } from '../report/progress.js';
import { figureRecord, figureWarnings, type MadeBy, type PolicyFacts } from '../report/run-figures.js';
import { RejectTally, Summary, suggestCalibration } from '../report/summary.js';
import { drawnHere, drawTrace } from '../report/trace-view.js';
import { isWorker, MET } from '../report/worker-log.js';
import { type BadRow, isBad } from '../rows.js';
import type { OutputRow } from '../scored.js';
import type { Run } from './open-run.js';
import type { JobOptions, Work } from './options.js';
import { sumCounts } from './records.js';
import { checkRejects, nothingBut, refuseAllRejected, refuseHopeless } from './reject-limits.js';
import type { Target } from './target.js';
import type { Notes } from './workers.js';

export interface AccountOptions
  extends Pick<Work, 'meter' | 'policy' | 'reward' | 'valueName' | 'rowsPerTrace'>,
    Pick<JobOptions, 'maxRejects'> {
  readonly target: Target;
  readonly run: Run;
  /** the resolved configuration */
  readonly config: Readonly<Record<string, unknown>>;
  readonly expected: Expected;
  readonly log: Log;
}

/** Traces after which the figures say something. */
const ENOUGH_TO_WARN = 64;

/** What of a run's configuration says why its σ is as it is, for the warnings at its end. */
export function madeBy(config: Readonly<Record<string, unknown>>): MadeBy {
  const { command, rule, baseline, thoughtTags } = config;
  const isExpected = storedNature(config)?.onRewardScale === true;
  return {
    ...{ rule, baseline: baseline === 'auto' && isExpected ? 'value' : baseline },
    thoughtTags: thoughtTags as MadeBy['thoughtTags'],
    isSampled: command === 'sample',
  };
}

/** What is counted of a command's share of a run. */
export class Account {
  readonly progress: Progress;
  private readonly summary: Summary;
  private readonly warned = new Set<string>();
  private readonly names: SeenNames | undefined;
  /** who makes the rows, where that is not this process alone */
  private readonly by: string | undefined;
  private readonly isAll: boolean;
  /** what made the rows, where a policy did */
  private readonly policy: PolicyFacts | undefined;

  constructor(private readonly opts: AccountOptions) {
    const { run, log, expected, meter, policy, reward } = opts;
    this.policy = policy && policyFacts(policy);
    const workers = run.shards.length;
    this.by = workers === 1 ? undefined : plural(workers, 'worker');
    this.isAll = run.shard.count === 1;
    this.progress = new Progress(log, expected, meter, this.by);
    // those of workers are read from their records, in the end
    this.summary = new Summary(this.by ? [] : Array.from(run.chunks.values(), ({ figures }) => figures));
    // of what was surveyed it has been told
    const isNamed = typeof run.survey?.traces === 'number';
    this.names = isNamed ? undefined : new SeenNames(reward !== undefined);
  }

  /** Everything of this share, the chunks of earlier attempts included. */
  get totals(): { readonly traces: number; readonly rejects: number } {
    const { before } = this.opts.run;
    const { traces, rejects } = this.progress.totals();
    return { traces: traces + before.traces, rejects: rejects + before.rejects };
  }

  /** @throws RredcotError (exit 65) where too many are rejected by now */
  add(item: OutputRow | BadRow): void {
    const { progress, summary } = this;
    if (isBad(item)) {
      progress.reject(item.ordinal);
      summary.reject(item);
      if (isWorker()) this.opts.log.record(MET, { ...summary.part });
      this.checkSoFar(summary.rejects);
      return;
    }
    progress.trace(item.completionIds?.length ?? 0, item.trace.source.ordinal);
    summary.add(item);
    this.names?.add({ ...item.trace, prompt: item.promptIds?.join() ?? null, completion: undefined });
    // hours may pass until the end
    if (progress.totals().traces === ENOUGH_TO_WARN) this.warn(true);
  }

  /** Looks at what workers have noted so far. @throws as `add` */
  look(notes: Notes): void {
    const rejects = new RejectTally();
    for (const found of notes.flatMap((each) => each?.met?.rejects ?? [])) rejects.include(found);
    const sum = (field: string): number =>
      notes.reduce((all, each) => all + Number(each?.progress?.[field] ?? 0), 0);
    // each goes through all rows for its part of them; one that has not begun has done nothing
    const isShared = notes.some((each) => each?.progress?.share !== undefined);
    const share = isShared ? sum('share') / notes.length : undefined;
    this.progress.set({ traces: sum('traces'), tokens: sum('tokens'), rejects: rejects.total }, share);
    this.checkSoFar(rejects);
  }

  /** Takes what workers have done from the records of their chunks, and from their notes what these do not hold. */
  close(notes: Notes): void {
    const { chunks, before } = this.opts.run;
    const { traces, tokens, rejects } = sumCounts(chunks.values());
    this.progress.set({
      traces: traces - before.traces,
      tokens: tokens - before.tokens,
      rejects: rejects - before.rejects,
    });
    for (const { figures } of chunks.values()) this.summary.addFigures(figures);
    for (const each of notes) if (each?.met !== undefined) this.summary.include(each.met);
  }

  private checkSoFar(rejects: RejectTally): void {
    const { maxRejects, target } = this.opts;
    checkRejects(this.totals, maxRejects, target, false);
    // a shard of many may well hold nothing but rejects
    if (this.isAll) refuseHopeless(this.totals.traces, rejects, maxRejects, nothingBut(target));
  }

  /** @throws RredcotError (exit 65) where too many were rejected, or all */
  check(): void {
    const { maxRejects, target } = this.opts;
    checkRejects(this.totals, maxRejects, target, true);
    if (this.isAll) refuseAllRejected(this.totals, target, this.summary.rejects.counts[0]);
  }

  /** A worker's figures are a part of what its parent looks at. */
  private warn(isEarly: boolean): void {
    if (isWorker()) return;
    const { config, log } = this.opts;
    for (const { code, message } of figureWarnings(this.summary.figures, this.policy, madeBy(config))) {
      // the first traces may well be of one side
      if (isEarly && code === 'one_sided') continue;
      if (!this.warned.has(code)) log.warn(code, message);
      this.warned.add(code);
    }
  }

  /** The record with which the log ends. */
  doneRecord(): Record<string, unknown> {
    const { run, target } = this.opts;
    const { traces, tokens, rejects, seconds } = this.progress.totals();
    const tokens_per_s = Math.round(tokens / Math.max(seconds, 1e-3));
    const workers = this.by === undefined ? {} : { workers: run.shards.length };
    const done = { traces, tokens, rejects, seconds, tokens_per_s, ...workers };
    return { ...done, ...figureRecord(this.summary.figures, this.policy), output: target.path };
  }

  /** What all of the inputs would take where a limit has ended the run. @param whole their traces */
  private wholeText(whole: number): string {
    const { traces, rejects, seconds } = this.progress.totals();
    const done = Math.max(1, traces / (this.opts.rowsPerTrace ?? 1) + rejects);
    return `the whole input, about ${plural(whole, 'trace')}, would take about ${duration((seconds / done) * whole)}`;
  }

  /** Tells the user what was done; where there are values, draws the trace whose travel farthest. */
  report(): void {
    const { summary, names, policy } = this;
    const { log, target, config, valueName } = this.opts;
    if (isWorker()) log.record(MET, { ...summary.part });
    if (valueName !== undefined && summary.example !== undefined)
      log.text(`\n${drawTrace(summary.example, { ...drawnHere(), valueName })}\n`);
    const { figures } = summary;
    log.text(summary.describe(this.progress.totals(), policy, valueName, this.by).join('\n'));
    this.warn(false);
    for (const { code, message } of names?.warnings ?? []) log.warn(code, message);
    const rejected = isWorker() ? undefined : summary.rejectWarning(this.totals.traces);
    if (rejected !== undefined) log.warn(rejected.code, rejected.message);
    if (Object.keys(figures.rejects).length > 0) log.text(`rejects in ${escapeControls(target.rejects)}`);
    if (target.path !== '-') log.text(`written to ${escapeControls(target.path)}`);
    const { whole } = this.opts.run.survey ?? {};
    if (whole !== undefined) log.text(this.wholeText(whole));
    const isAnswers = isAnswerNow(storedNature(config));
    const next = this.isAll && suggestCalibration(figures, config, target.path, isAnswers);
    if (next) log.text(next);
    log.record('done', this.doneRecord());
  }
}
