// Nothing is sent and nothing is left behind: the program under strace, with a temporary folder and a home of its own.
import { spawnSync } from 'node:child_process';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { EMBEDDED, ROOT, temporaryFolder, writeFixtures } from '../support/program.js';

/** Debian's package strace; where it is missing, or may not trace, the tests below are skipped by name. */
const canTrace = spawnSync('strace', ['-f', 'true']).status === 0;

let cwd: string;
beforeAll(async () => {
  cwd = await temporaryFolder();
  await writeFixtures(join(cwd, 'traces.jsonl'), 4);
});

/** Runs a command with all its processes and threads in sight. @returns system calls that lead out, and files left behind */
async function traced(name: string, command: string, args: readonly string[]) {
  const [home, log] = [join(cwd, `${name}-home`), join(cwd, `${name}.strace`)];
  await mkdir(home);
  const watched = ['-f', '-qq', '-e', 'trace=socket,connect,bind,sendto,sendmsg,sendmmsg', '-o', log];
  const env = { PATH: process.env.PATH, HOME: home, TMPDIR: home };
  const run = spawnSync('strace', [...watched, command, ...args], { cwd, env, encoding: 'utf8' });
  const calls = (await readFile(log, 'utf8')).split('\n');
  return {
    code: run.status,
    stderr: run.stderr,
    // what processes of one machine tell each other goes through a socketpair, which has no address
    leading: calls.filter((line) => /\b(?:socket|connect|bind)\(|sa_family/.test(line)),
    left: await readdir(home, { recursive: true }),
  };
}

describe.skipIf(!canTrace)(`under strace${canTrace ? '' : ' (skipped: apt-get install strace)'}`, () => {
  it.each([
    ['score', ['traces.jsonl', '-o', 'scored.parquet']],
    ['segment', ['traces.jsonl', '-o', 'cut.jsonl']],
    ['policy', ['build', EMBEDDED, '-o', 'policy']],
    ['doctor', []],
  ])('%s opens no socket and leaves nothing in the temporary folder or at home', async (command, args) => {
    const bin = join(ROOT, 'bin/rredcot.js');
    const { code, stderr, leading, left } = await traced(command, process.execPath, [bin, command, ...args]);
    expect(code, stderr).toBe(0);
    expect(leading).toEqual([]);
    expect(left).toEqual([]);
  });

  it('a socket and a file would be seen', async () => {
    const script = `require('node:fs').writeFileSync(require('node:os').tmpdir() + '/x', '');
      require('node:dgram').createSocket('udp4').send('x', 9, '127.0.0.1', () => process.exit())`;
    const { leading, left } = await traced('example', process.execPath, ['-e', script]);
    expect(leading.join('\n')).toContain('AF_INET');
    expect(left).toEqual(['x']);
  });
});
