// `rredcot sample`: lets the policy write completions of prompts, as traces that `score` reads.

import { type ExitCode, TraceRejected } from '../../errors.js';
import type { Reward } from '../../estimate/reward.js';
import { INT32_LIST, requestedColumn, STRING } from '../../io/arrow/output-columns.js';
import { windowOf } from '../../io/files/run-folder.js';
import type { Log } from '../../report/log.js';
import { TokenMeter } from '../../report/progress.js';
import { type BadRow, eachTrace, isBad } from '../../rows.js';
import type { JobOptions } from '../../run/options.js';
import { runJob } from '../../run/run-job.js';
import type { RunContext, Source } from '../../run/source.js';
import { openInputs } from '../../run/source.js';
import { chosenColumns, columnName, type OurColumn } from '../../scored/columns.js';
import { blankRow, type OutputRow } from '../../scored.js';
import type { Trace } from '../../trace.js';
import { noteProof } from '../onnx/canary.js';
import { openPolicy } from '../onnx/open-model.js';
import { graphFor } from '../onnx/session.js';
import { encodePrompt, promptStatus, spelledText } from '../text/encode.js';
import type { Spelling } from '../text/tokenizer.js';
import { openWriting } from './continue.js';
import { continued, type Episode, standingAt } from './episodes.js';
import type { AskedEnvironment } from './mc.js';
import { type Judge, judged, rowKey, type SamplingOptions, stopsOf, type Written } from './sampling.js';

export interface SampleOptions extends JobOptions {
  readonly policy: string;
  /** completions a prompt */
  readonly samples: number;
  readonly sampling: SamplingOptions;
  readonly judge: Judge;
  /** who answers the policy's turns; absent: a completion is one turn */
  readonly environment?: AskedEnvironment;
}

/** What it writes. */
export const COLUMNS: readonly OurColumn[] = [
  ...(['id', 'group', 'prompt', 'completion', 'prompt_ids', 'completion_ids', 'logprobs'] as const),
  ...(['finish_reason', 'reward', 'source_file', 'source_row', 'source_item', 'status'] as const),
];

const MESSAGE = {
  kind: 'struct',
  fields: [
    { name: 'role', type: STRING },
    { name: 'content', type: STRING },
  ],
} as const;

/** What stands in the places of these columns where turns are played. */
const OF_TURNS = [
  requestedColumn('completion', { kind: 'list', element: MESSAGE }, 'the messages behind the prompt'),
  requestedColumn('completion_mask', INT32_LIST, 'which of `completion_ids` the policy wrote: 1 or 0'),
];

/** The columns of turns: messages that score and an environment read, and their mask. */
function columnsOfTurns(chosen: readonly string[] | undefined) {
  const { columns, texts } = chosenColumns([...COLUMNS, 'completion_mask'], chosen);
  const all = [...columns, ...texts.filter((name) => name === 'completion')];
  const ofTurns = (name: string) => OF_TURNS.find((column) => columnName(column) === name);
  return {
    columns: all.map((column) => ofTurns(columnName(column)) ?? column),
    texts: texts.filter((name) => name !== 'completion'),
  };
}

