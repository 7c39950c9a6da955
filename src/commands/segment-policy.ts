// The part of `rredcot segment` that runs a policy: loaded only where there is one, with its tokenizer and ONNX Runtime.
import { TraceRejected } from '../errors.js';
import { blankRow, segmentRows } from '../estimate/rows.js';
import type { OutputRow } from '../io/output.js';
import { type BadRow, eachTrace } from '../io/rows.js';
import { windowOf } from '../io/shard.js';
import { resolveDevice } from '../policy/device.js';
import { encodeTrace } from '../policy/encode.js';
import { openPolicyFolder } from '../policy/folder.js';
import { Prompts } from '../policy/prompts.js';
import { graphFor, PolicySession } from '../policy/session.js';
import { loadTokenizer } from '../policy/tokenizer.js';
import { scoreWindows } from '../policy/windows.js';
import type { Log } from '../report/log.js';
import { cutTrace } from '../segment/given.js';
import { allEnds, segmentSums } from '../segment/segment.js';
import type { Run } from './run.js';
import type { SegmentCommandOptions } from './segment.js';
import type { Source } from './source.js';

/** Opens the policy, and hands back what cuts traces by its entropies. */
export async function preparePolicy(folder: string, opts: SegmentCommandOptions) {
  const policy = await openPolicyFolder(folder);
  const { device } = await resolveDevice(opts.device, policy);

  /** One run of the policy a trace; its entropies decide the merge. */
  async function* byEntropy(source: Source, { layout }: Run, log: Log): AsyncGenerator<OutputRow | BadRow> {
    const { segments, chatTemplateArgs } = opts;
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
  const runs = { strategy: 'auto', precision: graphFor(policy, device).precision };
  return { policy, runs, byEntropy };
}
