// The canary of a policy: log-probabilities, entropies and branch scores of fixed tokens, made and held against a session.
import type { Precision } from '../build/precision.js';
import { Farthest, NATS, type Proof, repeated, stored } from './canary.js';

/** A canary as `canary.json` has it. A pass is one run of the policy, or two. */
export interface PolicyCanary {
  readonly passes: readonly Pass[];
}
interface Pass {
  /** the traces' keys and values are kept, and their branches scored in a run of their own */
  readonly split: boolean;
  readonly traces: readonly Trace[];
}
interface Trace {
  readonly ids: readonly number[];
  readonly promptLength: number;
  /** of the tokens behind the prompt, nats */
  readonly entropies: readonly number[];
  readonly logprobs: readonly number[];
  readonly branches: readonly Branch[];
  /** traces of a pass with the same number have the same prompt, which is read once */
  readonly shares?: number;
}
interface Branch {
  readonly exit: number;
  readonly ids: readonly number[];
  readonly scoredFrom: number;
  readonly gap?: { readonly before: number; readonly tokens: number };
  /** of tokens scoredFrom.., nats */
  readonly logprobs: readonly number[];
}
type Asked = Pick<Pass, 'split'> & { readonly traces: readonly AskedTrace[] };

/** A trace that is asked about: the policy's own form of it. */
interface AskedTrace {
  readonly ids: Int32Array;
  readonly promptLength: number;
  readonly branches: readonly AskedBranch[];
  readonly shares?: number;
}
interface AskedBranch {
  readonly exit: number;
  readonly ids: Int32Array;
  readonly scoredFrom: number;
  readonly gap?: { readonly before: number; readonly tokens: number };
}
interface Said {
  readonly entropies: Float32Array;
  readonly logprobs: Float32Array;
  readonly branches: readonly Float32Array[];
}

/** What a canary asks of a session. */
export interface Answers {
  run(traces: readonly AskedTrace[], keep?: number): Promise<Said[]>;
  branches(kept: number, branches: readonly (readonly AskedBranch[])[]): Promise<Said[]>;
  release(kept: number): Promise<void>;
}

/** The number under which it keeps keys and values; scoring counts from 1 on. */
const KEPT = -2;
/** A short trace is longer than the tile of any attention kernel; a shorter one beside it is padded. */
const SHORT = 40;
const SHORTER = 21;
/** Several tiles, and more than the windows of small models. */
const LONG = 256;
/** Of it, tokens whose numbers are kept: the head costs as much as the layers where the vocabulary is large. */
const READ = 64;
/** A branch may stand behind hidden tokens: as far out as the first rotary tables reach, and out of sight of a window's keys. */
const FAR = 1000;
const REFERENCE = 6;

/**
 * Asks a session in float32 on the CPU.
 * @param text ids of a text, of which those of the vocabulary are read
 * @param reference ids of another continuation than the text's
 * @throws RangeError where the policy gives what is no number
 */
