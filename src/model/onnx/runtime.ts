// ONNX Runtime as a session loads it: npm's own, or the build in a folder that the environment names, with NVIDIA's libraries before it.
import { existsSync, readdirSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { deviceError } from '../../errors.js';

type Env = Readonly<Record<string, string | undefined>>;

/** Where another build of the very release of onnxruntime-node lies, with its providers beside it. */
export const runtimeFolder = (env: Env = process.env): string | undefined => env.RREDCOT_ONNXRUNTIME;
/** Where NVIDIA's libraries lie, if not where the system looks for them. */
export const cudaFolder = (env: Env = process.env): string | undefined => env.RREDCOT_CUDA;

/** What the CUDA provider is linked to, each behind what it needs itself. */
const OF_CUDA = ['libcudart.so.', 'libcublasLt.so.', 'libcublas.so.', 'libcurand.so.'];

/**
 * The module. What it is linked to is looked for by name: a library of that name that the process has loaded before is taken, so no
 * path has to be set, which every child of the process would see.
 * @throws RredcotError (exit 69) where a library that is there cannot be loaded
 */
export async function loadRuntime(isCuda: boolean): Promise<typeof import('onnxruntime-node')> {
  const [runtime, cuda] = [runtimeFolder(), cudaFolder()];
  if (cuda !== undefined && isCuda) for (const begin of OF_CUDA) loadFrom(cuda, begin);
  if (runtime !== undefined) loadFrom(runtime, 'libonnxruntime.so.');
  return import('onnxruntime-node');
}

function loadFrom(folder: string, begin: string): void {
  const name = existsSync(folder) ? readdirSync(folder).find((each) => each.startsWith(begin)) : undefined;
  if (name !== undefined) load(join(folder, name));
}

/** dlopen(3): it stays when Node, which finds no addon in it, closes it again. Node knows the other flags' names. */
const STAYS = 0x1000;

function load(library: string): void {
  const { RTLD_NOW, RTLD_GLOBAL } = constants.dlopen;
  try {
    process.dlopen({ exports: {} }, library, RTLD_NOW | RTLD_GLOBAL | STAYS);
  } catch (cause) {
    const { message } = cause as Error;
    if (!message.includes('did not self-register'))
      throw deviceError(`${library}: ${message}`, undefined, cause);
  }
}
