// A canary: what a model said of a few fixed tokens when its folder was built, in float32 on the CPU. Every session has to say
// the same before it is believed; here is how far off it may be, and what is told of one that is.
import { z } from 'zod';
import { deviceError, type RredcotError } from '../../errors.js';
import type { Log } from '../../report/log.js';
import { answerNoise } from '../engine/noise.js';
import type { Architecture } from '../graph/architecture.js';
import type { Precision } from '../graph/onnx.js';
import { fromJson } from '../text/checked-json.js';
import { joinIds } from '../text/encode.js';
import type { OpenTokenizer } from '../text/open-tokenizer.js';
import type { ExitTemplate } from '../text/templates.js';
import { untrustedText } from '../text/untrusted-files.js';
import { type Device, deviceName, sessionHint } from './device.js';
import { buildAgain, type PolicyFolder } from './folder.js';
import { type Branch, nextKept, type PackedTrace, type TraceScores } from './placed.js';

/** The file of a folder that holds it. */
export const CANARY = 'canary.json';

/**
 * How far numbers may be from the canary's, in nats: any of them, by `off` and a share of the canary's number, and all of a kind in the
 * mean. Sums of float32 in another order differ by 1e-5 in small models and by 1e-4 in large ones. In half precision
 * single tokens of a text that is unlike what a model knows are far off, most where they are unlikely: in the embedded policy
 * .13 in float16 and 1.04 in bfloat16, .01 and .1 in the mean. A wrong mask, row or position costs a nat in the mean.
 * Where two experts are as good as each other for a token, float32 in another order takes the other: few tokens are far off.
 */
const NATS = {
  f32: { off: 1e-3, share: 0, mean: 1e-3 },
  routed: { off: 0.5, share: 0.05, mean: 1e-3 },
  f16: { off: 0.2, share: 0.02, mean: 0.03 },
  bf16: { off: 1.5, share: 0.05, mean: 0.2 },
} as const satisfies Record<Precision | 'routed', object>;

/** What a session computes in; `routed` is float32 with experts. */
type Bound = keyof typeof NATS;

export type Proof = Awaited<ReturnType<typeof prove>>;

export type CanaryFinding = ReturnType<typeof farthest>;

/** Numbers of one kind, those of the canary, and what names the place of one by its index. */
type Compared = readonly [found: Numbers, expected: Numbers, place: (i: number) => string];

/** The largest difference of one kind of number, measured by what is allowed for it; NaN where the session gave no number. */
export function farthest(what: string, precision: Bound, compared: readonly Compared[]) {
  const bound = NATS[precision];
  let worst = { off: 0, allowed: bound.off as number, found: 0, expected: 0, place: 'token 0' };
  let [largest, count, sum] = [0, 0, 0];
  for (const [all, canary, place] of compared)
    for (let i = 0; i < Math.max(all.length, canary.length); i++) {
      const [found, expected] = [all[i] ?? Number.NaN, canary[i] ?? Number.NaN];
      const off = Math.abs(found - expected);
      const allowed = bound.off + bound.share * Math.abs(expected);
      count++;
      sum += off;
      // NaN is the largest of all differences
      if (off / allowed <= largest || Number.isNaN(largest)) continue;
      largest = off / allowed;
      worst = { off, allowed, found, expected, place: place(i) };
    }
  return { what, count, mean: sum / count, allowedMean: bound.mean, ...worst };
}

/** Those that are not within their bound, NaN and a kind of which nothing was compared among them. */
export function beyond(findings: readonly CanaryFinding[]): CanaryFinding[] {
  return findings.filter(
    ({ off, allowed, mean, allowedMean }) => !(off <= allowed) || !(mean <= allowedMean), // NaN is not
  );
}

/** What is beyond its bounds, in words; empty where nothing is. */
export function faultsOf(findings: readonly CanaryFinding[]): string {
  return beyond(findings).map(describeFinding).join('; ');
}

export function describeFinding(finding: CanaryFinding): string {
  const { what, off, allowed, mean, allowedMean, found, expected, place } = finding;
  const number = (value: number) => String(Number(value.toPrecision(6)));
  const single = `${off.toExponential(1)} nats off, allowed ${number(allowed)}`;
  const all = `${mean.toExponential(1)} in the mean, allowed ${number(allowedMean)}`;
  return `${what} of ${place} is ${number(found)}, expected ${number(expected)}: ${single}; ${all}`;
}