export async function makePolicyCanary(
  session: Answers,
  text: Int32Array,
  reference: Int32Array,
  { vocab, maxTokens }: { readonly vocab: number; readonly maxTokens: number },
): Promise<PolicyCanary> {
  const ids = (length: number) => repeated(text, vocab, Math.max(4, Math.min(length, maxTokens)));
  const other = repeated(reference, vocab, REFERENCE);
  const at = (exit: number): AskedBranch => ({ exit, ids: other, scoredFrom: 1 });
  /** the trace's own next tokens */
  const own = (trace: Int32Array, exit: number): AskedBranch => ({
    ...{ exit, ids: trace.slice(exit, exit + REFERENCE), scoredFrom: 1 },
  });
  const [short, shorter, long] = [ids(SHORT), ids(SHORTER), ids(LONG)];
  const far = Math.min(maxTokens, FAR) - REFERENCE - long.length;
  const gap = far > 0 ? { gap: { before: 1, tokens: far } } : {};
  // two completions behind one prompt, which is read once
  const prompt = Math.max(1, short.length - SHORTER);
  const another = Int32Array.of(...short.subarray(0, prompt), ...other).subarray(0, maxTokens);
  const onePrompt = [short, another].map(
    (ids): AskedTrace => ({
      ...{ ids, promptLength: prompt, shares: 0 },
      branches: [at(prompt), at(ids.length - 1), at(ids.length)],
    }),
  );
  const passes: Asked[] = [
    {
      split: false,
      traces: [
        {
          ids: short,
          promptLength: 1,
          branches: [at(short.length >> 1), at(short.length), own(short, short.length >> 2)],
        },
        { ids: shorter, promptLength: 1, branches: [at(shorter.length)] },
      ],
    },
    {
      split: true,
      traces: [
        {
          ids: long,
          promptLength: Math.max(1, long.length - READ),
          branches: [at(long.length >> 1), { ...at(long.length), ...gap }],
        },
      ],
    },
    { split: false, traces: onePrompt },
    { split: true, traces: onePrompt },
  ];
  const made: Pass[] = [];
  for (const { split, traces } of passes) {
    const said = await ask(session, { split, traces });
    made.push({
      split,
      traces: traces.map(({ ids: own, promptLength, branches, ...besides }, i) => {
        const { entropies, logprobs, branches: scores } = said[i] as Said;
        return {
          ids: [...own],
          promptLength,
          ...besides,
          entropies: stored(entropies),
          logprobs: stored(logprobs),
          branches: branches.map((branch, b) => ({
            ...branch,
            ids: [...branch.ids],
            logprobs: stored(scores[b] as Float32Array),
          })),
        };
      }),
    });
  }
  return { passes: made };
}

/**
 * Holds a session against the canary.
 * @param opts precision of the session; mostMs: what a pass longer than the first may take, as those before forecast it
 */
export async function provePolicy(
  session: Answers,
  { passes }: PolicyCanary,
  {
    precision,
    mostMs = Number.POSITIVE_INFINITY,
  }: { readonly precision: Precision; readonly mostMs?: number },
): Promise<Omit<Proof, 'attentionOnCpu'>> {
  const bound = NATS[precision];
  const logprob = new Farthest('log p', 'nats', bound);
  const entropy = new Farthest('entropy', 'nats', bound);
  const branch = new Farthest('branch log p', 'nats', bound);
  let [rows, ms, leftOut] = [0, 0, 0];
  const sizeOf = ({ traces }: Pass) => traces.reduce((sum, { ids }) => sum + ids.length, 0);
  const [short = 0] = passes.map(sizeOf);
  for (const { split, traces } of passes) {
    const size = sizeOf({ split, traces });
    if (size > 2 * short && (ms * size) / rows > mostMs) {
      leftOut += size;
      continue;
    }
    const asked = traces.map(({ ids, promptLength, branches, shares }) => ({
      ids: Int32Array.from(ids),
      promptLength,
      branches: branches.map((own) => ({ ...own, ids: Int32Array.from(own.ids) })),
      ...(shares === undefined ? {} : { shares }),
    }));
    const started = performance.now();
    const said = await ask(session, { split, traces: asked });
    [rows, ms] = [rows + size, ms + performance.now() - started];
    for (const [i, trace] of traces.entries()) {
      const { entropies, logprobs, branches } = said[i] as Said;
      const { length } = trace.ids;
      const place = (t: number) => `token ${trace.promptLength + t} of ${length}`;
      logprob.add(logprobs, trace.logprobs, place);
      entropy.add(entropies, trace.entropies, place);
      for (const [b, { exit, scoredFrom, logprobs: expected }] of trace.branches.entries())
        branch.add(
          branches[b] as Float32Array,
          expected,
          (t) => `token ${scoredFrom + t} of a branch at ${exit} of ${length}`,
        );
    }
  }
  return { findings: [logprob, entropy, branch].map((each) => each.result()), leftOut };
}

async function ask(session: Answers, { split, traces }: Asked): Promise<Said[]> {
  if (!split) return session.run(traces);
  const trunks = await session.run(
    traces.map((trace) => ({ ...trace, branches: [] })),
    KEPT,
  );
  const scores = await session
    .branches(
      KEPT,
      traces.map(({ branches }) => branches),
    )
    .finally(() => session.release(KEPT));
  return trunks.map((trunk, i) => ({ ...trunk, branches: (scores[i] as Said).branches }));
}
