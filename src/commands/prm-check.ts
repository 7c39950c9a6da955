// `rredcot policy check` of a process reward model: is the folder what was built, and does it compute what it should.
import { dataError, usageError } from '../errors.js';
import { plural } from '../plural.js';
import { type Device, type DeviceChoice, deviceName, resolveDevice } from '../policy/device.js';
import { openPrmFolder } from '../policy/prm-folder.js';
import { beyond, describeFinding, noCanary, type Proof } from '../policy/run/canary.js';
import type { Difference } from '../policy/run/check.js';
import { comparePrmReference, compareReadings, readPrmReference } from '../policy/run/check-prm.js';
import { PrmSession } from '../policy/run/prm-session.js';
import { openTokenizer } from '../policy/text/open-tokenizer.js';
import { checkFiles } from '../policy/unchanged.js';

/** Of probabilities; float32 sums in another order differ by some 1e-6. */
const DEFAULT_TOLERANCE = 1e-4;
/** In half precision. */
const HALF_TOLERANCE = 0.05;

/** What of `policy check` it takes. */
interface PrmCheckOptions {
  /** to read */
  readonly text: string;
  /** file of {@link readPrmReference} */
  readonly reference: string | undefined;
  /** of probabilities */
  readonly tolerance: number | undefined;
  readonly device: DeviceChoice;
}

/** Prints what a session's canary has shown. @returns what is beyond its bound */
export function showProof(
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

/**
 * @param print gets the report, a line at a time
 * @throws RredcotError (exit 65) where a check fails
 */
export async function prmCheck(
  path: string,
  { text, ...opts }: PrmCheckOptions,
  print: (line: string) => void,
): Promise<void> {
  const prm = await openPrmFolder(path, { verify: false });
  const { vocab, maxTokens } = prm.architecture;
  const reference = opts.reference === undefined ? undefined : await readPrmReference(opts.reference, vocab);
  const tokenizer = await openTokenizer(path);
  const ids = (await tokenizer.encodePrompt(text)).slice(0, maxTokens);
  await tokenizer.close();
  if (ids.length < 2)
    throw usageError(
      `the text has ${plural(ids.length, 'token')}, expected at least 2`,
      '--text <a longer text>',
    );
  const { line, faults } = await checkFiles(prm);
  print(line);
  const { device } = await resolveDevice(opts.device, prm);
  if (prm.canary === undefined) throw noCanary(prm.path);
  const session = await PrmSession.openUnproved(prm, device);
  try {
    const show = (differences: readonly Difference[], tolerance: number) => {
      for (const { what, count, nats: size, token } of differences) {
        const found = `${size.toExponential(1)} at token ${token}`;
        print(`  ${what.padEnd(27)} ${found} (${count} compared)`);
        if (!(size <= tolerance)) faults.push(`${what} differ by ${found}`);
      }
    };
    faults.push(...showProof(await session.prove(Number.POSITIVE_INFINITY), device, print));
    const rounding = device.name === 'cuda' ? HALF_TOLERANCE : DEFAULT_TOLERANCE;
    const allowed = opts.tolerance ?? rounding;
    print(
      `text of ${plural(ids.length, 'token')} on ${deviceName(device)}, largest differences of P(right) (allowed ${allowed}):`,
    );
    show(await compareReadings(session, ids), allowed);
    if (reference !== undefined) {
      const own = opts.tolerance ?? reference.tolerance ?? rounding;
      print(
        `reference of ${plural(reference.ids.length, 'token')}, largest difference of P(right) (allowed ${own}):`,
      );
      show(await comparePrmReference(session, reference), own);
    }
  } finally {
    await session.close();
  }
  if (faults.length > 0)
    throw dataError(
      `${path}: the reward model does not check: ${faults.join('; ')}`,
      'build the folder again; compare with a reference in float32; --tolerance <a larger one>',
    );
  print('all checks hold');
}
