// `rredcot segment`: cuts traces into segments without scoring them, by the policy's entropies or by length.
import type { ExitCode } from '../errors.js';
import type { Log } from '../report/log.js';
import { eachTrace } from '../rows.js';
import type { CutOptions } from '../run/options.js';
import { runJob } from '../run/run-job.js';
import { openInputs, type RunContext, type Source } from '../run/source.js';
import { chosenColumns, type OurColumn } from '../scored/columns.js';
import { byLength } from '../segment/by-length.js';

export interface SegmentCommandOptions extends CutOptions {
  /** null: no policy, length stands in for entropy */
  readonly policy: string | null;
}

/** What it writes without a policy. */
export const COLUMNS: readonly OurColumn[] = [
  ...(['id', 'group', 'completion', 'segments'] as const),
  ...(['source_file', 'source_row', 'source_item', 'status'] as const),
];
/** And with one. */
export const POLICY_COLUMNS: readonly OurColumn[] = [
  ...COLUMNS,
  ...(['prompt_ids', 'completion_ids', 'completion_mask', 'logprobs', 'entropies'] as const),
];

/** Cuts every trace; errors and exit codes as `score`. Without `-o` it prints JSONL. */
export async function segment(
  paths: readonly string[],
  opts: SegmentCommandOptions,
  log: Log,
): Promise<ExitCode> {
  const { segments, chatTemplateArgs, endToken, policy } = opts;
  const given = await openInputs(paths, opts, log);
  // without a policy neither a tokenizer nor ONNX Runtime is loaded
  await using cutter =
    policy === null
      ? undefined
      : await (await import('./by-entropy.js')).openCutter({ ...opts, policy }, log);
  log.info(
    cutter === undefined
      ? 'no policy: pieces are merged by length in characters'
      : "pieces are merged by the policy's entropies",
  );
  const cutByLength = (source: Source) =>
    eachTrace(source.traces(), ({ trace }) => byLength(trace, segments));
  const job = {
    command: 'segment' as const,
    ...chosenColumns(cutter === undefined ? COLUMNS : POLICY_COLUMNS, opts.columns),
    config: {
      weights: cutter === undefined ? 'characters' : 'entropy',
      ...(cutter && { chatTemplateArgs, endToken }),
      ...segments,
    },
    policy: cutter?.policy,
    passes: cutter?.passes ?? null,
    needs: { prompt: cutter !== undefined, references: false },
    rewardAsIs: true,
    stages: (source: Source, run: RunContext) => cutter?.byEntropy(source, run) ?? cutByLength(source),
  };
  return await runJob(given, opts, job, log);
}
