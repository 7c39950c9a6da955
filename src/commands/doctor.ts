// `rredcot doctor`: what this machine can run the policy on, what is missing, and the line that fixes it.
import { EXIT, type ExitCode, type RredcotError } from '../errors.js';
import type { Proof } from '../model/onnx/canary.js';
import {
  autoDevice,
  type CudaFindings,
  cudaProblems,
  type Device,
  type DeviceChoice,
  deviceName,
  driverProblem,
  findCuda,
  libraryProblem,
  onnxRuntimePackage,
  type Problem,
} from '../model/onnx/device.js';
import { openPolicyFolder } from '../model/onnx/folder.js';
import { ModelSession } from '../model/onnx/session.js';
import { REINSTALL } from '../package-files.js';
import { escapeControls, printableJson } from '../printable.js';

/** One line of the table. */
export interface Check {
  readonly name: string;
  /** wrong: it is there and will not do */
  readonly state: 'ok' | 'missing' | 'wrong';
  readonly detail: string;
  /** the one line that fixes it */
  readonly fix?: string;
}

function check(name: string, state: Check['state'], detail: string, fix?: string): Check {
  return { name, state, detail, ...(fix !== undefined && { fix }) };
}

export interface Diagnosis {
  readonly checks: readonly Check[];
  /** whether the policy runs on the CPU, which is all that scoring needs */
  readonly cpuWorks: boolean;
  /** whether it runs on the device that was asked for */
  readonly deviceWorks: boolean;
  /** what `--device auto` takes; null where nothing works */
  readonly auto: { readonly device: string; readonly reason: string } | null;
}

const OLDEST_NODE = [20, 19] as const;

export interface DoctorOptions {
  readonly json: boolean;
  /** which has to prove itself too; `auto`: the one that it takes */
  readonly device: DeviceChoice;
}

/** Prints the state of this machine on stdout. @returns exit 0 where the policy runs on the CPU, and on the device that was asked for */
export async function doctor(embedded: string, opts: DoctorOptions): Promise<ExitCode> {
  const diagnosis = await diagnose(embedded, opts.device);
  process.stdout.write(
    opts.json ? printableJson(`${JSON.stringify(diagnosis, null, 2)}\n`) : formatDiagnosis(diagnosis),
  );
  return diagnosis.cpuWorks && diagnosis.deviceWorks ? EXIT.done : EXIT.device;
}

async function diagnose(embedded: string, choice: DeviceChoice): Promise<Diagnosis> {
  const policy = await embeddedPolicyCheck(embedded, { name: 'cpu' });
  const cuda = await findCuda();
  const cpuWorks = policy.state === 'ok';
  const auto = autoDevice(cuda); // the embedded policy and all that this version builds have a graph for CUDA
  const device = choice === 'auto' ? auto.device : choice;
  const other = device.name === 'cpu' ? undefined : await embeddedPolicyCheck(embedded, device);
  return {
    checks: [
      nodeCheck(process.versions.node),
      check('platform', 'ok', platform()),
      await runtimeCheck(),
      policy,
      ...(other === undefined ? [] : [other]),
      ...cudaChecks(cuda),
    ],
    cpuWorks,
    deviceWorks: other === undefined || other.state === 'ok',
    auto: cpuWorks ? { device: deviceName(auto.device), reason: auto.reason } : null,
  };
}

/** Node's version against the oldest one that package.json allows. */
export function nodeCheck(version: string): Check {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const recent = major > OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor >= OLDEST_NODE[1]);
  if (recent) return check('node', 'ok', version);
  const oldest = OLDEST_NODE.join('.');
  return check('node', 'wrong', `${version}, needs ${oldest}`, `install Node ${oldest} or newer`);
}

function platform(): string {
  // without it the report asks the kernel for the machine's addresses (Node's types do not know it yet)
  Object.assign(process.report, { excludeNetwork: true });
  const { header } = process.report.getReport() as { header?: { glibcVersionRuntime?: string } };
  const glibc = header?.glibcVersionRuntime;
  return `${process.platform}/${process.arch}${glibc === undefined ? '' : `, glibc ${glibc}`}`;
}