/** Tells what a session's canary has shown. @param model whose session it is: `policy`, `prover` or `hint policy` */
export function noteProof(
  log: Log,
  session: { readonly device: Device; readonly precision: Precision; readonly proof: Proof | undefined },
  model: string,
): void {
  if (session.proof === undefined) return;
  const { findings, noise } = session.proof;
  const device = deviceName(session.device);
  log.record('canary', {
    ...{ model, device, precision: session.precision, noise },
    off: Object.fromEntries(findings.map(({ what, off }) => [what, off])),
    mean: Object.fromEntries(findings.map(({ what, mean }) => [what, mean])),
  });
  // the CPU is where the numbers come from: people need not read that it gives them again
  if (session.device.name === 'cpu') return;
  const most = findings.map(({ what, off }) => `${what} ${off.toExponential(1)}`).join(', ');
  log.info(
    `${model}: canary: ${device} is off by ${most} nats at most, an answer by ${noise.toExponential(1)}`,
  );
}

/** Of a session that is not to be believed. @param why its wrong numbers, or what has ended the canary's run */
export function disproved(path: string, device: Device, why: readonly CanaryFinding[] | Error): RredcotError {
  const [found, cause] =
    why instanceof Error
      ? [`cannot run its canary: ${why.message}`, why]
      : [`does not give the numbers of its canary: ${why.map(describeFinding).join('; ')}`];
  const where = `${path}: on ${deviceName(device)} the policy`;
  return deviceError(`${where} ${found}`, sessionHint(device) ?? buildAgain(path), cause);
}

/** Lists in the file, typed arrays where they are asked and answered. */
export type Numbers = ArrayLike<number>;

export interface CanaryPass {
  /** the traces' keys and values are kept, and their branches scored in a run of their own */
  readonly split: boolean;
  readonly traces: readonly ScoredTrace[];
}
/** Numbers are of the tokens behind the prompt, and of a branch's scored ones, nats. */
interface ScoredTrace extends Omit<PackedTrace, 'ids' | 'branches'> {
  readonly ids: Numbers;
  readonly branches: readonly (Omit<Branch, 'ids'> & {
    readonly ids: Numbers;
    readonly logprobs?: Numbers;
  })[];
  readonly entropies?: Numbers;
  readonly logprobs?: Numbers;
}

/** A canary as `canary.json` has it: passes, with what the model has to say of each. */
const CanarySchema = z.object({
  passes: z.array(z.custom<CanaryPass>()).readonly(),
  /** layer and number of each expert that no token of it goes to: what is wrong with them it cannot show; absent: none */
  unread: z
    .array(z.tuple([z.number(), z.number()]).readonly())
    .readonly()
    .exactOptional(),
});
export type Canary = Readonly<z.infer<typeof CanarySchema>>;

/** Reads a folder's canary, whose hash is that of the build; what it holds shows when a session is asked. @throws RredcotError (exit 2) */
export async function readCanary({ path, canary }: Pick<PolicyFolder, 'path' | 'canary'>): Promise<Canary> {
  const text = (await untrustedText(path, canary.file)) ?? '';
  return fromJson(CanarySchema, text, `${path}/${canary.file}`, buildAgain(path));
}

// ------ what a canary asks: made when a folder is built, and asked of every session

/** The text that a folder's canary is made of. */
const CHECKED_TEXT = `Let me work through this. A train leaves at 9:40 and travels 126 km at 84 km/h, so it needs 126 / 84 = 1.5 hours.

Wait, the question asks for the arrival time: 9:40 plus 1 h 30 min is 11:10. Let me check: 84 × 1.5 = 126. ✓

\`\`\`python
def arrival(minutes, distance, speed):
    return minutes + 60 * distance / speed
\`\`\`

Hence the train arrives at 11:10, naïve rounding or not.
`;

export type CheckedIds = Awaited<ReturnType<typeof checkedIds>>;

