// --device: its values, what is looked for and where, and the refusal of sessions whose heavy nodes are off the GPU.
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { describe, expect, it } from 'vitest';
import {
  type CudaFindings,
  cudaProblems,
  driverVersion,
  findCuda,
  findLibraries,
  gpusInSight,
  linkedLibraries,
  onnxRuntimePackage,
} from '../../../dist/model/onnx/cuda.js';
import { autoDevice, parseDevice, resolveDevice } from '../../../dist/model/onnx/device.js';
import { openPolicyFolder } from '../../../dist/model/onnx/folder.js';
import { heavyNodes, placementCheck, placementFault } from '../../../dist/model/onnx/onnx-session.js';
import { ModelSession } from '../../../dist/model/onnx/session.js';
import { rredcotHere } from '../../support/in-process.js';
import { EMBEDDED, temporaryFolder } from '../../support/program.js';

const scratch = await temporaryFolder();

const PROVIDER = 'libonnxruntime_providers_cuda.so';
const SHARED = 'libonnxruntime_providers_shared.so';
const NEEDED = ['libcuda.so.1', 'libcudart.so.13', 'libcublas.so.13', 'libcublasLt.so.13', 'libcurand.so.10'];
const there = (name: string) => ({ name, path: `/here/${name}`, loadable: true });
const absent = (name: string) => ({ name, path: undefined, loadable: false });

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
    expect(parseDevice('auto')).toBe('auto');
    expect(parseDevice('cpu')).toEqual({ name: 'cpu' });
    expect(parseDevice('cuda')).toEqual(cuda(0));
    expect(parseDevice('cuda:7')).toEqual(cuda(7));
  });

  it.each(['', 'gpu', 'CUDA', 'cuda:', 'cuda:-1', 'cuda:x', 'cuda:1.5', 'cuda:1000', 'cuda:0 ', 'cpu:0'])(
    'refuses %j with exit 2',
    (text) => {
      expect(() => parseDevice(text)).toThrowError(
        expect.objectContaining({ exitCode: 2, message: expect.stringContaining(`--device ${text}:`) }),
      );
    },
  );

  it('is exit 2 on the command line before anything is read', async () => {
    for (const command of ['score', 'segment']) {
      const { code, stderr } = await rredcotHere([command, 'no-such-file.jsonl', '--device', 'cuda:x']);
      expect(code).toBe(2);
      expect(stderr).toContain('--device cuda:x: expected auto, cpu, cuda or cuda:<number of the GPU>');
    }
  });
});

describe('resolveDevice', () => {
  it('takes cpu as it is, looking for nothing', async () => {
    const never = () => Promise.reject(new Error('looked'));
    expect((await resolveDevice({ name: 'cpu' }, never)).device).toEqual({ name: 'cpu' });
    await expect(resolveDevice('auto', never)).rejects.toThrow('looked');
  });

  it('auto takes CUDA only where nothing is in its way', async () => {
    expect(await resolveDevice('auto', finding(complete))).toEqual({
      device: cuda(0),
      reason: 'NVIDIA H200, driver 580.65.06',
    });
    expect(await resolveDevice('auto', finding({ ...complete, driver: undefined }))).toEqual({
      device: { name: 'cpu' },
      reason: 'CUDA lacks: no NVIDIA driver answers',
    });
    expect(autoDevice(complete).device).toEqual(cuda(0));
  });

  it('cuda asked for and all there is cuda, the GPU that was named', async () => {
    expect((await resolveDevice(cuda(1), finding(complete))).device).toEqual(cuda(1));
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
        fix: "apt-get install cuda-libraries-13-0 (from NVIDIA's package repository)",
      },
    ]);
    const path = '/usr/local/cuda-13.0/lib64/libcurand.so.10';
    expect(what({ libraries: [{ name: 'libcurand.so.10', path, loadable: false }] })).toEqual([
      {
        what: 'libcurand.so.10 lies in /usr/local/cuda-13.0/lib64, where the loader does not look',
        fix: 'export LD_LIBRARY_PATH=/usr/local/cuda-13.0/lib64:$LD_LIBRARY_PATH',
      },
    ]);
    expect(what({}, 1)).toEqual([]);
    expect(what({}, 2).map((p) => p.what)).toEqual(['there is no GPU 2, 2 in sight']);
    expect(what({ gpus: [] }).map((p) => p.what)).toEqual(['no GPU answers']);
    expect(what({ provider: [absent(SHARED), there(PROVIDER)] })).toHaveLength(1);
    expect(what({ driver: '579.99' }).map((p) => p.what)).toEqual(['driver 579.99 is older than 580']);
    // a provider built for CUDA 12 asks for less of the driver and for other libraries
    const twelve = { libraries: [there('libcudart.so.12'), absent('libcublas.so.12')], driver: '550.54' };
    expect(what(twelve).map((p) => p.fix)).toEqual([
      "apt-get install cuda-libraries-12-0 (from NVIDIA's package repository)",
    ]);
    expect(what({ platform: 'win32/x64', driver: undefined, provider: [] }).map((p) => p.what)).toEqual([
      'CUDA is for linux/x64, this is win32/x64',
    ]);
  });
});

