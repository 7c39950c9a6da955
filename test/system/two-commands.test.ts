// A few rounds; two-commands.long.test.ts does more. And one attempt that is stopped while another one overtakes it.
import { access, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { BROKEN, hiddenRun, rredcot, start, temporaryFolder, writeFixtures } from '../support/program.js';
import { twoCommands } from './two-commands.js';

twoCommands(1);

it('an attempt that was stopped and overtaken says so, and leaves the output as it is', async () => {
  const cwd = await temporaryFolder();
  await writeFixtures(join(cwd, 'in.jsonl'), 200);
  const command = ['segment', '--no-policy', 'in.jsonl', '--rows-per-chunk', '4', '--quiet', '-o', 'x.jsonl'];
  const { child: frozen, end } = start(command, { cwd });
  while (
    frozen.exitCode === null &&
    !(await access(join((await hiddenRun(cwd, 'x.jsonl')) ?? cwd, 'done/00000-of-00001/000000.json')).then(
      () => true,
      () => false,
    ))
  )
    await sleep(1);
  frozen.kill('SIGSTOP');
  const another = await rredcot([...command, '--max-segments', '3'], { cwd });
  const again = await rredcot(command, { cwd });
  const whole = await readFile(join(cwd, 'x.jsonl'));
  frozen.kill('SIGCONT');
  const { code } = await end;
  expect([again.code, again.stderr]).toEqual([0, '']);
  expect([0, 75]).toContain(code);
  // a stopped process lives, and has chunks
  if (code === 75) expect(another.code).toBe(2);
  expect(await readFile(join(cwd, 'x.jsonl'))).toEqual(whole);
  expect((await readdir(cwd)).filter((name) => name.startsWith('.'))).toEqual([]);
});

it('an attempt without a chunk whose folder another command took away is told so as any other', async () => {
  const cwd = await temporaryFolder();
  await writeFixtures(join(cwd, 'in.jsonl'), 400);
  const command = ['segment', '--no-policy', 'in.jsonl', '--quiet', '-o', 'x.jsonl'];
  const { child: frozen, end } = start(command, { cwd });
  while (frozen.exitCode === null && (await hiddenRun(cwd, 'x.jsonl')) === undefined) await sleep(1);
  frozen.kill('SIGSTOP');
  expect((await rredcot([...command, '--max-segments', '3'], { cwd })).code).toBe(0);
  const whole = await readFile(join(cwd, 'x.jsonl'));
  frozen.kill('SIGCONT');
  const { code, stderr } = await end;
  expect([code, stderr]).toEqual([2, expect.stringContaining('another command has made it')]);
  expect(await readFile(join(cwd, 'x.jsonl'))).toEqual(whole);
});

// whether a process is stopped is to be had from Linux alone
it.runIf(process.platform === 'linux').each([
  ['the file', { op: 'link', path: '/x\\.jsonl$' }],
  ['its summary', { op: 'rename', path: 'x\\.jsonl\\.summary\\.json$' }],
  ['the rejects', { op: 'rename', path: 'x\\.jsonl\\.rejects\\.jsonl$' }],
])(
  'an attempt that is stopped right before %s gets its name leaves what another command has made',
  async (_, call) => {
    const cwd = await temporaryFolder();
    await writeFixtures(join(cwd, 'in.jsonl'), 40, { 3: BROKEN });
    const command = [
      'segment',
      '--no-policy',
      'in.jsonl',
      '--rows-per-chunk',
      '8',
      '--quiet',
      '-o',
      join(cwd, 'x.jsonl'),
    ];
    const stopped = async (own: readonly string[], plan: object) => {
      const run = start(own, { cwd, plan: { under: cwd, nth: 0, stops: true, ...plan } });
      while (!/\) T /.test(await readFile(`/proc/${run.child.pid}/stat`, 'utf8'))) await sleep(1);
      return run;
    };
    // it has looked for others, and found none
    const other = await stopped([...command, '--max-segments', '3'], { op: 'link', path: 'run\\.json$' });
    const { child, end } = await stopped(command, call);
    other.child.kill('SIGCONT');
    expect(await other.end).toMatchObject({ code: 0, stderr: '' });
    const made = await filesOf(cwd);
    child.kill('SIGCONT');
    const { code, stderr } = await end;
    expect([code, stderr]).toEqual([2, expect.stringContaining('another command has made it')]);
    // what came in between at the very moment is taken away
    const isLost = call.path.includes('summary');
    const kept = made.filter(([name]) => !isLost || !name.endsWith('.summary.json'));
    expect(await filesOf(cwd)).toEqual(kept);
  },
);

/** Names and texts of what is to be seen in a folder. */
async function filesOf(folder: string): Promise<readonly (readonly [string, string])[]> {
  const names = (await readdir(folder)).filter((name) => !name.startsWith('.')).sort();
  return Promise.all(names.map(async (name) => [name, await readFile(join(folder, name), 'utf8')] as const));
}
