// The program in this process, for the many calls of which each would start a process of its own; its only state is its files.
import { vi } from 'vitest';
import { main } from '../../dist/cli/program.js';
import type { Run } from './program.js';

/** Runs `rredcot` here. What it prints is kept back; what is printed meanwhile by others is taken for its own. */
export async function rredcotHere(
  args: readonly string[],
  opts: { cwd?: string } = {},
): Promise<Run & { code: number }> {
  const printed = { stdout: '', stderr: '' };
  const streams = ['stdout', 'stderr'] as const;
  const spies = streams.map((name) =>
    vi.spyOn(process[name], 'write').mockImplementation((text) => {
      printed[name] += String(text);
      return true;
    }),
  );
  const folder = process.cwd();
  if (opts.cwd !== undefined) process.chdir(opts.cwd);
  try {
    const code = await main(['node', 'rredcot', ...args]);
    return { code, ...printed };
  } finally {
    process.chdir(folder);
    for (const spy of spies) spy.mockRestore();
    for (const name of ['SIGINT', 'SIGTERM', 'SIGUSR1', 'SIGHUP']) process.removeAllListeners(name);
    for (const name of streams) process[name].removeAllListeners('error');
  }
}
