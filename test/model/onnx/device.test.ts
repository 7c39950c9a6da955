// --device: its values, what is looked for and where.
import { chmodSync, copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  autoDevice,
  type CudaFindings,
  cudaProblems,
  findCuda,
  gpusInSight,
  linkedLibraries,
  onnxRuntimePackage,
  parseDevice,
  resolveDevice,
} from '../../../dist/model/onnx/device.js';
import { openPolicyFolder } from '../../../dist/model/onnx/folder.js';
import { ModelSession } from '../../../dist/model/onnx/session.js';
import { EMBEDDED, temporaryFolder } from '../../support/program.js';

const scratch = await temporaryFolder();

const PROVIDER = 'libonnxruntime_providers_cuda.so';
const SHARED = 'libonnxruntime_providers_shared.so';
const NEEDED = ['libcuda.so.1', 'libcudart.so.13', 'libcublas.so.13', 'libcublasLt.so.13', 'libcurand.so.10'];
const there = (name: string) => ({ name, path: `/here/${name}` });
const absent = (name: string) => ({ name, path: undefined });

/** A machine with all that CUDA needs. */
const complete: CudaFindings = {
  platform: 'linux/x64',
  nativeFolder: '/app/node_modules/onnxruntime-node/bin/napi-v6/linux/x64',
  provider: [there(SHARED), there(PROVIDER)],
  libraries: NEEDED.map(there),
  driver: '580.65.06',
  gpus: ['NVIDIA H200', 'NVIDIA H200'],
};
const finding = (cuda: CudaFindings) => () => Promise.resolve(cuda);
const cuda = (deviceId: number) => ({ name: 'cuda', deviceId }) as const;

/** A folder with empty files of these names. */
function folderWith(...names: string[]): string {
  const folder = mkdtempSync(join(scratch, 'lib-'));
  for (const name of names) writeFileSync(join(folder, name), '');
  return folder;
}

/** A folder with commands that print a text, or fail. */
function commands(texts: Record<string, string | null>): string {
  const folder = mkdtempSync(join(scratch, 'bin-'));
  for (const [name, text] of Object.entries(texts)) {
    const body = text === null ? 'exit 9' : `/bin/cat <<'TEXT'\n${text}\nTEXT`;
    writeFileSync(join(folder, name), `#!/bin/sh\n${body}\n`);
    chmodSync(join(folder, name), 0o755);
  }
  return folder;
}

describe('--device', () => {
  it('takes auto, cpu, cuda and cuda:<n>', () => {
    const read = ['auto', 'cpu', 'cuda', 'cuda:7'].map((text) => parseDevice(text));
    expect(read).toEqual(['auto', { name: 'cpu' }, cuda(0), cuda(7)]);
  });

  it.each(['', 'gpu', 'CUDA', 'cuda:', 'cuda:-1', 'cuda:x', 'cuda:1.5', 'cuda:1000', 'cuda:0 ', 'cpu:0'])(
    'refuses %j with exit 2',
    (text) => {
      expect(() => parseDevice(text)).toThrowError(
        expect.objectContaining({ exitCode: 2, message: expect.stringContaining(`--device ${text}:`) }),
      );
    },
  );
});

describe('resolveDevice', () => {
  const never = () => Promise.reject(new Error('looked'));

  it('takes cpu as it is, looking for nothing', async () => {
    const look = () => {
      throw new Error('looked');
    };
    expect(await resolveDevice({ name: 'cpu' }, never, look)).toEqual({ name: 'cpu' });
    await expect(resolveDevice('auto', never, look)).rejects.toThrow('looked');
  });

  it('auto takes CUDA only where nothing is in its way', async () => {
    const lacking = { ...complete, driver: undefined };
    const installed = () => complete.provider;
    expect(await resolveDevice('auto', finding(complete), installed)).toEqual(cuda(0));
    expect(await resolveDevice('auto', finding(lacking), installed)).toEqual({ name: 'cpu' });
    expect(autoDevice(complete)).toEqual({ device: cuda(0), reason: 'NVIDIA H200, driver 580.65.06' });
    expect(autoDevice(lacking)).toEqual({
      device: { name: 'cpu' },
      reason: 'CUDA lacks: no NVIDIA driver answers (nvidia-smi)',
    });
  });

  it('auto looks for nothing more where the provider is not installed', async () => {
    for (const provider of [
      [absent(SHARED), there(PROVIDER)],
      [there(SHARED), absent(PROVIDER)],
    ])
      expect(await resolveDevice('auto', never, () => provider)).toEqual({ name: 'cpu' });
  });

  it('cuda asked for with nothing there is exit 69, naming each thing and what fixes it', async () => {
    const nothing: CudaFindings = {
      ...complete,
      provider: [absent(SHARED), absent(PROVIDER)],
      libraries: NEEDED.map(absent),
      driver: undefined,
      gpus: [],
    };
    const error = await resolveDevice(cuda(0), finding(nothing)).catch((e: unknown) => e);
    expect(error).toMatchObject({ exitCode: 69 });
    const { message, hint } = error as { message: string; hint: string };
    for (const name of [SHARED, PROVIDER, ...NEEDED]) expect(message).toContain(`${name} is missing`);
    expect(message).toContain('--device cuda:0 cannot be had');
    expect(message).toContain('no NVIDIA driver answers');
    expect(hint).toContain(
      'ONNXRUNTIME_NODE_INSTALL=cuda12 node /app/node_modules/onnxruntime-node/script/install.js',
    );
    expect(hint).toContain('apt-get install cuda-libraries-13-0');
    expect(hint.split('install the NVIDIA driver, 580 or newer').length).toBe(2); // said once
    expect(hint).toMatch(/or --device cpu$/);
  });

  it('names exactly what is in the way', () => {
    const what = (lack: Partial<CudaFindings>, deviceId = 0) =>
      cudaProblems({ ...complete, ...lack }, deviceId);
    expect(what({})).toEqual([]);
    expect(what({ libraries: [there('libcudart.so.13'), absent('libcublas.so.13')] })).toEqual([
      {
        what: 'libcublas.so.13 is missing (CUDA 13)',
        fix: "apt-get install cuda-libraries-13-0 (from NVIDIA's package repository), or export LD_LIBRARY_PATH=<its folder>",
      },
    ]);
    expect(what({}, 1)).toEqual([]);
    expect(what({}, 2).map((p) => p.what)).toEqual(['there is no GPU 2, 2 in sight']);
    expect(what({ gpus: [] }).map((p) => p.what)).toEqual(['no GPU answers']);
    expect(what({ provider: [absent(SHARED), there(PROVIDER)] })).toHaveLength(1);
    expect(what({ driver: '579.99' }).map((p) => p.what)).toEqual(['driver 579.99 is older than 580']);
    // a provider built for CUDA 12 asks for less of the driver and for other libraries
    const twelve = { libraries: [there('libcudart.so.12'), absent('libcublas.so.12')], driver: '550.54' };
    expect(what(twelve).map((p) => p.fix)).toEqual([expect.stringContaining('cuda-libraries-12-0')]);
    expect(what({ platform: 'win32/x64', driver: undefined, provider: [] }).map((p) => p.what)).toEqual([
      'CUDA is for linux/x64, this is win32/x64',
    ]);
  });
});

