// `rredcot segment`: cuts traces into segments without scoring them, by the policy's entropies or by length.
import { type ExitCode, TraceRejected } from '../errors.js';
import { segmentRows } from '../estimate/rows.js';
import { TypesChangedError } from '../io/guess.js';
import { resolveInputs } from '../io/inputs.js';
import { type OurColumn, type OutputRow, resolveColumnNames } from '../io/output.js';
import { eachTrace } from '../io/rows.js';
import type { Log } from '../report/log.js';
import { cutTrace } from '../segment/given.js';
import { mergeSegments, type SegmentOptions } from '../segment/segment.js';
import type { Trace } from '../trace.js';
import { inRun } from './in-run.js';
import { logMapping, resolveMapping } from './mapping.js';
import type { JobOptions } from './options.js';
import type { Run, RunOptions } from './run.js';
import { openSink } from './sink.js';
import { openSource } from './source.js';
import { fileMetadata, resolveTarget } from './target.js';
import { writtenColumns } from './written-columns.js';

export interface SegmentCommandOptions extends JobOptions, RunOptions {
  /** null: no policy, length stands in for entropy */
  readonly policy: string | null;
}

/** Where characters stand in for tokens: METHOD's 256 tokens at about four characters each. */
const LONG_PIECE_CHARACTERS = 1024;

const COLUMNS: readonly OurColumn[] = ['id', 'group', 'segments', 'source_row', 'status'];
const POLICY_COLUMNS: readonly OurColumn[] = [
  ...COLUMNS,
  'prompt_ids',
  'completion_ids',
  'logprobs',
  'entropies',
];

/** Cuts every trace; errors and exit codes as `score`. Without `-o` it prints JSONL. */
export async function segment(
  paths: readonly string[],
  opts: SegmentCommandOptions,
  log: Log,
): Promise<ExitCode> {
  const ours = opts.policy === null ? COLUMNS : POLICY_COLUMNS;
  const { columns: ourColumns } = writtenColumns(ours, opts.columns);
  // without a policy neither a tokenizer nor ONNX Runtime is loaded
  const prepared =
    opts.policy === null
      ? undefined
      : await (await import('./segment-policy.js')).preparePolicy(opts.policy, opts);
  const policy = prepared?.policy;
  const inputs = await resolveInputs(paths);
  const format = opts.format ?? (opts.output === undefined ? 'jsonl' : undefined);
  const target = await resolveTarget(opts.output ?? '-', format, inputs);
  const mapping = await resolveMapping(inputs, opts);
  const { map } = mapping;
  logMapping(mapping, opts, log);
  const config = {
    command: 'segment',
    weights: policy ? 'entropy' : 'characters',
    ...mapping.config,
    limit: opts.limit,
    columns: opts.columns,
    ...(policy && { chatTemplateArgs: opts.chatTemplateArgs }),
    ...opts.segments,
  };
  const runs = prepared?.runs ?? null;
  const described = { command: 'segment', config, policy: policy?.files ?? null, runs };
  log.info(
    policy === undefined
      ? 'no policy: pieces are merged by length in characters'
      : "pieces are merged by the policy's entropies",
  );

  async function cut(run: Run, mayGuess: boolean): Promise<void> {
    const source = await openSource(inputs, {
      run,
      read: mapping.read,
      map,
      needs: { prompt: policy !== undefined, references: false },
      limit: opts.limit,
      maxLineBytes: opts.maxLineBytes,
      typed: target.format !== 'jsonl',
      mayGuess,
      reward: undefined,
      log,
      signal: opts.signal,
    });
    const { columns, warnings } = resolveColumnNames(source.columns, ourColumns, map, true);
    for (const warning of warnings) log.warn('column_renamed', warning);
    const sink = await openSink({
      target,
      run,
      ourColumns,
      passThrough: columns,
      metadata: fileMetadata(config, policy),
      maxRejects: opts.maxRejects,
      ahead: source.ahead,
      log,
      signal: opts.signal,
    });
    const rows =
      prepared?.byEntropy(source, run, log) ??
      eachTrace(source.traces(), ({ trace }) => byLength(trace, opts.segments));
    await sink.drain(rows);
    sink.report();
  }
  try {
    // what a policy has computed is not to be thrown away
    const mayGuess = policy === undefined;
    return await inRun(target, inputs, described, opts, log, (run) => cut(run, mayGuess));
  } catch (error) {
    if (!(error instanceof TypesChangedError)) throw error;
    log.info(`${error.message}: all rows are read for their types first, then anew`);
    const anew = { ...opts, restart: true };
    return inRun(target, inputs, described, anew, log, (run) => cut(run, false));
  }
}

/** Characters stand in for tokens, and their number for entropy. @throws TraceRejected without a text */
function byLength(trace: Trace, segments: SegmentOptions): OutputRow {
  if (trace.completion === '')
    throw new TraceRejected(
      'empty_completion',
      'no completion text, expected some: leave out --no-policy for token ids',
    );
  const units = codePointBoundaries(trace.completion);
  const T = units.length - 1;
  const chars = counting(units.length);
  const tokens = { text: trace.completion, units, textEnd: T };
  const opts = { ...segments, longPiece: LONG_PIECE_CHARACTERS };
  const pieces = cutTrace({ trace: withoutTokenEnds(trace), tokens, chars }, opts);
  const segmentation = mergeSegments(pieces, null);
  const rows = segmentRows({ segmentation, chars });
  return {
    ...blankRow(trace),
    segments: rows.map((row) => ({ ...row, start: null, end: null })),
    status: ['segments:by-length'],
  };
}

/** Token indices mean nothing without a tokenizer: only character ends can be used. */
function withoutTokenEnds(trace: Trace): Trace {
  const { segmentEnds: _, ...rest } = trace;
  return rest;
}

/** UTF-16 positions of a text's code point boundaries, 0 and the end included. */
function codePointBoundaries(text: string): Int32Array {
  // most text has no character of two units
  if (!SURROGATE.test(text)) return counting(text.length + 1);
  const units = new Int32Array(text.length + 1);
  let n = 0;
  for (let unit = 0; unit < text.length; n++) {
    unit += (text.codePointAt(unit) as number) > 0xffff ? 2 : 1;
    units[n + 1] = unit;
  }
  return units.slice(0, n + 1);
}

const SURROGATE = /[\ud800-\udfff]/;

const LONG_ROW = 2 ** 20;
let numbers = new Int32Array(0);

/** 0, 1, 2, …: a view of one array for all traces, not to be written to. */
function counting(length: number): Int32Array {
  if (numbers.length < length) {
    // twice as many, so that growing costs little; not for a row of unusual size
    numbers = new Int32Array(length > LONG_ROW ? length : 2 * length);
    for (let i = 0; i < numbers.length; i++) numbers[i] = i;
  }
  return numbers.subarray(0, length);
}

/** A row with nothing in it but its trace. */
export function blankRow(trace: Trace): OutputRow {
  return {
    trace,
    promptIds: null,
    completionIds: null,
    logprobs: null,
    entropies: null,
    sigma: null,
    segments: [],
    valueStart: null,
    referenceLogprobs: null,
    reward: null,
    baseline: null,
    referenceUtilities: null,
    sigmaEss: null,
    sigmaMaxWeight: null,
    status: [],
  };
}