describe('what is found without loading it', () => {
  const onLinux = process.platform === 'linux' && process.arch === 'x64';
  const native = onnxRuntimePackage()?.nativeFolder as string;
  const BINDING = join(native, 'onnxruntime_binding.node');
  /** A folder with libraries that the loader can read, under these names; each is linked to libonnxruntime.so.1. */
  const librariesIn = (...names: string[]): string => {
    const folder = folderWith();
    for (const name of names) copyFileSync(BINDING, join(folder, name));
    return folder;
  };

  it.runIf(onLinux)('what a library is linked to, by the loader itself (linux/x64 only)', async () => {
    const found = await linkedLibraries(BINDING, {});
    // its RUNPATH is $ORIGIN
    const beside = join(native, 'libonnxruntime.so.1');
    expect(found).toContainEqual({ name: 'libonnxruntime.so.1', path: beside, loadable: true });
    expect(found?.map(({ name }) => name)).toEqual(expect.arrayContaining(['libc.so.6', 'libstdc++.so.6']));
    const alone = await linkedLibraries(join(librariesIn('a b.so'), 'a b.so'), {});
    expect(alone).toContainEqual(absent('libonnxruntime.so.1'));
    const elsewhere = await linkedLibraries(join(librariesIn('c.so'), 'c.so'), { LD_LIBRARY_PATH: native });
    expect(elsewhere).toContainEqual({ name: 'libonnxruntime.so.1', path: beside, loadable: true });
  });

  it('of a file that is absent, damaged or no library nothing is known', async () => {
    const damaged = join(scratch, 'damaged.so');
    for (const length of [0, 3, 64, 1000]) {
      writeFileSync(damaged, readFileSync(BINDING).subarray(0, length));
      expect(await linkedLibraries(damaged, {}), `${length} bytes`).toBeUndefined();
    }
    expect(await linkedLibraries(join(scratch, 'absent.so'), {})).toBeUndefined();
    expect(await linkedLibraries(scratch, {})).toBeUndefined();
  });

  it.runIf(onLinux)(
    'libraries by name: on LD_LIBRARY_PATH, and those that the loader knows anyway',
    async () => {
      const [first, second] = [librariesIn('liba.so.1'), librariesIn('liba.so.1', 'libb.so.1')];
      writeFileSync(join(first, 'libb.so.1'), ''); // an empty file is not what the loader takes
      const LD_LIBRARY_PATH = `/nowhere:${first}:${second}`;
      expect(
        await findLibraries(['liba.so.1', 'libb.so.1', 'libc.so.6', 'libnone.so'], { LD_LIBRARY_PATH }),
      ).toEqual([
        { name: 'liba.so.1', path: join(first, 'liba.so.1'), loadable: true },
        expect.objectContaining({ name: 'libb.so.1', loadable: false }),
        expect.objectContaining({ name: 'libc.so.6', loadable: true }),
        absent('libnone.so'),
      ]);
      expect(await findLibraries(['liba.so.1'], {})).toEqual([absent('liba.so.1')]);
    },
  );

  it('reads the driver’s version, and what CUDA_VISIBLE_DEVICES leaves', () => {
    expect(
      driverVersion(
        'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\nGCC 12',
      ),
    ).toBe('580.65.06');
    expect(driverVersion('NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54  Tue')).toBe('535.54');
    expect(driverVersion('')).toBeUndefined();
    expect(gpusInSight(['a', 'b', 'c'], undefined)).toEqual(['a', 'b', 'c']);
    expect(gpusInSight(['a', 'b', 'c'], '2,0')).toEqual(['c', 'a']);
    expect(gpusInSight(['a', 'b', 'c'], '1,-1,0')).toEqual(['b']);
    expect(gpusInSight(['a'], 'GPU-1234')).toEqual(['GPU-1234']);
    expect(gpusInSight(['a'], '')).toEqual([]);
    expect(gpusInSight(['a'], '1')).toEqual([]);
  });

  it.runIf(onLinux)('puts it together: provider beside libonnxruntime, the loader, nvidia-smi', async () => {
    const native = folderWith(SHARED, PROVIDER); // no libraries: the table of 1.29.0 stands in
    const libraries = librariesIn(...NEEDED);
    const PATH = commands({ 'nvidia-smi': '580.65.06, NVIDIA H200\n580.65.06, NVIDIA L4' });
    const found = await findCuda({ PATH, LD_LIBRARY_PATH: `/nowhere:${libraries}` }, native);
    expect(found).toMatchObject({ driver: '580.65.06', gpus: ['NVIDIA H200', 'NVIDIA L4'] });
    expect(found.provider.every(({ loadable }) => loadable)).toBe(true);
    expect(found.libraries).toEqual(
      NEEDED.map((name) => ({ name, path: join(libraries, name), loadable: true })),
    );
    expect(cudaProblems(found, 1)).toEqual([]);
    rmSync(join(native, PROVIDER));
    rmSync(join(libraries, 'libcublas.so.13'));
    const less = await findCuda({ PATH, LD_LIBRARY_PATH: libraries, CUDA_VISIBLE_DEVICES: '0' }, native);
    expect(cudaProblems(less, 1).map(({ what }) => what)).toEqual([
      expect.stringContaining(`${PROVIDER} is missing`),
      expect.stringContaining('libcublas.so.13'),
      'there is no GPU 1, 1 in sight',
    ]);
  });

  it.runIf(onLinux)('asks for what the provider at hand is linked to, the C runtime left out', async () => {
    // any library will do for a provider: the binding is linked to libonnxruntime and the C runtime
    const native = librariesIn(SHARED, PROVIDER);
    expect((await findCuda({}, native)).libraries).toEqual([absent('libonnxruntime.so.1')]);
  });
});

