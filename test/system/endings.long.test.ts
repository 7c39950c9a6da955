// How a run may end: signals, the time limit, each exit code; a reader that leaves, a disk that is full, an input that
// changes, an output that cannot be; two runs at one output.
import { spawnSync } from 'node:child_process';
import { appendFile, mkdir, readdir, readFile, rm, symlink, truncate, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { parseTimeLimit } from '../../dist/cli/program.js';
import { assertSameInputs } from '../../dist/io/read/input-file.js';
import { resolveInputs } from '../../dist/io/read/inputs.js';
import { are, plural } from '../../dist/plural.js';
import { EMBEDDED, FIXTURES, ROOT, start as startHere, writeFixtures } from '../support/program.js';
import { openScene } from '../support/scene.js';

const BIN = join(ROOT, 'bin/rredcot.js');
const SEGMENT = 'segment --no-policy --quiet';
const { at, done, fails, folder: cwd, rows, text, write } = await openScene();

beforeAll(() => writeFixtures(at('in.jsonl'), 64));

const start = (line: string) => startHere(line.split(' '), { cwd });

async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 10));
}

const filesOf = (folder: string) => readdir(folder, { recursive: true }).catch(() => [] as string[]);
const halfWritten = async (folder: string) => (await filesOf(folder)).filter((name) => name.endsWith('.tmp'));

describe('a signal', () => {
  const score = 'score in.jsonl --estimator pr --rows-per-part 2';

  it.each(['SIGTERM', 'SIGINT', 'SIGUSR1', 'SIGHUP'] as const)(
    '%s: exit 75, says what is kept, leaves nothing half written, and the same command goes on',
    async (name) => {
      const folder = at(name);
      const line = `${score} --format jsonl -o ${name}/`;
      const { child, end } = start(`${line} --quiet`);
      await until(async () => (await filesOf(folder)).includes('part-00001.jsonl'));
      child.kill(name);
      // a terminal and its shell both send theirs
      if (name === 'SIGHUP') setTimeout(() => child.kill(name), 20);
      const { code, stderr } = await end;
      expect(code, stderr).toBe(75);
      const records = (await filesOf(folder)).filter((file) => file.startsWith('part-')).length;
      expect(stderr).toBe(
        `rredcot: interrupted: ${plural(records, 'part')} ${are(records)} kept in ${name}\n  try: the same command again, which goes on from there\n`,
      );
      expect(await halfWritten(folder)).toEqual([]);
      if (name !== 'SIGUSR1') return;
      const again = await done(line);
      expect(again.stderr).toContain(
        `resuming: ${plural(records, 'part')} ${are(records)} there, in ${name}`,
      );
      expect(again.stderr).toMatch(new RegExp(`^${64 - 2 * records} traces`, 'm'));
      expect((await filesOf(folder)).filter((file) => file.startsWith('part-'))).toHaveLength(32);
    },
  );

  it('while all traces are asked, before a row is made: says that what was said is kept, and goes on from there', async () => {
    const line = `score ${FIXTURES} --threads 1 -o asked/`;
    const { child, end } = start(`${line} --quiet`);
    const kept = async () => (await filesOf(at('asked'))).filter((name) => name.startsWith('.run.answers-'));
    await until(async () => (await kept()).length > 0);
    child.kill('SIGTERM');
    const { code, stderr } = await end;
    const told =
      'rredcot: interrupted: what was said so far is kept in asked\n  try: the same command again, which goes on from there\n';
    expect([code, stderr]).toEqual([75, told]);
    expect((await kept()).length).toBeGreaterThan(0);
    expect((await done(line)).stderr).toMatch(/auto takes probe[\s\S]*\n512 traces/);
    expect(await kept()).toEqual([]);
  });

  it.each([
    ['the first row', ''],
    ['a later row', '{"completion":"a\\nb"}\n'],
  ])('ends a run that waits for %s on stdin, and keeps nothing of it', async (_, first) => {
    const { child, end } = start(`${SEGMENT} -o idle.parquet`);
    child.stdin.write(first);
    // the folder is begun once the first row has said which preset fits; before it blank lines, more than a pipe holds
    // unread, say that the run listens
    if (first === '') await new Promise((resolve) => child.stdin.write('\n'.repeat(2 ** 22), resolve));
    else await until(async () => (await readdir(cwd)).includes('.idle.parquet.run'));
    child.kill('SIGTERM');
    const { code, stderr } = await end;
    expect([code, stderr]).toEqual([75, expect.stringMatching(/^rredcot: interrupted/)]);
    expect((await readdir(cwd)).filter((name) => name.includes('idle'))).toEqual([]);
  });

  it('twice: the end at once, without a file half written', async () => {
    const { child, end } = start(`${score} --quiet -o twice/`);
    await until(async () => (await halfWritten(at('twice'))).some((name) => name.startsWith('.part-')));
    // the second one comes before the run's own end, which waits for the policy's batch
    child.kill('SIGTERM');
    child.kill('SIGINT');
    const { code, signal } = await end;
    expect(signal ?? code).toSatisfy((how) => how === 'SIGKILL' || how === 75);
    expect(await halfWritten(at('twice'))).toEqual([]);
  });
});