/** Whether ONNX Runtime is there, and what its native part lists. */
async function runtimeCheck(): Promise<Check> {
  const name = 'onnxruntime-node';
  const found = onnxRuntimePackage();
  if (found === undefined) return check(name, 'missing', 'not among the installed packages', REINSTALL);
  const fix = `${REINSTALL} (on linux x64 or arm64, macOS or Windows)`;
  try {
    const { listSupportedBackends } = await import('onnxruntime-node');
    const bundled = listSupportedBackends().filter((backend) => backend.bundled);
    return check(name, 'ok', `${found.version}, with ${bundled.map((backend) => backend.name).join(', ')}`);
  } catch (error) {
    return check(name, 'wrong', `${found.version}: ${firstLine(error)}`, fix);
  }
}

/** Opens the embedded policy on a device, where its canary has to give the numbers that it was built with. */
async function embeddedPolicyCheck(embedded: string, device: Device): Promise<Check> {
  const on = device.name === 'cpu' ? 'the CPU' : deviceName(device);
  const name = device.name === 'cpu' ? 'embedded policy' : `policy on ${on}`;
  try {
    const began = performance.now();
    await using session = await ModelSession.open(await openPolicyFolder(embedded), device);
    const proof = session.proof as Proof;
    const seconds = ((performance.now() - began) / 1000).toFixed(2);
    const nats = Math.max(...proof.findings.map(({ off }) => off)).toExponential(1);
    return check(name, 'ok', `canary within ${nats} nats on ${on}, in ${seconds} s`);
  } catch (error) {
    const hint = device.name === 'cpu' ? REINSTALL : ((error as RredcotError).hint ?? '--device cpu');
    return check(name, 'wrong', firstLine(error), hint);
  }
}

/** The rows about CUDA: driver, GPUs, ONNX Runtime's provider, NVIDIA's libraries. */
export function cudaChecks(cuda: CudaFindings): Check[] {
  if (cuda.platform !== 'linux/x64') {
    const [problem] = cudaProblems(cuda, 0) as [Problem];
    return [check('CUDA', 'missing', problem.what, problem.fix)];
  }
  const { driver, gpus } = cuda;
  const trouble = driverProblem(cuda, 0);
  const found = driver === undefined ? [] : [driver, gpus.length === 0 ? 'no GPU in sight' : gpus.join(', ')];
  const state = trouble === undefined ? 'ok' : driver === undefined ? 'missing' : 'wrong';
  const libraries = [...cuda.libraries, ...cuda.provider].map((library) => {
    const problem = libraryProblem(library, cuda);
    const detail = problem?.what.replace(/^.* is missing /, '') ?? library.path ?? '';
    return check(library.name, problem ? 'missing' : 'ok', detail, problem?.fix);
  });
  return [check('NVIDIA driver', state, trouble?.what ?? found.join(', '), trouble?.fix), ...libraries];
}

/** The table: a row a check, under it the line that fixes it; neighbours with the same cure share the line. */
export function formatDiagnosis({ checks, auto }: Diagnosis): string {
  const width = Math.max(...checks.map(({ name }) => name.length));
  const lines = checks.flatMap(({ name, state, detail, fix }, i) => {
    const row = `${name.padEnd(width)}  ${state.padEnd(7)}  ${escapeControls(detail)}`.trimEnd();
    if (fix === undefined || checks[i + 1]?.fix === fix) return [row];
    return [row, `${' '.repeat(width + 2)}fix it: ${escapeControls(fix)}`];
  });
  const sentence =
    auto === null
      ? 'Nothing can be scored here, not even on the CPU: fix what is above first.'
      : `--device auto will use ${auto.device}: ${auto.reason}.`;
  return `${lines.join('\n')}\n\n${escapeControls(sentence)}\n`;
}

function firstLine(error: unknown): string {
  return String((error as Error).message ?? error).split('\n', 1)[0] as string;
}
