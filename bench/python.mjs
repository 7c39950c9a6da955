// Which Python a measurement has: one with PyTorch, of RREDCOT_PYTHON, the path, or Debian's.
import { spawnSync } from 'node:child_process';

const NAMES = [process.env.RREDCOT_PYTHON, 'python3', '/usr/bin/python3'].filter(Boolean);

/** The first Python with PyTorch; undefined where there is none, which is told. */
export function pythonWithTorch() {
  const found = NAMES.find((name) => spawnSync(name, ['-c', 'import torch']).status === 0);
  if (found === undefined)
    console.error('no Python with PyTorch here\n  try: apt-get install python3-torch libopenblas0-pthread');
  return found;
}