/** Samples completions of every prompt; errors and exit codes as `score`. */
export async function sample(paths: readonly string[], opts: SampleOptions, log: Log): Promise<ExitCode> {
  const { samples, judge, chatTemplateArgs, signal } = opts;
  const { batch, ...sampling } = opts.sampling;
  await using opened = await openPolicy(opts, log);
  const { policy, device, tokenizer, prompts } = opened;
  const { architecture, exitTemplate } = policy;
  const meter = new TokenMeter();
  await using environment = await opts.environment?.open(signal);
  const choosing = {
    players: environment && { environment, prompts, tokenizer },
    ...sampling,
    batch,
    stops: await stopsOf(policy, sampling.stop, tokenizer, log),
    signal,
  };

  async function* stages(source: Source, run: RunContext): AsyncGenerator<OutputRow | BadRow> {
    // read, map, encode the prompt: what the policy cannot continue shows here
    const ready = eachTrace(source.traces(), async (item) => {
      const trace = await prompts.prepare(item.trace);
      const ids = await encodePrompt(trace, tokenizer, architecture.vocab);
      const room = architecture.maxTokens - ids.length;
      if (room < 1)
        throw new TraceRejected(
          'too_long',
          `the prompt has ${ids.length} tokens, the policy takes ${architecture.maxTokens} with the completion: --policy <one with a longer context>`,
        );
      const status = [...(trace.status ?? []), ...promptStatus(trace, tokenizer)];
      const text = typeof trace.prompt === 'string' && trace.prompt !== '';
      const prompt = text ? (trace.prompt as string) : tokenizer.decode(ids).toString('utf8');
      const [exit, most] = [ids.length, Math.min(sampling.maxTokens, room)];
      const keys = Array.from({ length: samples }, (_, m) => rowKey(sampling.seed, trace.id, 0, m));
      const starts = keys.map((key) => ({ exit, key, most }));
      const standings = environment && keys.map(() => standingAt(trace, NONE, undefined, 0));
      return { trace: { ...trace, prompt }, begun: { ids, starts }, standings, status };
    });

    await using session = await openWriting(policy, device);
    noteProof(log, session, 'policy');
    const onTokens = (count: number): void => meter.add(count);
    const window = (row: number): number => windowOf(row, run.rowsPerPart);
    const written = eachTrace(continued(ready, session, { ...choosing, onTokens }, window), (each) => {
      if (each.written instanceof TraceRejected) throw each.written;
      return { ...each.item, written: each.written };
    });
    for await (const item of written) {
      if (isBad(item)) yield item;
      else
        for (const [m, own] of item.written.entries())
          yield sampledRow(item, own, m, { samples, tokenizer, verdict });
    }
  }

  const verdict = ({ references, prompt }: Trace, text: string): Reward => {
    if (references.length === 0) return { reward: null, status: [] };
    return judged(text, references, exitTemplate, judge, typeof prompt === 'string' ? prompt : '');
  };
  const job = {
    command: 'sample' as const,
    ending: '.samples.jsonl',
    ...(environment ? columnsOfTurns(opts.columns) : chosenColumns(COLUMNS, opts.columns)),
    hasTurns: environment !== undefined,
    config: { samples, ...sampling, judge, chatTemplateArgs, ...opts.environment?.config },
    policy,
    passes: { precision: graphFor(policy, device).precision },
    needs: { prompt: true, references: false, completion: false },
    rewardAsIs: false,
    isSampled: true,
    rowsPerTrace: samples,
    meter,
    stages,
  };
  return await runJob(await openInputs(paths, opts, log), opts, job, log);
}

const NONE = new Int32Array(0);

/** A row of the output: the completion `m` of a prompt. */
function sampledRow(
  { trace, begun, status }: { trace: Trace; begun: { ids: Int32Array }; status: readonly string[] },
  { ids, logprobs, finish, messages, own, reward: earned = null }: Written & Partial<Episode>,
  m: number,
  how: { samples: number; tokenizer: Spelling; verdict: (trace: Trace, text: string) => Reward },
): OutputRow {
  const completion = spelledText(ids, how.tokenizer);
  // of several turns the answer stands in the last; what an environment says counts
  const { reward, status: why } =
    earned === null
      ? how.verdict(trace, messages?.at(-1)?.content ?? completion)
      : { reward: earned, status: [] };
  const place = {
    id: `${trace.id}/${m}`,
    group: trace.group ?? trace.id,
    item: (trace.item ?? 0) * how.samples + m,
  };
  return {
    ...blankRow({ ...trace, ...place, completion }),
    promptIds: begun.ids,
    completionIds: ids,
    logprobs,
    finish,
    reward,
    status: [...new Set([...status, ...why])],
    ...(own && { requested: { completion: messages, completion_mask: Int32Array.from(own) } }),
  };
}
