// The part of `rredcot segment` that runs a policy: loaded only where there is one, with its tokenizer and ONNX Runtime.
import { TraceRejected } from '../errors.js';
import { segmentRows } from '../estimate/rows.js';
import type { OutputRow } from '../io/output.js';
import { rejectTrace } from '../io/rows.js';
import type { Device } from '../policy/device.js';
import { encodeTrace } from '../policy/encode.js';
import type { PolicyFolder } from '../policy/folder.js';
import { PolicySession } from '../policy/session.js';
import { loadTokenizer } from '../policy/tokenizer.js';
import { scoreWindows } from '../policy/windows.js';
import { cutTrace } from '../segment/given.js';
import { allEnds, type SegmentOptions, segmentSums } from '../segment/segment.js';
import { blankRow } from './segment.js';
import type { Sink } from './sink.js';
import type { Source } from './source.js';

/** One run of the policy a trace; its entropies decide the merge. */
export async function* byEntropy(
  source: Source,
  policy: PolicyFolder,
  device: Device,
  segments: SegmentOptions,
  sink: Sink,
): AsyncGenerator<OutputRow> {
  const tokenizer = await loadTokenizer(policy.path);
  const { vocab, maxTokens } = policy.architecture;
  async function* ready() {
    for await (const trace of source.traces(sink.reject)) {
      const job = await sink.orReject(trace, () => {
        const encoded = encodeTrace(trace, tokenizer, vocab, maxTokens);
        return { ...encoded, pieces: cutTrace(encoded, segments), continuations: [] };
      });
      if (job !== undefined) yield job;
    }
  }
  const session = await PolicySession.open(policy, device);
  try {
    for await (const { job, result } of scoreWindows(ready(), session, 'auto')) {
      if (result instanceof TraceRejected) {
        await sink.reject(rejectTrace(job.trace, result));
        continue;
      }
      const { entropies, logprobs, segmentation } = result;
      const { trace, promptIds, completionIds, chars, status } = job;
      const sums = segmentSums(entropies, allEnds(segmentation));
      const rows = segmentRows({ segmentation, chars, entropies: sums });
      yield { ...blankRow(trace), promptIds, completionIds, entropies, logprobs, segments: rows, status };
    }
  } finally {
    await session.close();
  }
}
