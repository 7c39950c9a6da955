// A private Slurm for tests: munged, slurmctld and two slurmd on loopback, ordinary processes of this user in one folder.
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { accessSync, closeSync, constants, openSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { hostname, tmpdir, userInfo } from 'node:os';
import { basename, delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

export const NODES = ['alpha', 'beta'] as const;
export type NodeName = (typeof NODES)[number];

// daemons live in sbin, which is not on everybody's PATH
const PATH = [process.env.PATH ?? '', '/usr/sbin', '/sbin'].join(delimiter);
const PROGRAMS = ['munged', 'slurmctld', 'slurmd', 'slurmstepd', 'sbatch', 'squeue', 'scontrol', 'setpriv'];
// a port found free may be taken before its daemon binds it
const START_ATTEMPTS = 3;
const START_SECONDS = 20;

/** The first of Slurm's programs that this machine lacks; null where a cluster can be started. */
export function missingProgram(): string | null {
  return (
    PROGRAMS.find((name) => !PATH.split(delimiter).some((folder) => isExecutable(join(folder, name)))) ?? null
  );
}

/** A running cluster; `stop` ends all of its processes, jobs too, and removes its folder. */
export interface SlurmCluster {
  /** holds configuration, logs and spool; jobs may write here */
  readonly folder: string;
  /** Runs a Slurm command against this cluster and returns what it printed; throws where it fails. */
  run(
    command: string,
    args: readonly string[],
    opts?: { cwd?: string; env?: Record<string, string> },
  ): Promise<string>;
  /** SIGKILL to a node's slurmd, its step daemons and everything that they run: what a dead machine looks like. */
  killNode(node: NodeName): Promise<void>;
  /** Returns once `condition` is true; throws with the queue and the daemons' logs after `seconds`. */
  waitFor(what: string, seconds: number, condition: () => Promise<boolean> | boolean): Promise<void>;
  stop(): Promise<void>;
}

/** Starts the cluster and returns when both nodes are idle. */
export async function startSlurm(): Promise<SlurmCluster> {
  for (let attempt = 1; ; attempt++) {
    const cluster = await launch();
    try {
      await cluster.waitFor('both nodes idle', START_SECONDS, async () => {
        const states = await cluster.run('sinfo', ['--noheader', '--Node', '--format=%T']).catch(() => '');
        return states.trim().split('\n').join() === NODES.map(() => 'idle').join();
      });
      return cluster;
    } catch (error) {
      await cluster.stop();
      if (attempt === START_ATTEMPTS) throw error;
    }
  }
}

async function launch(): Promise<SlurmCluster> {
  const folder = await mkdtemp(join(tmpdir(), 'rredcot-slurm-'));
  const conf = join(folder, 'slurm.conf');
  await Promise.all(['state', 'ctld', ...NODES].map((name) => mkdir(join(folder, name))));
  await writeFile(join(folder, 'munge.key'), randomBytes(128), { mode: 0o600 });
  await writeFile(conf, configuration(folder, await freePorts(1 + NODES.length)));
  const env = { ...withoutSlurm(process.env), PATH, SLURM_CONF: conf };

  const daemons: ChildProcess[] = [];
  // The kernel kills a daemon whose parent dies: a test run that is itself killed leaves no cluster behind.
  // Step daemons start in their slurmd's folder and stay there, which is how killNode finds them.
  function daemon(name: string, cwd: string, args: readonly string[]): void {
    const log = openSync(join(folder, `${basename(cwd)}-${name}.out`), 'w');
    daemons.push(
      spawn('setpriv', ['--pdeathsig', 'KILL', name, ...args], { cwd, env, stdio: ['ignore', log, log] }),
    );
    closeSync(log);
  }
  const munge = (option: string, name: string) => `--${option}=${join(folder, name)}`;
  daemon('munged', folder, [
    '--foreground',
    '--force', // the folder above, /tmp, is writable for everyone
    munge('key-file', 'munge.key'),
    munge('socket', 'munge.socket'),
    munge('pid-file', 'munged.pid'),
    munge('seed-file', 'munged.seed'),
  ]);
  daemon('slurmctld', join(folder, 'ctld'), ['-D']);
  for (const node of NODES) daemon('slurmd', join(folder, node), ['-D', '-N', node]);

  async function run(
    command: string,
    args: readonly string[],
    opts: { cwd?: string; env?: Record<string, string> } = {},
  ): Promise<string> {
    const child = spawn(command, args, { cwd: opts.cwd ?? folder, env: { ...env, ...opts.env } });
    let out = '';
    let err = '';
    child.stdout.on('data', (chunk: Buffer) => (out += chunk));
    child.stderr.on('data', (chunk: Buffer) => (err += chunk));
    const code = await new Promise<number | null>((resolve, reject) => {
      child.on('error', reject);
      child.on('close', resolve);
    });
    if (code !== 0) throw new Error(`${command} ${args.join(' ')} exited with ${code}: ${err}${out}`);
    return out;
  }

  return {
    folder,
    run,
    async killNode(node) {
      const home = join(folder, node);
      await killAll((pid) => {
        const inJob = environment(pid);
        return (
          workingFolder(pid) === home ||
          (inJob.includes(`SLURM_CONF=${conf}`) && inJob.includes(`SLURMD_NODENAME=${node}`))
        );
      });
    },
    async waitFor(what, seconds, condition) {
      const end = Date.now() + seconds * 1000;
      while (!(await condition())) {
        if (Date.now() > end)
          throw new Error(`waited ${seconds} s for ${what}\n${await describe(folder, run)}`);
        await sleep(50);
      }
    },
    async stop() {
      for (const child of daemons) child.kill('SIGKILL');
      await killAll(
        (pid) =>
          `${workingFolder(pid)}/`.startsWith(`${folder}/`) ||
          environment(pid).includes(`SLURM_CONF=${conf}`),
      );
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** slurm.conf of two nodes on this host, one task at a time each, that notices a dead node within seconds. */
function configuration(folder: string, ports: readonly number[]): string {
  const host = hostname().split('.')[0];
  const user = userInfo().username;
  return `
ClusterName=rredcot
SlurmctldHost=${host}(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmUser=${user}
SlurmdUser=${user}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation=${folder}/state
SlurmdSpoolDir=${folder}/%n
SlurmctldPidFile=${folder}/slurmctld.pid
SlurmdPidFile=${folder}/slurmd-%n.pid
SlurmctldLogFile=${folder}/slurmctld.log
SlurmdLogFile=${folder}/slurmd-%n.log
# cred_expire is also how long a requeued task waits before it may start again; less than 5 s is refused
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=${folder}/munge.socket,cred_expire=5
# no cgroups, no accounting: nothing outside of this folder
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=1,sched_interval=2
SlurmdTimeout=5
MessageTimeout=5
JobRequeue=1
# the nodes claim what the example script asks for, whatever this machine has
SlurmdParameters=config_overrides
${NODES.map((node, i) => `NodeName=${node} NodeHostname=${host} NodeAddr=127.0.0.1 Port=${ports[1 + i]} CPUs=4 RealMemory=16000`).join('\n')}
PartitionName=all Nodes=${NODES.join()} Default=YES MaxTime=INFINITE State=UP
`;
}

export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  await Promise.all(servers.map((server) => once(server, 'listening')));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => once(server.close(), 'close')));
  return ports;
}

/** The environment without Slurm's variables: the tests may run inside of a Slurm job. */
function withoutSlurm(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !/^(SLURM|SBATCH)/.test(name)));
}

