// A process of ours that waits for its input for ever, and SIGUSR1 sent to it: the signal has to end it, whenever it comes.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { type End, start } from './program.js';

/** So long a machine may be busy with other things. */
const PATIENCE_MS = 120_000;

/** What became of a process that got the signal `ms` after its start. */
async function endAfter(ms: number): Promise<End> {
  const { child, end } = start(['segment', '--no-policy', '--quiet']);
  await sleep(ms);
  child.kill('SIGUSR1');
  const deaf = setTimeout(() => child.kill('SIGKILL'), PATIENCE_MS);
  return end.finally(() => clearTimeout(deaf));
}

/** @param times ms after the start; one process each, one after the other, since Node's debugger has one port */
export function describeEarlySignal(times: readonly number[]): void {
  it(`SIGUSR1 ends the program whenever it comes, and leaves no debugger open: ${times.length} times`, async () => {
    for (const ms of times) {
      const { code, signal, stderr } = await endAfter(ms);
      // before Node listens to signals at all, the system ends the process
      const isEnded = code === 75 || signal === 'SIGUSR1';
      expect(isEnded, `after ${ms} ms: exit ${code}, ${signal}\n${stderr}`).toBe(true);
      if (code === 75) expect(stderr).toMatch(/^rredcot: interrupted/m);
    }
  });
}
