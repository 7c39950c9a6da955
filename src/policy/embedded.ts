// The policy that ships with the program.
import { resolve } from 'node:path';
import { packageFile } from '../package-files.js';
import type { PolicyFacts } from '../report/run-figures.js';
import type { PolicyFolder } from './folder.js';

/** Its folder. */
export const EMBEDDED_POLICY = packageFile('models/embedded');

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
