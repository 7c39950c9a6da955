// `rredcot policy check`: is the folder what was built, and does it compute what it should.
import { readFile } from 'node:fs/promises';
import { dataError, usageError } from '../errors.js';
import { plural } from '../plural.js';
import { type DeviceChoice, deviceName, resolveDevice } from '../policy/device.js';
import { openPolicyFolder, type PolicyFolder } from '../policy/folder.js';
import { isPrmFolder } from '../policy/prm-folder.js';
import { noCanary } from '../policy/run/canary.js';
import {
  compareDecoding,
  compareReference,
  compareRuns,
  type Difference,
  LEAST_TOKENS,
  readReference,
} from '../policy/run/check.js';
import { compareAttribution } from '../policy/run/check-attribution.js';
import { CHECKED_TEXT, type CheckedIds, checkedIds } from '../policy/run/checked-text.js';
import { PolicySession } from '../policy/run/session.js';
import { openTokenizer } from '../policy/text/open-tokenizer.js';
import { checkFiles } from '../policy/unchanged.js';
import { prmCheck, showProof } from './prm-check.js';

export interface CheckOptions {
  /** file of the text to read; undefined: the built-in one */
  readonly text: string | undefined;
  readonly reference: string | undefined;
  /** nats; undefined: the reference's own, or {@link DEFAULT_TOLERANCE}, or {@link HALF_TOLERANCE} */
  readonly tolerance: number | undefined;
  readonly device: DeviceChoice;
}

/** Float32 sums in another order differ by some 1e-5 nats in small models, by some 1e-4 in large ones. */
const DEFAULT_TOLERANCE = 1e-3;
/** What `sample` promises of the log-probabilities that it writes. */
const DECODING_TOLERANCE = 1e-4;
/** Of one device's readings of one text in bfloat16; a wrong mask or position costs several. */
const HALF_TOLERANCE = 0.3;

/**
 * @param print gets the report, a line at a time
 * @throws RredcotError (exit 65) where a check fails
 */
export async function policyCheck(
  path: string,
  opts: CheckOptions,
  print: (line: string) => void,
): Promise<void> {
  if (await isPrmFolder(path)) {
    await prmCheck(path, { ...opts, text: await checkedText(opts.text) }, print);
    return;
  }
  const policy = await openPolicyFolder(path, { verify: false });
  const reference =
    opts.reference === undefined ? undefined : await readReference(opts.reference, policy.architecture.vocab);
  const { ids, other } = await idsOf(policy, opts.text);
  const failures: string[] = [];

  const files = await checkFiles(policy);
  print(files.line);
  failures.push(...files.faults);
  const { device } = await resolveDevice(opts.device, policy);
  if (policy.canary === undefined) throw noCanary(policy.path);
  const session = await PolicySession.openUnproved(policy, device);
  try {
    const show = (differences: readonly Difference[], tolerance: number, unit = ' nats') => {
      for (const { what, count, nats, token } of differences) {
        const failed = !(nats <= tolerance);
        print(`  ${what.padEnd(27)} ${nats.toExponential(1)} at token ${token} (${count} compared)`);
        if (failed) failures.push(`${what} differ by ${nats.toExponential(1)}${unit} at token ${token}`);
      }
    };
    failures.push(...showProof(await session.prove(Number.POSITIVE_INFINITY), device, print));
    const rounding = device.name === 'cuda' ? HALF_TOLERANCE : DEFAULT_TOLERANCE;
    const tolerance = opts.tolerance ?? rounding;
    print(
      `text of ${plural(ids.length, 'token')} on ${deviceName(device)}, largest differences in nats (allowed ${tolerance}):`,
    );
    show(await compareRuns(session, ids, other), tolerance);
    if (policy.decoding === undefined)
      print('no graph that writes: sample and --estimator mc need one, which rredcot policy build makes');
    else {
      const allowed = opts.tolerance ?? (device.name === 'cpu' ? DECODING_TOLERANCE : rounding);
      await session.openDecoder();
      print(`completions of it, largest difference in nats (allowed ${allowed}):`);
      show(await compareDecoding(session, ids, policy.architecture.maxTokens), allowed);
    }
    if (policy.attribution === undefined)
      print(
        'no graphs that attribute: --estimator attention and gradient need them, which rredcot policy build makes',
      );
    else {
      print(
        `attributions of it, largest differences as shares of the largest number (allowed ${tolerance}):`,
      );
      const behind = [other, other.slice(0, -1)] as const;
      for (const kind of ['attention', 'gradient'] as const)
        show(await compareAttribution(session, kind, ids, behind), tolerance, '');
    }
    if (reference !== undefined) {
      const allowed = opts.tolerance ?? reference.tolerance ?? rounding;
      print(
        `reference of ${plural(reference.ids.length, 'token')}, largest differences in nats (allowed ${allowed}):`,
      );
      show(await compareReference(session, reference), allowed);
    }
  } finally {
    await session.close();
  }
  if (failures.length > 0)
    throw dataError(
      `${path}: the policy does not check: ${failures.join('; ')}`,
      'build the folder again; compare with a reference in float32; --tolerance <nats>',
    );
  print('all checks hold');
}

/** The text's ids, cut to what the policy takes, and a continuation that is not the text's. */
async function idsOf(
  { path, architecture, exitTemplate }: PolicyFolder,
  textFile: string | undefined,
): Promise<CheckedIds> {
  const tokenizer = await openTokenizer(path);
  const text = await checkedText(textFile);
  const { ids: whole, other } = await checkedIds(tokenizer, exitTemplate, text);
  await tokenizer.close();
  const ids = whole.slice(0, architecture.maxTokens - other.length);
  if (ids.length < LEAST_TOKENS)
    throw usageError(
      `${textFile ?? 'the built-in text'} has ${plural(ids.length, 'token')}, expected at least ${LEAST_TOKENS}`,
      '--text <a longer text>',
    );
  const beyond = ids.find((id) => id >= architecture.vocab);
  if (beyond !== undefined)
    throw usageError(
      `the tokenizer gives the id ${beyond}, the policy's vocabulary has ${architecture.vocab} tokens`,
      'config.json and tokenizer.json must be of the same checkpoint',
    );
  return { ids, other };
}

async function checkedText(file: string | undefined): Promise<string> {
  if (file === undefined) return CHECKED_TEXT;
  return readFile(file, 'utf8').catch((cause: Error) => {
    throw usageError(`${file}: cannot be read (${cause.message})`, '--text <a text file>');
  });
}
