// Makes a new folder's canary: its float32 graph reads a few tokens on the CPU.
import { RredcotError, usageError } from '../../errors.js';
import type { PolicyFolder } from '../folder.js';
import type { PrmFolder } from '../prm-folder.js';
import type { CheckedIds } from './checked-text.js';
import { makePolicyCanary, type PolicyCanary } from './policy-canary.js';
import { makePrmCanary, type PrmCanary } from './prm-canary.js';
import { PrmSession } from './prm-session.js';
import { PolicySession } from './session.js';

/** @throws RredcotError (exit 2) where the policy gives no numbers, (exit 69) where it cannot be opened */
export async function policyCanary(folder: PolicyFolder, { ids, other }: CheckedIds): Promise<PolicyCanary> {
  const session = await PolicySession.openUnproved(folder);
  return makePolicyCanary(session, ids, other, folder.architecture)
    .catch((cause: Error) => {
      throw cannotMake(folder.path, cause);
    })
    .finally(() => session.close());
}

/** As {@link policyCanary}. @param ids of a text */
export async function prmCanary(folder: PrmFolder, ids: Int32Array): Promise<PrmCanary> {
  const session = await PrmSession.openUnproved(folder);
  return makePrmCanary(session, ids, folder.architecture)
    .catch((cause: Error) => {
      throw cannotMake(folder.path, cause);
    })
    .finally(() => session.close());
}

function cannotMake(path: string, cause: Error): Error {
  if (cause instanceof RredcotError) return cause;
  return usageError(
    `${path}: the canary cannot be made, the model ${cause.message}`,
    'look at the checkpoint: its weights must be finite; and the machine must have the memory to run it once in float32',
  );
}
