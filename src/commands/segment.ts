// `rredcot segment`: cuts traces into segments without scoring them, by the policy's entropies or by length.
import { EXIT, type ExitCode, TraceRejected } from '../errors.js';
import { segmentRows } from '../estimate/rows.js';
import { resolveInputs } from '../io/inputs.js';
import { type OurColumn, type OutputRow, resolveColumnNames } from '../io/output.js';
import { type BadRow, eachTrace } from '../io/rows.js';
import { windowOf } from '../io/shard.js';
import { type Device, resolveDevice } from '../policy/device.js';
import { encodeTrace } from '../policy/encode.js';
import { openPolicyFolder, type PolicyFolder } from '../policy/folder.js';
import { Prompts } from '../policy/prompts.js';
import { graphFor, PolicySession } from '../policy/session.js';
import { loadTokenizer } from '../policy/tokenizer.js';
import { scoreWindows } from '../policy/windows.js';
import type { Log } from '../report/log.js';
import { cutTrace } from '../segment/given.js';
import { allEnds, mergeSegments, type SegmentOptions, segmentSums } from '../segment/segment.js';
import type { Trace } from '../trace.js';
import { logMapping, resolveMapping } from './mapping.js';
import type { JobOptions } from './options.js';
import { alreadyDone, openRun, type Run, type RunOptions } from './run.js';
import { openSink } from './sink.js';
import { openSource, type Source } from './source.js';
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
  const policy = opts.policy === null ? undefined : await openPolicyFolder(opts.policy);
  const device = policy && (await resolveDevice(opts.device, policy)).device;
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
  const runs = policy && device ? { strategy: 'auto', precision: graphFor(policy, device).precision } : null;
  const described = { command: 'segment', config, policy: policy?.files ?? null, runs };
  await using run = await openRun(target, inputs, described, opts, log);
  if (run.isDone) return alreadyDone(target, run, log);
  const source = await openSource(inputs, {
    run,
    read: mapping.read,
    map,
    needs: { prompt: policy !== undefined, references: false },
    limit: opts.limit,
    maxLineBytes: opts.maxLineBytes,
    typed: target.format !== 'jsonl',
    reward: undefined,
    log,
    signal: opts.signal,
  });
  const { columns, warnings } = resolveColumnNames(source.columns, ourColumns, map, true);
  for (const warning of warnings) log.warn('column_renamed', warning);
  log.info(
    policy === undefined
      ? 'no policy: pieces are merged by length in characters'
      : "pieces are merged by the policy's entropies",
  );
  const sink = await openSink({
    target,
    run,
    ourColumns,
    passThrough: columns,
    metadata: fileMetadata(config, policy),
    maxRejects: opts.maxRejects,
    expected: source.expected,
    log,
    signal: opts.signal,
  });
  const rows =
    policy && device
      ? byEntropy(source, policy, device, opts, run, log)
      : eachTrace(source.traces(), ({ trace }) => byLength(trace, opts.segments));
  await sink.drain(rows);
  sink.report();
  return EXIT.done;
}

/** One run of the policy a trace; its entropies decide the merge. */
async function* byEntropy(
  source: Source,
  policy: PolicyFolder,
  device: Device,
  { segments, chatTemplateArgs }: SegmentCommandOptions,
  { layout }: Run,
  log: Log,
): AsyncGenerator<OutputRow | BadRow> {
  const tokenizer = await loadTokenizer(policy.path);
  const prompts = await Prompts.open(policy, tokenizer, chatTemplateArgs, log);
  const { vocab, maxTokens } = policy.architecture;
  const ready = eachTrace(source.traces(), async ({ trace }) => {
    const encoded = encodeTrace(await prompts.prepare(trace), tokenizer, vocab, maxTokens);
    return { ...encoded, pieces: cutTrace(encoded, segments), continuations: [] };
  });
  const session = await PolicySession.open(policy, device);
  try {
    const scored = scoreWindows(ready, session, 'auto', (row) => windowOf(row, layout));
    yield* eachTrace(scored, ({ job, result }) => {
      if (result instanceof TraceRejected) throw result;
      const { entropies, logprobs, segmentation } = result;
      const { trace, promptIds, completionIds, chars, status } = job;
      const sums = segmentSums(entropies, allEnds(segmentation));
      const rows = segmentRows({ segmentation, chars, entropies: sums });
      return { ...blankRow(trace), promptIds, completionIds, entropies, logprobs, segments: rows, status };
    });
  } finally {
    await prompts.close();
    await session.close();
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
  const chars = Int32Array.from(units, (_, i) => i);
  const tokens = { text: trace.completion, units, textEnd: T };
  const opts = { ...segments, longPiece: LONG_PIECE_CHARACTERS };
  const pieces = cutTrace({ trace: withoutTokenEnds(trace), tokens, chars }, opts);
  const segmentation = mergeSegments(pieces, new Float32Array(T).fill(1));
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
  const units = new Int32Array(text.length + 1);
  let n = 0;
  for (let unit = 0; unit < text.length; n++) {
    unit += (text.codePointAt(unit) as number) > 0xffff ? 2 : 1;
    units[n + 1] = unit;
  }
  return units.slice(0, n + 1);
}

/** A row with nothing in it but its trace. */
function blankRow(trace: Trace): OutputRow {
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
