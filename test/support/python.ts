// Which Python a test has: one on the path that imports what it needs, or Debian's beside it.

import { spawnSync } from 'node:child_process';

const imports = (python: string, modules: string): boolean =>
  spawnSync(python, ['-c', `import ${modules}`]).status === 0;

/** The first Python that has the modules (`torch, pyarrow`); RREDCOT_PYTHON names one that is asked before all others. */
export function pythonWith(modules: string): string | undefined {
  const named = process.env.RREDCOT_PYTHON;
  return [...(named ? [named] : []), 'python3', '/usr/bin/python3'].find((name) => imports(name, modules));
}
