// A canary: what a model said of a few fixed tokens when its folder was built, in float32 on the CPU. Every session has to say
// the same before it is believed; here is how far off it may be, and what is told of one that is.
import { EXIT, RredcotError, usageError } from '../../errors.js';
import { shellWord } from '../../printable.js';
import type { Log } from '../../report/log.js';
import { parseJson } from '../graph/json.js';
import type { Precision } from '../graph/precision.js';
import { untrustedText } from '../text/untrusted-files.js';
import { type Device, deviceName, sessionHint } from './device.js';
import type { PolicyFolder } from './folder.js';
import type { Branch, PackedTrace } from './placed.js';

/** The file of a folder that holds it. */
export const CANARY = 'canary.json';

/** How far numbers may be from the canary's. */
export interface Bound {
  /** any of them */
  readonly off: number;
  /** and besides such a share of the canary's number */
  readonly share: number;
  /** all of a kind, in the mean */
  readonly mean: number;
}

/**
 * Of nats. Sums of float32 in another order differ by 1e-5 in small models and by 1e-4 in large ones. In half precision
 * single tokens of a text that is unlike what a model knows are far off, most where they are unlikely: in the embedded policy
 * .13 in float16 and 1.04 in bfloat16, .01 and .1 in the mean. A wrong mask, row or position costs a nat in the mean.
 */
export const NATS: Readonly<Record<Precision, Bound>> = {
  f32: { off: 1e-3, share: 0, mean: 1e-3 },
  f16: { off: 0.2, share: 0.02, mean: 0.03 },
  bf16: { off: 1.5, share: 0.05, mean: 0.2 },
};

/** Where a session is farthest from the canary, of one kind of number. */
export interface CanaryFinding {
  /** e.g. `log p` */
  readonly what: string;
  /** numbers compared */
  readonly count: number;
  /** the largest difference, measured by what is allowed for it; NaN where the session gave no number */
  readonly off: number;
  readonly allowed: number;
  readonly mean: number;
  readonly allowedMean: number;
  readonly found: number;
  readonly expected: number;
  /** e.g. `token 33 of 48` */
  readonly place: string;
}

/** What a canary has shown of a session. */
export interface Proof {
  readonly findings: readonly CanaryFinding[];
  /** tokens of a trace that was not read, since that takes longer than {@link MOST_MS}; 0: all was read */
  readonly leftOut: number;
}

/**
 * What the CPU may take for a trace beyond the first: it has computed the canary itself, and a run is not to wait for it. Other
 * devices read all of it, however long that takes.
 */
export const MOST_MS = 2000;

/** Collects the largest difference of one kind of number. */
export class Farthest {
  private worst: Pick<CanaryFinding, 'off' | 'allowed' | 'found' | 'expected' | 'place'>;
  private ratio = 0;
  private count = 0;
  private sum = 0;
  constructor(
    private readonly what: string,
    private readonly bound: Bound,
  ) {
    this.worst = { off: 0, allowed: bound.off, found: 0, expected: 0, place: 'token 0' };
  }

  /** @param place names the place of a number by its index */
  add(found: ArrayLike<number>, expected: ArrayLike<number>, place: (i: number) => string): void {
    for (let i = 0; i < Math.max(found.length, expected.length); i++) {
      const [a, b] = [found[i] ?? Number.NaN, expected[i] ?? Number.NaN];
      const off = Math.abs(a - b);
      const allowed = this.bound.off + this.bound.share * Math.abs(b);
      const ratio = off / allowed;
      this.count++;
      this.sum += off;
      // NaN is the largest of all differences
      if (ratio <= this.ratio || Number.isNaN(this.ratio)) continue;
      this.ratio = ratio;
      this.worst = { off, allowed, found: a, expected: b, place: place(i) };
    }
  }

  result(): CanaryFinding {
    const { what, count } = this;
    return { what, count, mean: this.sum / count, allowedMean: this.bound.mean, ...this.worst };
  }
}

