// `rredcot sample`: lets the policy write completions of prompts, as traces that `score` reads.
import { type ExitCode, TraceRejected } from '../errors.js';
import { continued } from '../estimate/models/continued.js';
import { type Judge, judged, type Reward } from '../estimate/reward.js';
import type { OurColumn } from '../io/arrow/output-columns.js';
import { windowOf } from '../io/files/chunks.js';
import { noteProof } from '../policy/run/canary.js';
import { openWriting } from '../policy/run/continue.js';
import { openPolicy } from '../policy/run/open-model.js';
import type { SamplingOptions, Written } from '../policy/run/sampling.js';
import { rowKey } from '../policy/run/sampling.js';
import { graphFor } from '../policy/run/session.js';
import { encodePrompt, promptStatus, spelledText } from '../policy/text/encode.js';
import { stopsOf } from '../policy/text/stops.js';
import type { Log } from '../report/log.js';
import { TokenMeter } from '../report/progress.js';
import { type BadRow, eachTrace, isBad } from '../rows.js';
import { blankRow, type OutputRow } from '../scored.js';
import type { Trace } from '../trace.js';
import { openInputs } from './job/mapping.js';
import type { Run } from './job/open-run.js';
import type { JobOptions } from './job/options.js';
import { runJob } from './job/run-job.js';
import type { Source } from './job/source.js';
import { chosenColumns } from './job/written-columns.js';

export interface SampleOptions extends JobOptions {
  readonly policy: string;
  /** completions a prompt */
  readonly samples: number;
  readonly sampling: SamplingOptions;
  readonly judge: Judge;
}

/** What it writes. */
export const COLUMNS: readonly OurColumn[] = [
  ...(['id', 'group', 'prompt', 'completion', 'prompt_ids', 'completion_ids', 'logprobs'] as const),
  ...(['finish_reason', 'reward', 'source_file', 'source_row', 'source_item', 'status'] as const),
];

/** Samples completions of every prompt; errors and exit codes as `score`. */
export async function sample(paths: readonly string[], opts: SampleOptions, log: Log): Promise<ExitCode> {
  const { samples, judge, chatTemplateArgs, signal } = opts;
  const { batch, ...sampling } = opts.sampling;
  await using opened = await openPolicy(opts, log);
  const { policy, device, tokenizer, prompts } = opened;
  const { architecture, exitTemplate } = policy;
  const meter = new TokenMeter();
  const choosing = {
    ...sampling,
    batch,
    stops: await stopsOf(policy, sampling.stop, tokenizer, log),
    signal,
  };

  async function* stages(source: Source, run: Run): AsyncGenerator<OutputRow | BadRow> {
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
      return { trace: { ...trace, prompt }, begun: { ids, starts }, status };
    });

    const session = await openWriting(policy, device);
    noteProof(run, log, session, 'policy');
    try {
      const onTokens = (count: number): void => meter.add(count);
      const window = (row: number): number => windowOf(row, run.rowsPerChunk);
      const written = eachTrace(continued(ready, session, { ...choosing, onTokens }, window), (each) => {
        if (each.written instanceof TraceRejected) throw each.written;
        return { ...each.item, written: each.written };
      });
      for await (const item of written) {
        if (isBad(item)) yield item;
        else for (const [m, own] of item.written.entries()) yield sampleRow(item, own, m);
      }
    } finally {
      await session.close();
    }
  }

  function sampleRow(
    { trace, begun, status }: { trace: Trace; begun: { ids: Int32Array }; status: readonly string[] },
    { ids, logprobs, finish }: Written,
    m: number,
  ): OutputRow {
    const completion = spelledText(ids, tokenizer);
    const { reward, status: why } = rewardOf(trace, completion);
    const place = {
      id: `${trace.id}/${m}`,
      group: trace.group ?? trace.id,
      item: (trace.item ?? 0) * samples + m,
    };
    return {
      ...blankRow({ ...trace, ...place, completion }),
      promptIds: begun.ids,
      completionIds: ids,
      logprobs,
      finish,
      reward,
      status: [...new Set([...status, ...why])],
    };
  }

  function rewardOf({ references, prompt }: Trace, completion: string): Reward {
    if (references.length === 0) return { reward: null, status: [] };
    return judged(completion, references, exitTemplate, judge, typeof prompt === 'string' ? prompt : '');
  }

  const job = {
    command: 'sample' as const,
    output: (stem: string) => ({ path: `${stem}.samples.jsonl` }),
    ...chosenColumns(COLUMNS, opts.columns),
    config: { samples, ...sampling, judge, chatTemplateArgs },
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
