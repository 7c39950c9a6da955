// What a session's canary has shown, told to the user and kept for the records of the run's chunks.
import type { CanaryRecord } from '../../io/run/records.js';
import type { Log } from '../../report/log.js';
import type { Device } from '../device.js';
import { describeProof, type Proof } from './canary.js';

/** A session that has proved itself. */
interface Proved {
  readonly device: Device;
  readonly proof: Proof | undefined;
  proofRecord(model: string): CanaryRecord | undefined;
}

/** The part of a run that its chunks' records are made of. */
interface Run {
  readonly proofs: CanaryRecord[];
}

/** @param model whose session it is: `policy`, `prover`, `hint policy` or `prm` */
export function noteProof({ proofs }: Run, log: Log, session: Proved, model: string): void {
  const record = session.proofRecord(model);
  if (session.proof === undefined || record === undefined) return;
  proofs.push(record);
  log.record('canary', { ...record });
  // the CPU is where the numbers come from: people need not read that it gives them again
  if (session.device.name !== 'cpu') log.info(`${model}: ${describeProof(session.proof, session.device)}`);
}
