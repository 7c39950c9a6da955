// `rredcot policy check`: is the folder what was built, and does it compute what it should.
import { readFile } from 'node:fs/promises';
import { dataError, usageError } from '../errors.js';
import { beyond, type CanaryFinding, describeFinding, noCanary, type Proof } from '../model/onnx/canary.js';
import { CHECKED_TEXT, type CheckedIds, checkedIds } from '../model/onnx/canary-passes.js';
import {
  compareAttribution,
  compareDecoding,
  comparePrmReference,
  compareReadings,
  compareReference,
  compareRuns,
  LEAST_TOKENS,
  readPrmReference,
  readReference,
} from '../model/onnx/check.js';
import { type Device, type DeviceChoice, deviceName, resolveDevice } from '../model/onnx/device.js';
import {
  isPrmFolder,
  type ModelFolder,
  openPolicyFolder,
  openPrmFolder,
  type PolicyFolder,
  type PrmFolder,
  whatOf,
} from '../model/onnx/folder.js';
import { ModelSession } from '../model/onnx/session.js';
import { checkFiles } from '../model/onnx/unchanged-policy.js';
import { openTokenizer } from '../model/text/open-tokenizer.js';
import { plural } from '../plural.js';
import { askLines } from './policy-info.js';

export interface CheckOptions {
  /** file of the text to read; undefined: the built-in one */
  readonly text: string | undefined;
  readonly reference: string | undefined;
  /** nats, or a probability; undefined: the reference's own, or what rounding makes of them */
  readonly tolerance: number | undefined;
  readonly device: DeviceChoice;
}

/** Float32 sums in another order differ by some 1e-5 nats in small models, by some 1e-4 in large ones; probabilities by 1e-6. */
const DEFAULT_TOLERANCE = { nats: 1e-3, right: 1e-4 };
/** Of one device's readings of one text in bfloat16; a wrong mask or position costs several. */
const HALF_TOLERANCE = { nats: 0.3, right: 0.05 };
/** What `sample` promises of the log-probabilities that it writes. */
const DECODING_TOLERANCE = 1e-4;

/** What is compared, in words; words alone of what cannot be. */
interface Compared {
  readonly title: string;
  readonly allowed: number;
  compare(): Promise<readonly CanaryFinding[]>;
  /** behind a number of them, with a space before it */
  readonly unit: string;
}

/** What of a model's folder is compared, by the head that it has. */
interface Comparisons {
  readonly folder: ModelFolder;
  on(session: ModelSession, device: Device, ids: CheckedIds): AsyncGenerator<Compared | string>;
}

/**
 * @param print gets the report, a line at a time
 * @throws RredcotError (exit 65) where a check fails
 */
export async function policyCheck(
  path: string,
  opts: CheckOptions,
  print: (line: string) => void,
): Promise<void> {
  const isPrm = await isPrmFolder(path);
  const { folder, on } = await (isPrm ? ofPrm(path, opts) : ofPolicy(path, opts));
  const ids = await idsOf(folder, opts.text, print);
  const { line, faults } = await checkFiles(folder);
  print(line);
  const { device } = await resolveDevice(opts.device, folder);
  if (folder.canary === undefined) throw noCanary(path);
  await using session = await ModelSession.openUnproved(folder, device);
  faults.push(...showProof(await session.prove(Number.POSITIVE_INFINITY), device, print));
  for await (const compared of on(session, device, ids)) {
    if (typeof compared === 'string') {
      print(compared);
      continue;
    }
    const { title, allowed, unit } = compared;
    print(`${title} (allowed ${allowed}):`);
    for (const { what, count, off, place } of await compared.compare()) {
      const size = off.toExponential(1);
      print(`  ${what.padEnd(27)} ${size} at ${place} (${count} compared)`);
      if (!(off <= allowed)) faults.push(`${what} differ by ${size}${unit} at ${place}`);
    }
  }
  if (faults.length > 0)
    throw dataError(
      `${path}: ${whatOf(folder)} does not check: ${faults.join('; ')}`,
      `build the folder again; compare with a reference in float32; --tolerance <${isPrm ? 'a larger one' : 'nats'}>`,
    );
  print('all checks hold');
}

/** Prints what a session's canary has shown. @returns what is beyond its bound */
function showProof(
  { findings, attentionOnCpu, leftOut }: Proof,
  device: Device,
  print: (line: string) => void,
): string[] {
  print(`canary on ${deviceName(device)}, largest differences from float32 on the CPU:`);
  for (const { what, unit, off, allowed, place, count } of findings) {
    const size = `${off.toExponential(1)} ${unit} at ${place}`;
    print(`  ${what.padEnd(27)} ${size} (${count} compared, allowed ${Number(allowed.toPrecision(3))})`);
  }
  if (attentionOnCpu) print(`  attention runs on the CPU: that of ${deviceName(device)} is wrong`);
  if (leftOut > 0) print(`  ${plural(leftOut, 'token')} left out, which would take too long here`);
  return beyond(findings).map((finding) => `canary: ${describeFinding(finding)}`);
}

