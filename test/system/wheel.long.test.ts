// The Python package: its wheel, built here, is installed where no Node is, and each of its own tests (python/tests) counts as one here.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ROOT, temporaryFolder } from '../support/program.js';
import { wheelPython } from '../support/trainer-venv.js';

interface PytestResult {
  readonly name: string;
  readonly outcome: 'passed' | 'failed' | 'skipped';
  readonly text: string;
}

/** what ends a test that hangs */
const LONGEST_MS = 600_000;

const tools = wheelPython();
const isLinux = process.platform === 'linux';

/** A wheel in a fresh environment that borrows the packages of another one, and of the system what a shell needs. */
async function runPytest(python: string): Promise<PytestResult[]> {
  const folder = await temporaryFolder();
  const at = (name: string): string => join(folder, name);
  const name = `${process.platform}/${process.arch}`;
  execFileSync(python, [join(ROOT, 'python/assemble.py'), '-o', at('wheels'), name], { stdio: 'pipe' });
  execFileSync(python, ['-m', 'venv', '--without-pip', at('venv')]);
  const where = ['-c', 'import sysconfig; print(sysconfig.get_path("purelib"))'];
  const site = (of: string): string => execFileSync(of, where, { encoding: 'utf8' }).trim();
  const own = at('venv/bin/python');
  writeFileSync(join(site(own), 'borrowed.pth'), `${site(python)}\n`);
  const wheel = join(at('wheels'), readdirSync(at('wheels'))[0] as string);
  // nothing but the wheel has to be fetched: what it asks for is what is there
  execFileSync(python, [
    '-m',
    'pip',
    '--python',
    own,
    'install',
    '-q',
    '--no-index',
    `rredcot[arrow] @ file://${wheel}`,
  ]);
  mkdirSync(at('tools'));
  for (const tool of ['sh', 'env', 'cat', 'ls', 'ps', 'cc', 'as', 'ld', 'collect2'])
    for (const place of ['/usr/bin', '/bin'])
      try {
        symlinkSync(join(place, tool), at(`tools/${tool}`));
      } catch {
        // it is there
      }
  const env = {
    PATH: [at('venv/bin'), at('tools')].join(delimiter),
    ...{ HOME: folder, LANG: 'C.UTF-8', RREDCOT_THREADS: '1', RREDCOT_CHECKOUT: ROOT, RREDCOT_WHEEL: wheel },
    ...{ RREDCOT_PYTEST: at('results.jsonl'), RAY_USAGE_STATS_ENABLED: '0', HF_HUB_OFFLINE: '1' },
    ...(process.env.RREDCOT_CUDA_WHEELS && { RREDCOT_CUDA_WHEELS: process.env.RREDCOT_CUDA_WHEELS }),
  };
  const args = ['-m', 'pytest', join(ROOT, 'python/tests'), '-q', '-p', 'no:cacheprovider', '--tb=short'];
  const { status, stdout, stderr } = spawnSync(own, args, {
    env,
    cwd: folder,
    encoding: 'utf8',
    timeout: LONGEST_MS,
  });
  const found: PytestResult[] =
    status === 0 || status === 1
      ? readFileSync(at('results.jsonl'), 'utf8')
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line))
      : [];
  if (found.at(-1)?.name === 'all') return found;
  return [
    ...found,
    { name: `pytest, ended with ${status}`, outcome: 'failed', text: `${stdout}\n${stderr}` },
  ];
}

const results = tools !== undefined && isLinux ? await runPytest(tools) : [];

it('the types of the flags are those that the program declares (python/flags.mjs)', () => {
  const made = execFileSync(process.execPath, [join(ROOT, 'python/flags.mjs')], { encoding: 'utf8' });
  expect(readFileSync(join(ROOT, 'python/src/rredcot/_flags.py'), 'utf8')).toBe(made);
});

describe.skipIf(tools === undefined || !isLinux)(
  `python/tests${tools === undefined ? ' (skipped: no Python with venv and pip, or nothing to install from)' : ''}`,
  () => {
    it('have all been run', () => {
      expect(results.length).toBeGreaterThan(20);
      expect(results.at(-1)).toEqual({ name: 'all', outcome: 'passed', text: `${results.length - 1}` });
    });
    for (const { name, outcome, text } of results)
      it.skipIf(outcome === 'skipped')(`${name}${outcome === 'skipped' ? ` (skipped: ${text})` : ''}`, () => {
        expect(outcome, text).toBe('passed');
      });
  },
);
