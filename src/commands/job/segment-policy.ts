// The part of `rredcot segment` that runs a policy: loaded only where there is one, with its tokenizer and ONNX Runtime.
import { TraceRejected } from '../../errors.js';
import { windowsOf } from '../../estimate/cut-windows.js';
import { scoreWindows } from '../../estimate/windows.js';
import { windowOf } from '../../io/files/chunks.js';
import { resolveDevice } from '../../policy/device.js';
import { openPolicyFolder } from '../../policy/folder.js';
import { noteProof } from '../../policy/run/note-proof.js';
import { graphFor, PolicySession } from '../../policy/run/session.js';
import { encodeTrace, thoughtStatus, withTexts } from '../../policy/text/encode.js';
import { openTokenizer } from '../../policy/text/open-tokenizer.js';
import { Prompts } from '../../policy/text/prompts.js';
import type { Log } from '../../report/log.js';
import { type BadRow, eachTrace } from '../../rows.js';
import { blankRow, type OutputRow } from '../../scored.js';
import { cutTrace } from '../../segment/given.js';
import { allEnds, segmentSums } from '../../segment/segment.js';
import { segmentRows } from '../../segment/segment-rows.js';
import { THINK_CLOSE } from '../../segment/span.js';
import type { Run } from './open-run.js';
import type { CutOptions } from './options.js';
import type { Source } from './source.js';

/** Opens the policy, and hands back what cuts traces by its entropies. */
export async function preparePolicy(
  folder: string,
  opts: Pick<CutOptions, 'device' | 'segments' | 'chatTemplateArgs' | 'signal'>,
  log: Log,
) {
  const policy = await openPolicyFolder(folder);
  const { device } = await resolveDevice(opts.device, policy);

  /** One run of the policy a trace; its entropies decide the merge. */
  async function* byEntropy(source: Source, run: Run): AsyncGenerator<OutputRow | BadRow> {
    const { segments, chatTemplateArgs, signal } = opts;
    const tokenizer = await openTokenizer(policy.path, { signal });
    const prompts = await Prompts.open(policy, tokenizer, chatTemplateArgs, log, signal);
    const { vocab, maxTokens } = policy.architecture;
    const ready = eachTrace(source.traces(), async ({ trace }) => {
      const encoded = await encodeTrace(await prompts.prepare(trace), tokenizer, vocab, maxTokens);
      const pieces = cutTrace(encoded, segments);
      const status = [...encoded.status, ...thoughtStatus(encoded, pieces.thought, tokenizer)];
      return { ...encoded, status, trace: withTexts(encoded, tokenizer), pieces, continuations: [] };
    });
    const session = await PolicySession.open(policy, device);
    noteProof(run, log, session, 'policy');
    try {
      const windows = windowsOf(ready, (row) => windowOf(row, run.rowsPerChunk));
      const scored = scoreWindows(windows, session);
      yield* eachTrace(scored, ({ job, result }) => {
        if (result instanceof TraceRejected) throw result;
        const { entropies, logprobs, segmentation } = result;
        const { trace, promptIds, completionIds, tokens, chars, status } = job;
        const closesThought = tokens.text.includes(THINK_CLOSE);
        const sums = segmentSums(entropies, allEnds(segmentation));
        const rows = segmentRows({ segmentation, chars, entropies: sums });
        const ids = { promptIds, completionIds };
        return { ...blankRow(trace), ...ids, entropies, logprobs, segments: rows, closesThought, status };
      });
    } finally {
      await prompts.close();
      await tokenizer.close();
      await session.close();
    }
  }
  const passes = { precision: graphFor(policy, device).precision };
  return { policy, passes, byEntropy };
}
