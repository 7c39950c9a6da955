/** Estimators by their names, for tests that go by them. */
import type { Estimator } from '../../dist/estimate/estimator.js';
import { estimatorNamed } from '../../dist/estimate/registry.js';

/** @throws for a name that none has */
export function named(name: string): Estimator {
  const found = estimatorNamed(name);
  if (found === undefined) throw new Error(`no estimator is called ${name}`);
  return found;
}
