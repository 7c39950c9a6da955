// The time that a call may take is time in which the program runs: a stopped one goes on where it was.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as after } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';

const of = (path: string) => JSON.stringify(new URL(`../../../dist/${path}`, import.meta.url).href);
// works for so many milliseconds of processor time
const THREAD = `import { serve } from ${of('thread.js')};
serve({ work: (ms) => {
  const from = process.cpuUsage();
  for (let used = { user: 0, system: 0 }; used.user + used.system < ms * 1000; ) used = process.cpuUsage(from);
  return 'done';
} });`;
const PROGRAM = `import { boundedProcess } from ${of('model/text/bounded-process.js')};
const file = new URL('data:text/javascript,' + encodeURIComponent(${JSON.stringify(THREAD)}));
const source = { title: 'a tokenizer', hint: 'none', file, workerData: null };
const thread = boundedProcess({ ...source, memoryMb: 512, timeoutMs: 2000 });
console.log('begun');
const found = await thread.call('work', [Number(process.argv.at(-1))]).catch((error) => error.message);
console.log(found.error ?? found);`;

/** What the program prints behind `begun`, stopped for a while in the middle of the call. */
async function said(workMs: number, stoppedMs: number): Promise<string> {
  const program = spawn(process.execPath, ['--input-type=module', '-e', PROGRAM, String(workMs)]);
  onTestFinished(() => void program.kill('SIGKILL'));
  let text = '';
  program.stdout.on('data', (bytes) => {
    text += bytes;
  });
  await once(program.stdout, 'data');
  if (stoppedMs > 0) {
    await after(100);
    program.kill('SIGSTOP');
    await after(stoppedMs);
    program.kill('SIGCONT');
  }
  await once(program, 'close');
  return text.replace('begun\n', '').trim();
}

it('a program that is stopped for longer than a call may take still has its answer', async () => {
  expect(await said(200, 2500)).toBe('done');
}, 60_000);

it('a call that does not end is stopped all the same', async () => {
  expect(await said(1e6, 0)).toBe('not done after 2 s');
}, 60_000);