/** A text's ids, and another continuation than the text's. */
export async function checkedIds(
  tokenizer: Pick<OpenTokenizer, 'encode' | 'encodePrompt'>,
  { close, open, closer }: ExitTemplate,
) {
  const ids = await tokenizer.encodePrompt(CHECKED_TEXT);
  const parts = await Promise.all([close, open, closer].map((part) => tokenizer.encode(part)));
  // two tokens at least, whatever the template
  return { ids, other: joinIds(...parts, ids.subarray(0, 2)) };
}

interface Asked {
  run(traces: readonly PackedTrace[], keep?: number): Promise<TraceScores[]>;
  branches(kept: number, branches: readonly (readonly Branch[])[]): Promise<TraceScores[]>;
  release(kept: number): Promise<void>;
  shares?(): Promise<Float32Array>;
}

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
/** Tokens of a trace that has an exit point with something to score behind it. */
const LEAST = 4;

/** @param text ids of the text over and over, so many of them, or as many as the model takes */
function passesOf(text: (length: number) => Int32Array, other: Int32Array, maxTokens: number): CanaryPass[] {
  const [short, shorter, long] = [text(SHORT), text(SHORTER), text(LONG)];
  const at = (exit: number): Branch => ({ exit, ids: other, scoredFrom: 1 });
  const own = { ...at(short.length >> 2), ids: short.slice(short.length >> 2).subarray(0, REFERENCE) };
  const far = Math.min(maxTokens, FAR) - REFERENCE - long.length;
  const gap = far > 0 ? { gap: { before: 1, tokens: far } } : {};
  // two completions behind one prompt, which is read once
  const promptLength = Math.max(1, short.length - SHORTER);
  const another = Int32Array.of(...short.subarray(0, promptLength), ...other).subarray(0, maxTokens);
  const onePrompt = [short, another].map((ids) => {
    const branches = [at(promptLength), at(ids.length - 1), at(ids.length)];
    return { ids, promptLength, shares: 0, branches };
  });
  const batch = [
    { ids: short, promptLength: 1, branches: [at(short.length >> 1), at(short.length), own] },
    { ids: shorter, promptLength: 1, branches: [at(shorter.length)] },
  ];
  const alone = {
    ids: long,
    promptLength: Math.max(1, long.length - READ),
    branches: [at(long.length >> 1), { ...at(long.length), ...gap }],
  };
  return [
    { split: false, traces: batch },
    { split: true, traces: [alone] },
    { split: false, traces: onePrompt },
    { split: true, traces: onePrompt },
  ];
}

/** Passes that may be added for experts that no token has gone to, and tokens of each. */
const MORE = 4;
const MORE_TOKENS = 256;
/** An engine may refuse the last entries of a vocabulary, which have no token. */
const WITH_TOKENS = 0.9;

/** Ids from all over the vocabulary, others for another number. */
function spreadIds(number: number, vocab: number, length: number): Int32Array {
  const share = (t: number) => ((number * MORE_TOKENS + t + 1) * (Math.sqrt(5) - 1) * 0.5) % 1;
  return Int32Array.from({ length }, (_, t) => Math.floor(share(t) * WITH_TOKENS * vocab));
}

async function scoresOf(session: Asked, { split, traces }: CanaryPass): Promise<TraceScores[]> {
  const whole = traces.map(({ branches, ...trace }) => ({
    ...trace,
    ids: Int32Array.from(trace.ids),
    branches: branches.map((branch) => ({ ...branch, ids: Int32Array.from(branch.ids) })),
  }));
  if (!split) return session.run(whole);
  const kept = nextKept();
  const unbranched = whole.map((trace) => ({ ...trace, branches: [] }));
  const read = await session.run(unbranched, kept);
  const asked = whole.map(({ branches }) => branches);
  const scored = await session.branches(kept, asked).finally(() => session.release(kept));
  return read.map((own, i) => ({ ...own, branches: (scored[i] as TraceScores).branches }));
}