describe('placement', () => {
  const event = (name: string, op_name: string, provider: string) => ({
    cat: 'Node',
    name: `${name}_kernel_time`,
    args: { op_name, provider },
  });
  const CUDA = 'CUDAExecutionProvider';
  const CPU = 'CPUExecutionProvider';
  /** as ONNX Runtime writes it for a good CUDA session: shape arithmetic on the CPU, all else on the GPU */
  const good = [
    { cat: 'Session', name: 'session_initialization' },
    event('Shape_0', 'Shape', CPU),
    event('q', 'Gemm', CUDA),
    event('attention', 'GroupQueryAttention', CUDA),
    { ...event('attention', 'GroupQueryAttention', CPU), name: 'attention_fence_before' },
    event('head.Gemm', 'Gemm', CUDA),
    event('head.Gemm', 'Gemm', CUDA),
  ];

  it('passes heavy nodes on the GPU and shape arithmetic on the CPU', () => {
    const nodes = heavyNodes(JSON.stringify(good));
    expect(nodes.map(({ name }) => name)).toEqual(['q', 'attention', 'head.Gemm']);
    expect(placementFault(nodes, 'cuda:0')).toBeUndefined();
  });

  it.each(['Gemm', 'MatMul', 'GroupQueryAttention', 'Softmax', 'LogSoftmax'])(
    'names a %s on the CPU',
    (op) => {
      const nodes = heavyNodes(JSON.stringify([...good, event('stray', op, CPU)]));
      expect(placementFault(nodes, 'cuda:1')).toBe(
        `1 of 4 heavy nodes run on the CPU instead of cuda:1: ${op} (stray)`,
      );
    },
  );

  it('a profile without heavy nodes is no proof', () => {
    expect(placementFault(heavyNodes('[]'), 'cuda:0')).toContain('placement unknown');
  });

  /** The embedded prefix graph, opened on the CPU as a CUDA session would be, and a run of it over two tokens. */
  async function profiledPrefix(options: InferenceSession.SessionOptions) {
    const { architecture } = await openPolicyFolder(EMBEDDED);
    const session = await InferenceSession.create(join(EMBEDDED, 'policy.onnx'), {
      executionProviders: ['cpu'],
      logSeverityLevel: 3,
      ...options,
    });
    // one of each, two tokens, nothing before them
    const sizes: Readonly<Record<string, number>> = { S: 2, M: 1024, T: 0, P: 0, Q: 0, L: 0 };
    const one = BigInt64Array.of(1n, 0n);
    const feeds = session.inputMetadata.map(({ name, ...input }) => {
      const { type, shape } = input as InferenceSession.TensorValueMetadata;
      const dims = shape.map((dim) => (typeof dim === 'number' ? dim : (sizes[dim] ?? 1)));
      const size = dims.reduce((product, dim) => product * dim, 1);
      const zeros = type === 'int64' ? new BigInt64Array(size) : new Float32Array(size);
      return [name, new Tensor(type as 'int64', (name.endsWith('_to') ? one : zeros) as BigInt64Array, dims)];
    });
    const run = async () => void (await session.run(Object.fromEntries(feeds)));
    return { session, run, layers: architecture.layers };
  }

  it('a real profile of a CPU session: every heavy node of the graph is in it, those of the Scan too', async () => {
    const prefix = join(mkdtempSync(join(scratch, 'profile-')), 'prefix');
    const { session, run, layers } = await profiledPrefix({
      enableProfiling: true,
      profileFilePrefix: prefix,
    });
    await run();
    session.endProfiling();
    const folder = join(prefix, '..');
    const nodes = heavyNodes(readFileSync(join(folder, readdirSync(folder)[0] as string), 'utf8'));
    const count = (op: string) => nodes.filter((node) => node.op === op).length;
    expect(nodes.every(({ provider }) => provider === CPU)).toBe(true);
    // one attention a layer, its projections and its MLP; the head's LogSoftmax is in the Scan's body
    expect(count('GroupQueryAttention')).toBe(layers);
    expect(count('Gemm') + count('MatMul')).toBeGreaterThan(4 * layers);
    expect(count('LogSoftmax')).toBe(1);
    await session.release();
  });

  it('verify refuses such a session where a GPU was asked for, and cleans up', async () => {
    const check = placementCheck('cuda:0');
    const options = check.options('prefix');
    const { session, run, layers } = await profiledPrefix(options);
    const more = layers > 3 ? `, and ${layers - 3} more` : '';
    await expect(check.verify([session], run)).rejects.toThrow(
      new RegExp(`heavy nodes run on the CPU instead of cuda:0: .*GroupQueryAttention \\([^)]*${more}\\)`),
    );
    expect(existsSync(join(options.profileFilePrefix as string, '..'))).toBe(false);
    await run(); // the session goes on without its profile
    await session.release();
  });

  it('verify does not pass sessions whose profiles are missing', async () => {
    const check = placementCheck('cuda:0');
    const { session, run } = await profiledPrefix({});
    await expect(check.verify([session], run)).rejects.toThrow('placement unknown');
    await session.release();
  });
});

describe('ModelSession.open on a device that is not there', () => {
  it('is exit 69 naming the device and what works', async () => {
    const folder = await openPolicyFolder(EMBEDDED);
    // no machine has GPU 999, with CUDA or without
    const error = await ModelSession.open(folder, cuda(999)).then(
      (session) => session.close(),
      (cause: unknown) => cause,
    );
    expect(error).toMatchObject({
      exitCode: 69,
      message: expect.stringContaining('cannot load the policy on cuda:999'),
      hint: expect.stringContaining('--device cpu'),
    });
  });
});