describe('what is found without loading it', () => {
  const onLinux = process.platform === 'linux' && process.arch === 'x64';
  const native = onnxRuntimePackage()?.nativeFolder as string;
  const BINDING = join(native, 'onnxruntime_binding.node');

  it.runIf(onLinux)('what a library is linked to, by the loader itself (linux/x64 only)', async () => {
    const found = await linkedLibraries(BINDING, {});
    // its RUNPATH is $ORIGIN
    const beside = join(native, 'libonnxruntime.so.1');
    expect(found).toContainEqual({ name: 'libonnxruntime.so.1', path: beside });
    expect(found.map(({ name }) => name)).toEqual(expect.arrayContaining(['libc.so.6', 'libstdc++.so.6']));
    const alone = join(folderWith(), 'a b.so');
    copyFileSync(BINDING, alone);
    expect(await linkedLibraries(alone, {})).toContainEqual(absent('libonnxruntime.so.1'));
    expect(await linkedLibraries(alone, { LD_LIBRARY_PATH: native })).toContainEqual({
      ...{ name: 'libonnxruntime.so.1', path: beside },
    });
  });

  it('of a file that is absent, damaged or no library nothing is known', async () => {
    const damaged = join(scratch, 'damaged.so');
    for (const length of [0, 64, 1000]) {
      writeFileSync(damaged, readFileSync(BINDING).subarray(0, length));
      expect(await linkedLibraries(damaged, {}), `${length} bytes`).toEqual([]);
    }
    expect(await linkedLibraries(join(scratch, 'absent.so'), {})).toEqual([]);
  });

  it('reads what CUDA_VISIBLE_DEVICES leaves', () => {
    const of = (seen: string | undefined) => gpusInSight(['a', 'b', 'c'], seen).join();
    const given = [undefined, '2,0', '1,-1,0', 'GPU-1234', '', '3'];
    expect(given.map(of)).toEqual(['a,b,c', 'c,a', 'b', 'GPU-1234', '', '']);
  });

  it.runIf(onLinux)('puts it together: provider beside libonnxruntime, the loader, nvidia-smi', async () => {
    // any library will do for a provider: the binding is linked to libonnxruntime and the C runtime, which is left out
    const own = folderWith();
    for (const name of [SHARED, PROVIDER]) copyFileSync(BINDING, join(own, name));
    const PATH = commands({ 'nvidia-smi': '580.65.06, NVIDIA H200\n580.65.06, NVIDIA L4' });
    const found = await findCuda({ PATH, LD_LIBRARY_PATH: native }, own);
    expect(found).toMatchObject({ driver: '580.65.06', gpus: ['NVIDIA H200', 'NVIDIA L4'] });
    const runtime = { name: 'libonnxruntime.so.1', path: join(native, 'libonnxruntime.so.1') };
    expect(found.libraries).toEqual([runtime]);
    expect(cudaProblems(found, 1)).toEqual([]);
    rmSync(join(own, PROVIDER));
    const less = await findCuda({ PATH, CUDA_VISIBLE_DEVICES: '0' }, own);
    expect(cudaProblems(less, 1).map(({ what }) => what)).toEqual([
      expect.stringContaining(`${PROVIDER} is missing`),
      'there is no GPU 1, 1 in sight',
    ]);
  });
});

it('ModelSession.open on a device that is not there: is exit 69 naming the device and what works', async () => {
  const folder = await openPolicyFolder(EMBEDDED);
  // no machine has GPU 999, with CUDA or without
  await expect(ModelSession.open(folder, cuda(999))).rejects.toMatchObject({
    exitCode: 69,
    message: expect.stringContaining('cannot load the policy on cuda:999'),
    hint: expect.stringContaining('--device cpu'),
  });
});
