// `rredcot doctor` on this machine, whatever it has, and on machines that lack something.
import { spawnSync } from 'node:child_process';
import { cp, mkdir, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  type Check,
  cudaChecks,
  type Diagnosis,
  formatDiagnosis,
  nodeCheck,
} from '../../dist/commands/doctor.js';
import { type CudaFindings, onnxRuntimePackage } from '../../dist/model/onnx/device.js';
import { rredcotHere } from '../support/in-process.js';
import { ROOT, temporaryFolder } from '../support/program.js';

/** Doctor's own process sees no CUDA: no driver's tools on the path, no libraries beyond the system's. */
function doctorWithout(program: string, ...args: string[]) {
  const env = { ...process.env, PATH: '/nonexistent', LD_LIBRARY_PATH: '', CUDA_VISIBLE_DEVICES: '-1' };
  const run = spawnSync(process.execPath, [join(program, 'bin/rredcot.js'), 'doctor', ...args], {
    cwd: program,
    encoding: 'utf8',
    env,
  });
  return { code: run.status, stdout: run.stdout, stderr: run.stderr };
}

const json = (stdout: string) => JSON.parse(stdout) as Diagnosis;
const named = (diagnosis: Diagnosis, name: string) =>
  diagnosis.checks.find((check) => check.name === name) as Check;

describe('rredcot doctor', () => {
  it('prints a row a check, the lines that fix, and ends with what --device auto will use', async () => {
    const { code, stdout, stderr } = await rredcotHere(['doctor']);
    expect(code).toBe(0);
    expect(stderr).toBe('');
    expect(stdout).toMatch(new RegExp(`^node +ok +${process.versions.node}$`, 'm'));
    expect(stdout).toMatch(new RegExp(`^platform +ok +${process.platform}/${process.arch}`, 'm'));
    expect(stdout).toMatch(/^onnxruntime-node +ok +1\.29\.0, with cpu/m);
    expect(stdout).toMatch(
      /^embedded policy +ok +canary within \d\.\de[-+]\d nats on the CPU, in \d+\.\d\d s$/m,
    );
    const last = stdout.trimEnd().split('\n').at(-1) as string;
    expect(last).toMatch(/^--device auto will use (cpu|cuda:0): .*\.$/);
    if (last.includes('use cpu')) expect(last).toContain('cpu: CUDA lacks: ');
  });

  it('--json is the same for programs', async () => {
    const { code, stdout } = await rredcotHere(['doctor', '--json']);
    expect(code).toBe(0);
    const diagnosis = json(stdout);
    expect(diagnosis.cpuWorks).toBe(true);
    expect(diagnosis.auto?.device).toMatch(/^(cpu|cuda:0)$/);
    expect(named(diagnosis, 'embedded policy').state).toBe('ok');
    // a line that fixes whatever is not well, and for nothing else
    for (const { state, fix } of diagnosis.checks) expect(fix !== undefined).toBe(state !== 'ok');
  });

  it.skipIf(process.platform !== 'linux' || process.arch !== 'x64')(
    'names the driver and the provider where there is no CUDA (skipped off linux/x64)',
    () => {
      const { code, stdout } = doctorWithout(ROOT, '--json');
      expect(code).toBe(0);
      const diagnosis = json(stdout);
      const names = diagnosis.checks.map(({ name }) => name);
      expect(names).toEqual(expect.arrayContaining(['NVIDIA driver', 'libonnxruntime_providers_cuda.so']));
      expect(named(diagnosis, 'NVIDIA driver').state).not.toBe('ok');
      expect(named(diagnosis, 'NVIDIA driver').fix).toMatch(/NVIDIA driver|CUDA_VISIBLE_DEVICES/);
    },
  );
});

