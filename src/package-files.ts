// Where the files that the package ships with its code lie, wherever the build has put the code itself, and its version.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';

const ROOT = dirname(createRequire(import.meta.url).resolve('rredcot/package.json'));

/** Path of a file or folder of the package. @param name relative to package.json, e.g. `models/embedded` */
export function packageFile(name: string): string {
  return join(ROOT, name);
}

/** Whether pip has installed the program: it lies inside the Python package then. */
export const IS_WHEEL = basename(ROOT) === '_program';

/** The line that puts it in its place again. */
export const REINSTALL = IS_WHEEL
  ? 'pip install --force-reinstall rredcot'
  : 'npm ci --onnxruntime-node-install=skip';

/** Folder of the policy that ships with the program. */
export const EMBEDDED_POLICY = packageFile('models/embedded');

export const VERSION: string = (
  JSON.parse(readFileSync(packageFile('package.json'), 'utf8')) as { version: string }
).version;
