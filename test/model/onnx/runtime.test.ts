// ONNX Runtime from a folder that the environment names: that one is loaded, and no other; a library of NVIDIA's that cannot be loaded is an error.
import { execFileSync } from 'node:child_process';
import { copyFile, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { findCuda, onnxRuntimePackage } from '../../../dist/model/onnx/device.js';
import { EMBEDDED, ROOT, temporaryFolder } from '../../support/program.js';

const native = onnxRuntimePackage()?.nativeFolder as string;
const OPENS = `
import { readFileSync } from 'node:fs';
import { ModelSession } from '${ROOT}dist/model/onnx/session.js';
import { openPolicyFolder } from '${ROOT}dist/model/onnx/folder.js';
const device = JSON.parse(process.argv[2]);
try {
  const session = await ModelSession.open(await openPolicyFolder('${EMBEDDED}'), device);
  console.log(readFileSync('/proc/self/maps', 'utf8'));
  await session.close();
} catch (error) {
  console.log(error.message);
}`;

async function opened(device: object, env: NodeJS.ProcessEnv): Promise<string> {
  const script = join(await temporaryFolder(), 'opens.mjs');
  await writeFile(script, OPENS);
  const all = { ...process.env, ...env };
  return execFileSync(process.execPath, [script, JSON.stringify(device)], { encoding: 'utf8', env: all });
}

describe.skipIf(process.platform !== 'linux')('the libraries of a session', () => {
  it('are those of the folders that the environment names', async () => {
    const folder = await temporaryFolder();
    const [name] = (await readdir(native)).filter((each) => each.startsWith('libonnxruntime.so'));
    const own = join(folder, 'libonnxruntime.so.1.29.0');
    await copyFile(join(native, name as string), own);
    const maps = await opened({ name: 'cpu' }, { RREDCOT_ONNXRUNTIME: folder });
    expect(maps).toContain(own);
    expect(maps).not.toContain(join(native, name as string));
    expect(await opened({ name: 'cpu' }, { RREDCOT_ONNXRUNTIME: '' })).toContain(
      join(native, name as string),
    );
  });

  it("NVIDIA's come first where the policy runs on CUDA, and are left alone where it does not", async () => {
    const folder = await temporaryFolder();
    await writeFile(join(folder, 'libcudart.so.13'), 'no library');
    const told = await opened({ name: 'cuda', deviceId: 0 }, { RREDCOT_CUDA: folder });
    expect(told).toContain('ONNX Runtime cannot load the policy on cuda:0: ');
    expect(told).toContain(`${join(folder, 'libcudart.so.13')}: file too short`);
    expect(await opened({ name: 'cpu' }, { RREDCOT_CUDA: folder })).not.toContain(folder);
  });

  it('are looked for there by doctor too', async () => {
    const folder = await temporaryFolder();
    const provider = join(folder, 'libonnxruntime_providers_cuda.so');
    await writeFile(provider, '');
    const { provider: found, nativeFolder } = await findCuda({ RREDCOT_ONNXRUNTIME: folder, PATH: '' });
    expect(nativeFolder).toBe(folder);
    expect(found.map(({ path }) => path)).toEqual([undefined, provider]);
  });
});
