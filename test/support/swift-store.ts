// OpenStack Swift with its S3 interface, from Debian's packages, as four ordinary processes on loopback that can be killed and started
// again over the same files.
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { AwsV4Signer } from 'aws4fetch';
import { freePorts } from './slurm-cluster.js';
import { temporaryFolder } from './temporary-folder.js';

/** Debian's Python, for which the packages are. */
const PYTHON = '/usr/bin/python3';
const MODULES = [
  'proxy.server',
  'account.server',
  'container.server',
  'obj.server',
  'common.middleware.s3api.s3api',
];

/** Whether `apt-get install swift-proxy swift-account swift-container swift-object` has been done. */
export const hasSwift =
  spawnSync(PYTHON, ['-c', MODULES.map((name) => `import swift.${name}`).join('\n')]).status === 0;

/** The proxy comes last: it answers 404 for a bucket whose account's server is not there. */
const SERVERS = ['account', 'container', 'object', 'proxy'] as const;
type Server = (typeof SERVERS)[number];

/** As Swift's own four commands, which look for swift.conf in /etc. */
const START = `import sys, importlib
from swift.common import utils
utils.SWIFT_CONF_FILE = sys.argv[1]
from swift.common.wsgi import run_wsgi
sys.exit(run_wsgi(sys.argv[2], sys.argv[3] + '-server'))`;
/** One partition on one device. */
const RING = `import sys
from swift.common.ring import RingBuilder
builder = RingBuilder(1, 1, 0)
builder.add_dev({'region': 1, 'zone': 1, 'ip': '127.0.0.1', 'port': int(sys.argv[2]), 'device': 'd1', 'weight': 1.0})
builder.rebalance()
builder.get_ring().save(sys.argv[1])`;

/** A server that has failed ten times is not asked for a minute, and a bucket then not found: on a busy machine that happens. */
const PATIENT = 'error_suppression_limit = 1000000\nconn_timeout = 30\nnode_timeout = 60\n';

const KEYS = { accessKeyId: 'test:tester', secretAccessKey: 'testing', region: 'us-east-1' };

function answers(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  return once(socket, 'connect')
    .then(
      () => true,
      () => false,
    )
    .finally(() => socket.destroy());
}

/** Starts it. @param buckets that are made */
export async function startSwift(...buckets: string[]) {
  const folder = await temporaryFolder();
  const at = (name: string) => join(folder, name);
  const free = await freePorts(SERVERS.length);
  const ports = Object.fromEntries(SERVERS.map((name, n) => [name, free[n]])) as Record<Server, number>;
  await mkdir(at('srv/d1'), { recursive: true });
  await writeFile(
    at('swift.conf'),
    '[swift-hash]\nswift_hash_path_suffix = test\n[storage-policy:0]\nname = gold\ndefault = yes\n',
  );
  for (const name of SERVERS) {
    const common = `[DEFAULT]\nbind_ip = 127.0.0.1\nbind_port = ${ports[name]}\nuser = ${userInfo().username}\nswift_dir = ${folder}\ndevices = ${at('srv')}\nmount_check = false\nworkers = 0\n`;
    const pipeline =
      name === 'proxy'
        ? `[pipeline:main]\npipeline = catch_errors gatekeeper cache listing_formats bulk s3api tempauth copy slo proxy-server\n[app:proxy-server]\nuse = egg:swift#proxy\naccount_autocreate = true\n${PATIENT}[filter:tempauth]\nuse = egg:swift#tempauth\nuser_test_tester = testing .admin\n[filter:cache]\nuse = egg:swift#memcache\nmemcache_servers = 127.0.0.1:1\n${['catch_errors', 'gatekeeper', 'listing_formats', 'bulk', 's3api', 'copy', 'slo'].map((filter) => `[filter:${filter}]\nuse = egg:swift#${filter}\n`).join('')}`
        : `[pipeline:main]\npipeline = ${name}-server\n[app:${name}-server]\nuse = egg:swift#${name}\n`;
    await writeFile(at(`${name}.conf`), `${common}${pipeline}`);
    if (name !== 'proxy') execFileSync(PYTHON, ['-c', RING, at(`${name}.ring.gz`), `${ports[name]}`]);
  }
  const endpoint = `http://127.0.0.1:${ports.proxy}`;
  let running: ChildProcess[] = [];

  async function ask(method: string, path: string): Promise<Response> {
    const url = `${endpoint}/${path}`;
    const signed = await new AwsV4Signer({ ...KEYS, service: 's3', method, url }).sign();
    return fetch(signed.url, { method, headers: signed.headers });
  }
  async function start(): Promise<void> {
    for (const name of SERVERS) {
      running.push(
        spawn(PYTHON, ['-c', START, at('swift.conf'), at(`${name}.conf`), name], { stdio: 'ignore' }),
      );
      while (!(await answers(ports[name]))) await new Promise((resolve) => setTimeout(resolve, 50));
    }
    for (const bucket of buckets)
      for (let isThere = false; !isThere; )
        isThere = await ask('PUT', bucket).then(
          ({ status }) => status === 200 || status === 409,
          () => new Promise<false>((resolve) => setTimeout(resolve, 100, false)),
        );
  }
  /** As a machine that loses its power. */
  async function kill(): Promise<void> {
    const ended = running.map((child) => once(child, 'exit'));
    for (const child of running) child.kill('SIGKILL');
    await Promise.all(ended);
    running = [];
  }
  await start();
  return {
    ...{ start, kill },
    env: {
      ...{ AWS_ENDPOINT_URL_S3: endpoint, AWS_REGION: KEYS.region },
      ...{ AWS_ACCESS_KEY_ID: KEYS.accessKeyId, AWS_SECRET_ACCESS_KEY: KEYS.secretAccessKey },
    },
    /** An object's bytes; undefined where there is none. */
    async bytes(name: string): Promise<Buffer | undefined> {
      const answer = await ask('GET', name);
      return answer.ok ? Buffer.from(await answer.arrayBuffer()) : undefined;
    },
  };
}
