// The policy that ships with the program.
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { PolicyFacts } from '../report/run-figures.js';
import type { PolicyFolder } from './folder.js';

/** Its folder. */
export const EMBEDDED_POLICY = fileURLToPath(new URL('../../models/embedded', import.meta.url));

/** What the words at a run's end have to know of a policy. */
export function policyFacts({ path, architecture, exitTemplate }: PolicyFolder): PolicyFacts {
  const { close, open } = exitTemplate;
  return {
    path,
    isEmbedded: resolve(path) === EMBEDDED_POLICY,
    vocab: architecture.vocab,
    exit: `${close}${open}`,
  };
}
