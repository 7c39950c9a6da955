// What a file was made of, for its metadata.
import { creditConfig } from '../../estimate/credit.js';
import { HASH_KEY } from '../../io/files/seal.js';
import { RUN_KEY } from '../../io/write/output.js';
import type { Scored } from './open-scored.js';

/** Identity of the run, hash of the file and its credit, as far as the file says them. */
export function originOf({ metadata, credit, inputs }: Scored): Record<string, unknown> {
  return {
    run: metadata.get(RUN_KEY),
    sha256: inputs.length === 1 ? metadata.get(HASH_KEY) : undefined,
    credit: creditConfig(credit),
  };
}
