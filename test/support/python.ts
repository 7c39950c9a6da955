// Which Python a test has: one on the path that imports what it needs, or Debian's beside it.
import { spawnSync } from 'node:child_process';

/** For torch beside other test files: threads that wait for a core in a loop take longer than one thread alone. */
export const ONE_THREAD = { ...process.env, OMP_NUM_THREADS: '1', OPENBLAS_NUM_THREADS: '1' };

const imports = (python: string, modules: string): boolean =>
  spawnSync(python, ['-c', `import ${modules}`]).status === 0;

/** The first Python that has the modules (`torch, pyarrow`); RREDCOT_PYTHON names one that is asked before all others. */
export function pythonWith(modules: string): string | undefined {
  const named = process.env.RREDCOT_PYTHON;
  return [...(named ? [named] : []), 'python3', '/usr/bin/python3'].find((name) => imports(name, modules));
}