describe('--time-limit', () => {
  it('ends a run as a signal does', async () => {
    // an input without an end: nothing but the limit ends this run, on however fast a machine
    const { child, end } = start('score -o limited.jsonl --time-limit 1.5 --quiet');
    child.stdin.write(await readFile(FIXTURES));
    const { code, stderr } = await end;
    expect(code, stderr).toBe(75);
    expect(stderr).toMatch(/^rredcot: interrupted/);
    expect((await readdir(cwd)).filter((name) => name.includes('limited'))).toEqual([]);
  });

  it.each([
    ['90', 90_000],
    ['90s', 90_000],
    ['55m', 3_300_000],
    ['11.5h', 41_400_000],
  ])('%s is %i ms', (text, ms) => expect(parseTimeLimit(text)).toBe(ms));
  it.each(['', '0', '-1', '5d', '1e3', '10 m', '600h', 'soon'])('%j is refused', (text) => {
    expect(() => parseTimeLimit(text)).toThrow(/expected a time/);
  });
});

it('a bug: exit 1, with its trace, and a word that it is one', async () => {
  const broken = 'data:text/javascript,Intl.Segmenter;JSON.stringify=()=>{throw new TypeError("injected")}';
  const args = ['--import', broken, BIN, ...`${SEGMENT} in.jsonl -o bug.jsonl`.split(' ')];
  const { status, stderr } = spawnSync(process.execPath, args, { cwd, encoding: 'utf8' });
  expect([status, stderr]).toEqual([
    1,
    expect.stringMatching(/^rredcot: this is a bug.*\n.*injected\n +at /),
  ]);
  expect(await readdir(cwd)).not.toContain('bug.jsonl');
});

it.each([
  ['nowhere/x.parquet', /nowhere is no such folder\n {2}try: mkdir -p nowhere/],
  ['in.jsonl/x.parquet', /in\.jsonl is no folder/],
  ['/dev/null --format jsonl', /\/dev\/null: is no regular file/],
  ['/proc/x.parquet', /\/proc\/x\.parquet: would be a file in \/proc; stdout is called -/],
  ['/proc/x/y/', /\/proc\/x\/y: would be a file in \/proc/],
  ['in.jsonl/out/', /in\.jsonl\/out\S*: cannot be written: a part of the path/],
])('an output that cannot be is refused: %s', async (output, why) => {
  const before = await readdir(cwd);
  await fails(`${SEGMENT} in.jsonl -o ${output}`, 2, why);
  expect(await readdir(cwd)).toEqual(before);
});

