// The part of `rredcot segment` that runs a policy: loaded only where there is one, with its tokenizer and ONNX Runtime.
import { answererOf, windowsOf } from '../estimate/answerer/windows.js';
import { reader } from '../estimate/ready.js';
import { windowOf } from '../io/files/run-folder.js';
import { noteProof } from '../model/onnx/canary.js';
import { withGraphs } from '../model/onnx/folder.js';
import { openPolicy } from '../model/onnx/open-model.js';
import { graphFor, ModelSession } from '../model/onnx/session.js';
import type { Log } from '../report/log.js';
import { type BadRow, eachTrace } from '../rows.js';
import type { CutOptions } from '../run/options.js';
import type { RunContext, Source } from '../run/source.js';
import { blankRow, type OutputRow } from '../scored.js';
import { allEnds, segmentRows, segmentSums } from '../segment/segment.js';
import { THINK_CLOSE } from '../segment/span.js';

/** Opens the policy, and hands back what cuts traces by its entropies: one run of it a trace, and these decide the merge. */
export async function openCutter(
  opts: Parameters<typeof openPolicy>[0] & Pick<CutOptions, 'segments' | 'endToken'>,
  log: Log,
) {
  const opened = await openPolicy(opts, log);
  const { device } = opened;
  const policy = withGraphs(opened.policy);
  const { segments, endToken } = opts;
  const marks = { ...policy.exitTemplate, thoughtTags: segments.thoughtTags };
  const read = reader({ need: 'pass', opened, segments, marks, endToken });

  async function* byEntropy(source: Source, run: RunContext): AsyncGenerator<OutputRow | BadRow> {
    const ready = eachTrace(source.traces(), async (item) => {
      const { tokens, ...cut } = await read(item.trace, 0, item.trace.reward);
      return { ...tokens, ...cut };
    });
    await using session = await ModelSession.open(policy, device);
    noteProof(log, session, 'policy');
    const window = (row: number) => windowOf(row, run.rowsPerPart);
    const answerer = answererOf(session, undefined, window);
    yield* eachTrace(answerer(windowsOf(ready, window)), ({ job, result }) => {
      const { entropies, logprobs, segmentation } = result;
      const { trace, promptIds, completionIds, tokens, chars, status } = job;
      const sums = segmentSums(entropies, allEnds(segmentation));
      return {
        ...{ ...blankRow(trace), promptIds, completionIds, entropies, logprobs, status },
        segments: segmentRows({ segmentation, chars, own: tokens.own, entropies: sums }),
        closesThought: tokens.text.includes(THINK_CLOSE),
      };
    });
  }
  const passes = { precision: graphFor(policy, device).precision };
  return { policy, passes, byEntropy, [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose]() };
}