/** Asks a session in float32 on the CPU. @param other another continuation than the text's @throws RangeError where the model gives what is no number */
export async function makeCanary(
  session: Asked,
  { ids, other }: CheckedIds,
  { vocab, maxTokens, mixture }: Pick<Architecture, 'vocab' | 'maxTokens' | 'mixture'>,
): Promise<Canary> {
  const text = (length: number) => repeated(ids, vocab, Math.max(LEAST, Math.min(length, maxTokens)));
  const passes: CanaryPass[] = [];
  const scored = async (pass: CanaryPass) => {
    const said = await scoresOf(session, pass);
    const traces = pass.traces.map(({ branches, ...trace }, i) => {
      const { branches: scores, ...own } = said[i] as TraceScores;
      return {
        ...trace,
        ...own,
        branches: branches.map((branch, b) => ({ ...branch, logprobs: scores[b] })),
      };
    });
    return stored({ ...pass, traces }) as CanaryPass;
  };
  for (const pass of passesOf(text, repeated(other, vocab, REFERENCE), maxTokens))
    passes.push(await scored(pass));
  const unread = async () => unreadExperts((await session.shares?.()) ?? [], mixture?.layers ?? []);
  let left = await unread();
  for (let n = 0; left.length > 0 && n < MORE; n++) {
    const ids = spreadIds(n, vocab, Math.min(MORE_TOKENS, maxTokens));
    const pass = await scored({ split: false, traces: [{ ids, promptLength: 1, branches: [] }] });
    const still = await unread();
    if (still.length < left.length) passes.push(pass);
    left = still;
  }
  return { passes, ...(left.length > 0 && { unread: left }) };
}

/** Layer and number of each expert that no token has gone to. @param shares [experts,layers] */
function unreadExperts(shares: Numbers, layers: readonly number[]) {
  const place = (i: number) => [layers[i % layers.length] as number, Math.floor(i / layers.length)] as const;
  return Array.from(shares, (share, i) => (share === 0 ? [place(i)] : [])).flat();
}

/** Compares a session with a canary. @param precision of the session @returns noise: of its answers; 0 in float32, which gave the canary */
export async function prove(session: Asked, { passes }: Canary, precision: Bound) {
  const [ofTokens, ofEntropies, ofBranches]: [Compared[], Compared[], Compared[]] = [[], [], []];
  for (const pass of passes) {
    const said = await scoresOf(session, pass);
    for (const [i, { ids, promptLength, entropies = [], logprobs = [], branches }] of pass.traces.entries()) {
      const found = said[i] as TraceScores;
      const place = (t: number) => `token ${promptLength + t} of ${ids.length}`;
      ofTokens.push([found.logprobs, logprobs, place]);
      ofEntropies.push([found.entropies, entropies, place]);
      for (const [b, { exit, scoredFrom, logprobs: known = [] }] of branches.entries()) {
        const at = (t: number) => `token ${scoredFrom + t} of a branch at ${exit} of ${ids.length}`;
        ofBranches.push([found.branches[b] ?? [], known, at]);
      }
    }
  }
  const findings = [
    farthest('log p', precision, ofTokens),
    farthest('entropy', precision, ofEntropies),
    farthest('branch log p', precision, ofBranches),
  ];
  const tokens = ofTokens.flatMap(([found, canary]) =>
    Array.from(canary, (known, t) => [found[t] ?? Number.NaN, known] as const),
  );
  return { findings, noise: precision === 'f32' || precision === 'routed' ? 0 : answerNoise(tokens) };
}

/** A value as the file has it, numbers of eight digits: finer than any bound. @throws RangeError for what is no number */
export function stored(value: unknown): unknown {
  const digits = (number: number): number => {
    if (!Number.isFinite(number)) throw new RangeError(`gives ${number} for the canary's tokens`);
    return Number(number.toPrecision(8));
  };
  const listed = (_: string, each: unknown) =>
    each instanceof Float32Array ? Array.from(each, digits) : each instanceof Int32Array ? [...each] : each;
  return JSON.parse(JSON.stringify(value, listed));
}

/** Fixed ids: those of a text that the vocabulary has, over and over. */
export function repeated(ids: ArrayLike<number>, vocab: number, length: number): Int32Array {
  const own = Array.from(ids).filter((id) => id < vocab);
  const idAt = (i: number) => (own.length > 1 ? (own[i % own.length] as number) : i % vocab);
  return Int32Array.from({ length }, (_, i) => idAt(i));
}
