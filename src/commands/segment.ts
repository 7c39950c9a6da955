// `rredcot segment`: cuts traces into segments without scoring them, by the policy's entropies or by length.
import { EXIT, type ExitCode, TraceRejected } from '../errors.js';
import { segmentRows } from '../estimate/rows.js';
import { TypesChangedError } from '../io/guess.js';
import { resolveInputs } from '../io/inputs.js';
import { parseFieldMap } from '../io/map.js';
import { type OurColumn, type OutputRow, resolveColumnNames } from '../io/output.js';
import type { DeviceChoice } from '../policy/device.js';
import type { Log } from '../report/log.js';
import { cutTrace } from '../segment/given.js';
import { mergeSegments, type SegmentOptions } from '../segment/segment.js';
import type { Trace } from '../trace.js';
import type { JobOptions } from './options.js';
import { openSink, type Sink } from './sink.js';
import { openSource, type Source } from './source.js';
import { fileMetadata, resolveTarget } from './target.js';

export interface SegmentCommandOptions extends JobOptions {
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
  // reading costs most of the time without a policy, so files are read once; what is on stdout cannot be taken back
  const guessTypes = opts.policy === null && opts.output !== undefined && opts.output !== '-';
  try {
    return await segmentOnce(paths, opts, log, guessTypes);
  } catch (error) {
    if (!(error instanceof TypesChangedError)) throw error;
    log.info(
      'a later row has other types than the first ones: starting again, with a look at all rows first',
    );
    return segmentOnce(paths, opts, log, false);
  }
}

async function segmentOnce(
  paths: readonly string[],
  opts: SegmentCommandOptions,
  log: Log,
  guessTypes: boolean,
): Promise<ExitCode> {
  const map = parseFieldMap(opts.map);
  const withPolicy = opts.policy === null ? undefined : await preparePolicy(opts.policy, opts.device);
  const policy = withPolicy?.policy;
  const inputs = await resolveInputs(paths);
  const format = opts.format ?? (opts.output === undefined ? 'jsonl' : undefined);
  const target = await resolveTarget(opts.output ?? '-', format, inputs);
  const source = await openSource(inputs, {
    map,
    needs: { prompt: policy !== undefined, references: false },
    limit: opts.limit,
    maxLineBytes: opts.maxLineBytes,
    typed: target.format !== 'jsonl',
    guessTypes,
    reward: undefined,
    log,
    signal: opts.signal,
  });
  const ourColumns = policy === undefined ? COLUMNS : POLICY_COLUMNS;
  const { columns, warnings } = resolveColumnNames(source.columns, ourColumns, map, true);
  for (const warning of warnings) log.warn('column_renamed', warning);
  log.info(
    policy === undefined
      ? 'no policy: pieces are merged by length in characters'
      : "pieces are merged by the policy's entropies",
  );
  const sink = await openSink({
    target,
    ourColumns,
    passThrough: columns,
    metadata: fileMetadata(
      {
        command: 'segment',
        weights: policy ? 'entropy' : 'characters',
        map: opts.map,
        limit: opts.limit,
        ...opts.segments,
      },
      policy,
    ),
    maxRejects: opts.maxRejects,
    expected: source.expected,
    log,
    signal: opts.signal,
  });
  await sink.drain(
    withPolicy?.segmented(source, opts.segments, sink) ?? byLength(source, opts.segments, sink),
  );
  sink.report();
  return EXIT.done;
}

/** Loads what runs a policy; without one neither its tokenizer nor ONNX Runtime is loaded. */
async function preparePolicy(folder: string, choice: DeviceChoice) {
  const { openPolicyFolder } = await import('../policy/folder.js');
  const { resolveDevice } = await import('../policy/device.js');
  const { byEntropy } = await import('./segment-policy.js');
  const policy = await openPolicyFolder(folder);
  const { device } = await resolveDevice(choice);
  return {
    policy,
    segmented: (source: Source, segments: SegmentOptions, sink: Sink) =>
      byEntropy(source, policy, device, segments, sink),
  };
}

/** Characters stand in for tokens, and their number for entropy. */
async function* byLength(source: Source, segments: SegmentOptions, sink: Sink): AsyncGenerator<OutputRow> {
  const opts = { ...segments, longPiece: LONG_PIECE_CHARACTERS };
  for await (const trace of source.traces(sink.reject)) {
    const row = await sink.orReject(trace, () => {
      if (trace.completion === '')
        throw new TraceRejected(
          'empty_completion',
          'no completion text, expected some: leave out --no-policy for token ids',
        );
      const units = codePointBoundaries(trace.completion);
      const T = units.length - 1;
      const chars = counting(units.length);
      const tokens = { text: trace.completion, units, textEnd: T };
      const pieces = cutTrace({ trace: withoutTokenEnds(trace), tokens, chars }, opts);
      const segmentation = mergeSegments(pieces, ones(T));
      const rows = segmentRows({ segmentation, chars });
      return {
        ...blankRow(trace),
        segments: rows.map((row) => ({ ...row, start: null, end: null })),
        status: ['segments:by-length'],
      };
    });
    if (row !== undefined) yield row;
  }
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

let numbers = new Int32Array(0);
let weights = new Float32Array(0);

/** 0, 1, 2, …: a view of one array for all traces, not to be written to. */
function counting(length: number): Int32Array {
  if (numbers.length < length) {
    numbers = new Int32Array(2 * length);
    for (let i = 0; i < numbers.length; i++) numbers[i] = i;
  }
  return numbers.subarray(0, length);
}

/** Ones: a view of one array for all traces, not to be written to. */
function ones(length: number): Float32Array {
  if (weights.length < length) weights = new Float32Array(2 * length).fill(1);
  return weights.subarray(0, length);
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