/** Those that are not within their bound, NaN and a kind of which nothing was compared among them. */
export function beyond(findings: readonly CanaryFinding[]): CanaryFinding[] {
  return findings.filter(
    ({ off, allowed, mean, allowedMean }) => !(off <= allowed) || !(mean <= allowedMean), // NaN is not
  );
}

/** A finding in words. */
export function describeFinding(finding: CanaryFinding): string {
  const { what, off, allowed, mean, allowedMean, found, expected, place } = finding;
  const number = (value: number) => String(Number(value.toPrecision(6)));
  const single = `${off.toExponential(1)} nats off, allowed ${number(allowed)}`;
  const all = `${mean.toExponential(1)} in the mean, allowed ${number(allowedMean)}`;
  return `${what} of ${place} is ${number(found)}, expected ${number(expected)}: ${single}; ${all}`;
}

/** All of them in a line. */
export function describeProof({ findings, leftOut }: Proof, device: Device): string {
  const largest = findings.map(({ what, off }) => `${what} ${off.toExponential(1)}`).join(', ');
  const allowed = Math.max(...findings.map((each) => each.allowed));
  const parts = [
    `${deviceName(device)} is off by ${largest} nats at most (allowed ${Number(allowed.toPrecision(3))})`,
    ...(leftOut > 0 ? [`a trace of ${leftOut} tokens was left out`] : []),
  ];
  return `canary: ${parts.join('; ')}`;
}

/** A session that has proved itself. */
export interface Proved {
  readonly device: Device;
  readonly precision: Precision;
  readonly proof: Proof | undefined;
}

/**
 * Tells what a session's canary has shown.
 * @param model whose session it is: `policy`, `prover` or `hint policy`
 */
export function noteProof(log: Log, { device, precision, proof }: Proved, model: string): void {
  if (proof === undefined) return;
  const { findings, leftOut } = proof;
  log.record('canary', {
    model,
    device: deviceName(device),
    precision,
    tokens_left_out: leftOut,
    off: Object.fromEntries(findings.map(({ what, off }) => [what, off])),
    mean: Object.fromEntries(findings.map(({ what, mean }) => [what, mean])),
  });
  // the CPU is where the numbers come from: people need not read that it gives them again
  if (device.name !== 'cpu') log.info(`${model}: ${describeProof(proof, device)}`);
}

/** Of a session that is not to be believed. */
export function disproved(path: string, device: Device, wrong: readonly CanaryFinding[]): RredcotError {
  const why = `the policy does not give the numbers of its canary: ${wrong.map(describeFinding).join('; ')}`;
  return unfit(path, device, why);
}

/** Of a session that cannot even run it. */
export function unproved(path: string, device: Device, cause: Error): RredcotError {
  return unfit(path, device, `the policy cannot run its canary: ${cause.message}`, cause);
}

function unfit(path: string, device: Device, why: string, cause?: Error): RredcotError {
  return new RredcotError(`${path}: on ${deviceName(device)} ${why}`, {
    exitCode: EXIT.device,
    hint: sessionHint(device) ?? buildAgain(path),
    cause,
  });
}

/** A canary as `canary.json` has it: passes, with what the model has to say of each. */
export interface Canary {
  readonly passes: readonly CanaryPass[];
}

/** Lists in the file, typed arrays where they are asked and answered. */
export type Numbers = ArrayLike<number>;

/** One run of a policy. */
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

/**
 * Reads a folder's canary. Its hash is that of the build; what it holds shows when a session is asked.
 * @throws RredcotError (exit 2) for a file that is no canary
 */
export async function readCanary({ path, canary }: Pick<PolicyFolder, 'path' | 'canary'>): Promise<Canary> {
  const text = (await untrustedText(path, canary.file)) ?? '';
  const found = parseJson(text, `${path}/${canary.file}`, buildAgain(path)) as Canary | null;
  if (Array.isArray(found?.passes)) return found as Canary;
  throw usageError(`${path}/${canary.file}: holds no canary`, buildAgain(path));
}

function buildAgain(path: string): string {
  return `build the folder again with: rredcot policy build <checkpoint> -o ${shellWord(path)}`;
}
