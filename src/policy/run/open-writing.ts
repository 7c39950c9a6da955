// A policy that is to write: opened, and its two graphs held against each other. What one wrote, the other, which has proved
// itself by the canary, has to read alike.

import type { Device } from '../device.js';
import type { PolicyFolder } from '../folder.js';
import { beyond, disproved, Farthest, type Finding, NATS, readCanary, unproved } from './canary.js';
import { continueTraces } from './continue.js';
import type { PolicyCanary } from './policy-canary.js';
import { rowKey } from './random.js';
import { graphFor, PolicySession } from './session.js';

/** Tokens that a row writes: from the second on it reads keys and values of its own. */
const WRITTEN = 6;

/**
 * Opens a policy for {@link continueTraces}.
 * @throws RredcotError as `PolicySession.open` and `openDecoder`, and (exit 69) where the graphs differ
 */
export async function openWriting(folder: PolicyFolder, device: Device): Promise<PolicySession> {
  const session = await PolicySession.open(folder, device);
  try {
    await session.openDecoder();
    const finding = await written(session, folder, device).catch((cause: Error) => {
      throw unproved(folder.path, 'the policy', device, cause);
    });
    if (beyond([finding]).length > 0) throw disproved(folder.path, 'the policy', device, [finding]);
    if (session.proof !== undefined)
      session.proof = { ...session.proof, findings: [...session.proof.findings, finding] };
    return session;
  } catch (error) {
    await session.close();
    throw error;
  }
}

/** Goes on from two states of the canary's first trace at once, so that one row is padded, and reads what was written. */
async function written(session: PolicySession, folder: PolicyFolder, device: Device): Promise<Finding> {
  const { passes } = await readCanary<PolicyCanary>(folder);
  const ids = Int32Array.from(passes[0]?.traces[0]?.ids ?? []);
  const starts = [ids.length >> 1, ids.length - 1].map((exit) => ({
    exit,
    key: rowKey('canary', exit, 0),
    most: Math.min(WRITTEN, folder.architecture.maxTokens - exit),
  }));
  const how = { temperature: 1, topP: 1, stops: [], batch: starts.length };
  const [rows = []] = await continueTraces(session, [{ ids, starts }], how);
  const sequences = starts.map(({ exit }, row) => ({
    ids: Int32Array.of(...ids.subarray(0, exit), ...(rows[row]?.ids ?? [])),
    promptLength: exit,
    branches: [],
  }));
  const read = await session.run(sequences);
  const logprob = new Farthest('written log p', 'nats', NATS[graphFor(folder, device).precision]);
  for (const [row, { exit, most }] of starts.entries()) {
    const place = (t: number) => `token ${t + 1} of ${most} written behind ${exit} of ${ids.length}`;
    logprob.add(rows[row]?.logprobs ?? [], read[row]?.logprobs ?? [], place);
  }
  return logprob.result();
}
