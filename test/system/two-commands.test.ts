// A few rounds; two-commands.long.test.ts does more. And one attempt that is stopped while another one overtakes it.
import { access, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { hiddenRun, rredcot, start, temporaryFolder, writeFixtures } from '../support/program.js';
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
