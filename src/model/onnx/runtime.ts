// ONNX Runtime as a session loads it: npm's own, or the build in a folder that the environment names, with NVIDIA's libraries before it.
import { readdirSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';

/** Where another build of the very release of onnxruntime-node lies, with its providers beside it. */
export const runtimeFolder = (env = process.env): string | undefined => env.RREDCOT_ONNXRUNTIME || undefined;
/** Where NVIDIA's libraries lie, if not where the system looks for them. */
export const cudaFolder = (env = process.env): string | undefined => env.RREDCOT_CUDA || undefined;

/** What the CUDA provider is linked to, each behind what it needs itself. */
const OF_CUDA = ['libcudart.so.', 'libcublasLt.so.', 'libcublas.so.', 'libcurand.so.'];

/**
 * The module. A library that the process has loaded already is taken wherever its name is asked for: no path has to be set, which every
 * child of the process would see.
 * @throws Error of the loader for a library that is there and cannot be loaded
 */
export async function loadRuntime(isCuda: boolean): Promise<typeof import('onnxruntime-node')> {
  if (isCuda) for (const begin of OF_CUDA) load(cudaFolder(), begin);
  load(runtimeFolder(), 'libonnxruntime.so.');
  return import('onnxruntime-node');
}

/** Node has no name for RTLD_NODELETE: the library stays when Node, which finds no addon in it, closes it again. */
const FLAGS = constants.dlopen.RTLD_NOW | constants.dlopen.RTLD_GLOBAL | 0x1000;

function load(folder: string | undefined, begin: string): void {
  const name = folder && readdirSync(folder).find((each) => each.startsWith(begin));
  if (!folder || !name) return;
  try {
    process.dlopen({ exports: {} }, join(folder, name), FLAGS);
  } catch (cause) {
    if (!String(cause).includes('did not self-register')) throw cause;
  }
}