describe('rredcot doctor on an installation that is broken', () => {
  let program: string;
  let native: string;

  /** A copy of the program whose onnxruntime-node can be spoilt; everything else is linked. */
  beforeAll(async () => {
    program = await temporaryFolder();
    for (const name of ['bin', 'dist', 'package.json'])
      await cp(join(ROOT, name), join(program, name), { recursive: true });
    for (const name of ['models', 'fixtures']) await symlink(join(ROOT, name), join(program, name));
    const modules = join(program, 'node_modules');
    await mkdir(modules);
    for (const name of await readdir(join(ROOT, 'node_modules')))
      if (name !== 'onnxruntime-node' && !name.startsWith('.'))
        await symlink(join(ROOT, 'node_modules', name), join(modules, name));
    const original = onnxRuntimePackage()?.nativeFolder as string;
    native = join(modules, 'onnxruntime-node/bin/napi-v6', process.platform, process.arch);
    await mkdir(native, { recursive: true });
    for (const part of ['package.json', 'dist'])
      await cp(join(original, '../../../..', part), join(modules, 'onnxruntime-node', part), {
        recursive: true,
      });
    for (const file of await readdir(original)) await symlink(join(original, file), join(native, file));
  });

  it('the copy itself is well', () => {
    const { code, stdout } = doctorWithout(program);
    expect(code, stdout).toBe(0);
  });

  it('exit 69 where the native part cannot be loaded, or is missing, or the whole package', async () => {
    const binding = join(native, 'onnxruntime_binding.node');
    await rm(binding);
    await writeFile(binding, 'no library');
    const spoilt = doctorWithout(program);
    expect(spoilt.code).toBe(69);
    expect(spoilt.stdout).toMatch(/^onnxruntime-node +wrong +.+$/m);
    expect(spoilt.stdout).toMatch(/^embedded policy +wrong +.*cannot load the policy on cpu/m);
    expect(spoilt.stdout).toContain('fix it: npm ci --onnxruntime-node-install=skip');
    expect(spoilt.stdout.trimEnd().split('\n').at(-1)).toBe(
      'Nothing can be scored here, not even on the CPU: fix what is above first.',
    );
    await rm(binding);
    const without = doctorWithout(program, '--json');
    expect(without.code).toBe(69);
    expect(json(without.stdout)).toMatchObject({ cpuWorks: false, auto: null });
    expect(named(json(without.stdout), 'onnxruntime-node').state).toBe('wrong');
    await rm(join(program, 'node_modules/onnxruntime-node'), { recursive: true });
    const gone = doctorWithout(program, '--json');
    expect(gone.code).toBe(69);
    expect(named(json(gone.stdout), 'onnxruntime-node').detail).toBe('not among the installed packages');
  });
});

describe('the rows', () => {
  it('node from 20.19 on', () => {
    for (const version of ['20.19.0', '20.20.2', '21.0.0', '24.1.0', '100.0.0'])
      expect(nodeCheck(version).state, version).toBe('ok');
    for (const version of ['20.18.3', '18.20.0', '19.99.0'])
      expect(nodeCheck(version).state, version).toBe('wrong');
    expect(nodeCheck('18.20.0').fix).toBe('install Node 20.19 or newer');
  });

  const cuda: CudaFindings = {
    platform: 'linux/x64',
    nativeFolder: '/app/node_modules/onnxruntime-node/bin/napi-v6/linux/x64',
    provider: [{ name: 'libonnxruntime_providers_cuda.so', path: undefined }],
    libraries: [
      { name: 'libcuda.so.1', path: '/usr/lib/libcuda.so.1' },
      { name: 'libcublas.so.13', path: undefined },
      { name: 'libcublasLt.so.13', path: undefined },
    ],
    driver: '580.65.06',
    gpus: ['NVIDIA L4'],
  };

  it('CUDA: what is found with its path, what is missing with what fixes it, neighbours sharing a cure', () => {
    const auto = { device: 'cpu', reason: 'a reason' };
    const text = formatDiagnosis({ checks: cudaChecks(cuda), cpuWorks: true, deviceWorks: true, auto });
    expect(text.split('\n').slice(0, 7)).toEqual([
      'NVIDIA driver                     ok       580.65.06, NVIDIA L4',
      'libcuda.so.1                      ok       /usr/lib/libcuda.so.1',
      'libcublas.so.13                   missing  (CUDA 13)',
      'libcublasLt.so.13                 missing  (CUDA 13)',
      "                                  fix it: apt-get install cuda-libraries-13-0 (from NVIDIA's package repository), or export LD_LIBRARY_PATH=<its folder>",
      "libonnxruntime_providers_cuda.so  missing  (ONNX Runtime's CUDA provider)",
      '                                  fix it: ONNXRUNTIME_NODE_INSTALL=cuda12 node /app/node_modules/onnxruntime-node/script/install.js (downloads from nuget.org)',
    ]);
    expect(text).toMatch(/--device auto will use cpu: a reason\.\n$/);
  });

  it('CUDA: an old driver, no driver, no GPU', () => {
    const driver = (findings: Partial<CudaFindings>) => cudaChecks({ ...cuda, ...findings })[0];
    expect(driver({ driver: '575.57.08' })).toMatchObject({
      state: 'wrong',
      detail: 'driver 575.57.08 is older than 580',
    });
    expect(driver({ driver: undefined, gpus: [] })).toMatchObject({ state: 'missing' });
    expect(driver({ gpus: [] })).toMatchObject({ state: 'wrong', detail: 'no GPU answers' });
  });

  it('CUDA: one row where it cannot be', () => {
    expect(cudaChecks({ ...cuda, platform: 'darwin/arm64' })).toEqual([
      {
        name: 'CUDA',
        state: 'missing',
        detail: 'CUDA is for linux/x64, this is darwin/arm64',
        fix: 'use --device cpu',
      },
    ]);
  });
});