/** Kills until none is left: a process may start another while it is being looked for. */
async function killAll(isOurs: (pid: number) => boolean): Promise<void> {
  for (;;) {
    const found = readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map(Number)
      .filter((pid) => pid !== process.pid && isOurs(pid));
    if (found.length === 0) return;
    for (const pid of found) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // gone meanwhile
      }
    }
    await sleep(10);
  }
}

/** What is told of a process; of a zombie or of another user's nothing. */
function told<T>(look: () => T, nothing: T): T {
  try {
    return look();
  } catch {
    return nothing;
  }
}
const workingFolder = (pid: number) => told(() => readlinkSync(`/proc/${pid}/cwd`), '');
const environment = (pid: number) =>
  told(() => readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0'), []);

/** What is needed to see why a wait ended: the queue, and the end of each log. */
async function describe(folder: string, run: SlurmCluster['run']): Promise<string> {
  const queue = await run('squeue', ['--format=%i %T %r %N']).catch(String);
  const logs = (await readdir(folder)).filter((name) => /\.(log|out)$/.test(name));
  const tails = logs.map(async (name) => {
    const text = await readFile(join(folder, name), 'utf8');
    return `--- ${name}\n${text.split('\n').slice(-12).join('\n')}`;
  });
  return [queue, ...(await Promise.all(tails))].join('\n');
}

const isExecutable = (path: string) => told(() => accessSync(path, constants.X_OK) === undefined, false);
