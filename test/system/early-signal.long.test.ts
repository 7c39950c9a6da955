// Node opens its debugger to all users of a machine at SIGUSR1, which is what schedulers send: never here, whenever it comes.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { start } from '../support/program.js';

/** `npm run torture` has more */
const TIMES = process.env.RREDCOT_TORTURE === undefined ? 8 : 200;
/** So long a machine may be busy with other things. */
const PATIENCE_MS = 120_000;

it(`SIGUSR1 ends the program from its start to 2 s after it: ${TIMES} times`, async () => {
  // one process after the other, since Node's debugger has one port
  for (let i = 0; i < TIMES; i++) {
    const ms = (i * 2000) / TIMES;
    // it waits for its input for ever
    const { child, end } = start(['segment', '--no-policy', '--quiet']);
    await sleep(ms);
    child.kill('SIGUSR1');
    const deaf = setTimeout(() => child.kill('SIGKILL'), PATIENCE_MS);
    const { code, signal, stderr } = await end;
    clearTimeout(deaf);
    // before Node listens to signals at all, the system ends the process
    const isEnded = code === 75 || signal === 'SIGUSR1';
    expect(isEnded, `after ${ms} ms: exit ${code}, ${signal}\n${stderr}`).toBe(true);
    if (code === 75) expect(stderr).toMatch(/^rredcot: interrupted/m);
  }
});