function roundingOf(device: Device, of: keyof typeof HALF_TOLERANCE): number {
  return (device.name === 'cuda' ? HALF_TOLERANCE : DEFAULT_TOLERANCE)[of];
}

async function ofPolicy(path: string, { reference: file, tolerance }: CheckOptions): Promise<Comparisons> {
  const folder: PolicyFolder = await openPolicyFolder(path, { verify: false });
  const reference = file === undefined ? undefined : await readReference(file, folder.architecture.vocab);
  const unit = ' nats';
  return {
    folder,
    async *on(session, device, { ids, other }) {
      const rounding = roundingOf(device, 'nats');
      const allowed = tolerance ?? rounding;
      yield {
        title: `text of ${plural(ids.length, 'token')} on ${deviceName(device)}, largest differences in nats`,
        ...{ allowed, compare: () => compareRuns(session, ids, other), unit },
      };
      if (folder.decoding === undefined)
        yield 'no graph that writes: sample and --estimator mc need one, which rredcot policy build makes';
      else {
        await session.openDecoder();
        yield {
          title: 'completions of it, largest difference in nats',
          allowed: tolerance ?? (device.name === 'cpu' ? DECODING_TOLERANCE : rounding),
          ...{ compare: () => compareDecoding(session, ids, folder.architecture.maxTokens), unit },
        };
      }
      if (folder.attribution === undefined)
        yield 'no graphs that attribute: --estimator attention and gradient need them, which rredcot policy build makes';
      else {
        const behind = [other, other.slice(0, -1)] as const;
        yield {
          title: 'attributions of it, largest differences as shares of the largest number',
          allowed,
          compare: async () => [
            ...(await compareAttribution(session, 'attention', ids, behind)),
            ...(await compareAttribution(session, 'gradient', ids, behind)),
          ],
          unit: '',
        };
      }
      if (reference !== undefined)
        yield {
          title: `reference of ${plural(reference.ids.length, 'token')}, largest differences in nats`,
          allowed: tolerance ?? reference.tolerance ?? rounding,
          ...{ compare: () => compareReference(session, reference), unit },
        };
    },
  };
}

async function ofPrm(path: string, { reference: file, tolerance }: CheckOptions): Promise<Comparisons> {
  const folder: PrmFolder = await openPrmFolder(path, { verify: false });
  const reference = file === undefined ? undefined : await readPrmReference(file, folder.architecture.vocab);
  return {
    folder,
    async *on(session, device, { ids }) {
      const rounding = roundingOf(device, 'right');
      yield {
        title: `text of ${plural(ids.length, 'token')} on ${deviceName(device)}, largest differences of P(right)`,
        ...{ allowed: tolerance ?? rounding, compare: () => compareReadings(session, ids), unit: '' },
      };
      if (reference !== undefined)
        yield {
          title: `reference of ${plural(reference.ids.length, 'token')}, largest difference of P(right)`,
          allowed: tolerance ?? reference.tolerance ?? rounding,
          ...{ compare: () => comparePrmReference(session, reference), unit: '' },
        };
    },
  };
}

/** The text's ids, cut to what the model takes, and of a policy a continuation that is not the text's. */
async function idsOf(
  folder: ModelFolder,
  textFile: string | undefined,
  print: (line: string) => void,
): Promise<CheckedIds> {
  const { maxTokens, vocab } = folder.architecture;
  const text = textFile === undefined ? CHECKED_TEXT : await textOf(textFile);
  const tokenizer = await openTokenizer(folder.path);
  if ('exitTemplate' in folder) for (const line of await askLines(folder, tokenizer)) print(line);
  const { ids: whole, other } =
    'exitTemplate' in folder
      ? await checkedIds(tokenizer, folder.exitTemplate, text)
      : { ids: await tokenizer.encodePrompt(text), other: new Int32Array(0) };
  await tokenizer.close();
  const ids = whole.slice(0, maxTokens - other.length);
  const least = 'head' in folder ? 2 : LEAST_TOKENS;
  if (ids.length < least)
    throw usageError(
      `${textFile ?? 'the built-in text'} has ${plural(ids.length, 'token')}, expected at least ${least}`,
      '--text <a longer text>',
    );
  const beyond = ids.find((id) => id >= vocab);
  if (beyond !== undefined)
    throw usageError(
      `the tokenizer gives the id ${beyond}, ${whatOf(folder)}'s vocabulary has ${vocab} tokens`,
      'config.json and tokenizer.json must be of the same checkpoint',
    );
  return { ids, other };
}

function textOf(file: string): Promise<string> {
  return readFile(file, 'utf8').catch((cause: Error) => {
    throw usageError(`${file}: cannot be read (${cause.message})`, '--text <a text file>');
  });
}