describe('a reader or a disk that takes no more', () => {
  const shell = (command: string) =>
    spawnSync('bash', ['-c', `node ${BIN} ${command}; echo "\${PIPESTATUS[0]}"`], { cwd, encoding: 'utf8' });

  it.each([
    ['stdout closed', `${SEGMENT} ${FIXTURES} | head -1 > line`],
    ['binary stdout closed', `${SEGMENT} --format arrow -o - ${FIXTURES} | head -c 9 > line`],
    ['stdout and stderr closed', `segment --no-policy ${FIXTURES} 2>&1 | true`],
    ['stderr closed', 'segment --no-policy in.jsonl -o quiet.jsonl 2>&1 | true'],
    ['stderr closed, JSON logs', 'segment --no-policy --log-json in.jsonl -o quiet.jsonl 2>&1 | true'],
  ])('%s: a quiet end', (_, command) => {
    expect(shell(command)).toMatchObject({ stdout: '0\n', stderr: '' });
  });

  it.each([
    `${SEGMENT} in.jsonl`,
    'inspect in.jsonl',
    ...['summary', 'compare', 'redistribute -o -', 'filter -o -'].map((each) => `${each} full.parquet`),
    `policy info ${EMBEDDED}`,
    'doctor --json',
    'score in.jsonl --limit 1 --quiet -o -',
    'score --help',
    '--version',
  ])('a full disk behind stdout: exit 75: %s', async (line) => {
    if (line.includes('full')) await done('score in.jsonl --limit 8 --quiet --overwrite -o full.parquet');
    expect(shell(`${line} > /dev/full`)).toMatchObject({
      stdout: '75\n',
      stderr: expect.stringMatching(/^rredcot: stdout: cannot be written: no space left/),
    });
  });

  it('a full disk: exit 75, and the same command goes on when there is room', async (test) => {
    const disk = at('disk');
    await mkdir(disk);
    const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=96k', 'none', disk], { timeout: 5000 });
    if (mounted.status !== 0) return test.skip('needs root and mount, to make a small disk');
    try {
      const line = 'segment --no-policy in.jsonl -o disk/x.jsonl --rows-per-part 8';
      const why = /^rredcot: disk\/.*no space left on the device\n {2}try: free some space/;
      await fails(`${line} --quiet`, 75, why);
      expect(await readdir(disk)).toEqual(['.x.jsonl.run']);
      expect(await halfWritten(disk)).toEqual([]);
      const kept = (await filesOf(disk)).filter((name) => /run\/part-.*\.jsonl$/.test(name)).length;
      expect(kept).toBeGreaterThan(0);
      spawnSync('mount', ['-o', 'remount,size=9m', disk]);
      expect((await done(line)).stderr).toContain('resuming: ');
      expect(await rows('disk/x.jsonl')).toHaveLength(64);
      expect((await readdir(disk)).sort()).toEqual(['x.jsonl', 'x.jsonl.summary.json']);
      // and a read-only one is an error of the call
      spawnSync('mount', ['-o', 'remount,ro', disk]);
      await fails(`${SEGMENT} in.jsonl -o disk/y.jsonl`, 2, 'read-only file system');
    } finally {
      spawnSync('umount', [disk]);
    }
  });
});

describe('an input', () => {
  it('that grows while it is scored ends the run, and nothing is published', async () => {
    // 12 parts, and the change comes with the first
    await write('grown.jsonl', (await text('in.jsonl')).split('\n').slice(0, 24).join('\n'));
    const { end } = start('score grown.jsonl -o grown.parquet --rows-per-part 2 --quiet');
    await until(async () => (await filesOf(at('.grown.parquet.run'))).includes('part-00000.parquet'));
    await appendFile(at('grown.jsonl'), '\n{}\n');
    const { code, stderr } = await end;
    expect(code, stderr).toBe(65);
    expect(stderr).toMatch(/grown\.jsonl: changed while it was read: \d+ bytes.*\n {2}try: .*--overwrite/);
    expect(await readdir(cwd)).not.toContain('grown.parquet');
    await done(`${SEGMENT} grown.jsonl -o grown.parquet --overwrite`);
  });

  it.each([
    ['grown', (path: string) => appendFile(path, 'x'), /changed while it was read/, 65],
    ['cut off', (path: string) => truncate(path, 2), /1234 bytes.*now 2 bytes/, 65],
    ['written over', (path: string) => utimes(path, 1, 1), /now 1234 bytes of 1970-01-01/, 65],
    ['removed', (path: string) => rm(path), /cannot be read: no such file/, 2],
  ] as const)('that is %s is noticed', async (_, change, message, exitCode) => {
    const path = at('watched.jsonl');
    await write('watched.jsonl', Buffer.alloc(1234));
    const prints = (await resolveInputs([path])).map(({ print }) => print);
    const assertUnchanged = () => assertSameInputs(prints);
    await assertUnchanged();
    await change(path);
    await expect(assertUnchanged()).rejects.toMatchObject({
      exitCode,
      message: expect.stringMatching(message),
    });
  });
});

it('an output folder that is a link to nowhere is a wrong path, not a run that another process has dropped', async () => {
  await symlink(at('nowhere'), at('link'));
  await fails(`${SEGMENT} in.jsonl -o link/`, 2, 'link: cannot be written: no such file or folder');
});
