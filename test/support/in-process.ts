// The program in this process, for the many calls of which each would start a process of its own; its only state is its files.
import fs from 'node:fs';
import { Readable } from 'node:stream';
import { vi } from 'vitest';
import type { Run } from './program.js';

/** the program as it ships, which has no types of its own */
const { main }: typeof import('../../dist/cli/program.js') = await import(
  '../../dist/program/program.js' as string
);

/** So much a pipe holds. */
const PIPE_BYTES = 2 ** 16;

/**
 * Runs `rredcot` here, one call after the other. What it prints is kept back; what is printed meanwhile by others is taken
 * for its own. `bytes` are those of stdout.
 */
export async function rredcotHere(
  args: readonly string[],
  opts: { cwd?: string; stdin?: string | Buffer } = {},
): Promise<Run & { code: number; bytes: Buffer }> {
  const printed: Record<'stdout' | 'stderr', Buffer[]> = { stdout: [], stderr: [] };
  const streams = ['stdout', 'stderr'] as const;
  const spies = streams.map((name) =>
    vi.spyOn(process[name], 'write').mockImplementation((bytes, ...more) => {
      printed[name].push(Buffer.from(bytes as Uint8Array));
      const done = more.find((one) => typeof one === 'function');
      if (done !== undefined) process.nextTick(done);
      return true;
    }),
  );
  // the log writes to the descriptor itself
  const { writeSync } = fs;
  const direct = vi.spyOn(fs, 'writeSync').mockImplementation(((
    descriptor: number,
    bytes: string | Uint8Array,
    ...more: never[]
  ) => {
    if (descriptor !== process.stderr.fd) return writeSync(descriptor, bytes as string, ...more);
    printed.stderr.push(Buffer.from(bytes as Uint8Array));
    return Buffer.byteLength(bytes);
  }) as typeof writeSync);
  const stdin = Object.getOwnPropertyDescriptor(process, 'stdin') as PropertyDescriptor;
  Object.defineProperty(process, 'stdin', {
    configurable: true,
    value: Readable.from(pieces(opts.stdin ?? '')),
  });
  const folder = process.cwd();
  if (opts.cwd !== undefined) process.chdir(opts.cwd);
  try {
    const code = await main(['node', 'rredcot', ...args]);
    const text = (name: 'stdout' | 'stderr') => Buffer.concat(printed[name]).toString();
    return { code, stdout: text('stdout'), stderr: text('stderr'), bytes: Buffer.concat(printed.stdout) };
  } finally {
    process.chdir(folder);
    Object.defineProperty(process, 'stdin', stdin);
    for (const spy of [...spies, direct]) spy.mockRestore();
    for (const name of ['SIGINT', 'SIGTERM', 'SIGUSR1', 'SIGHUP']) process.removeAllListeners(name);
    for (const name of streams) process[name].removeAllListeners('error');
  }
}

function* pieces(content: string | Buffer): Generator<Buffer> {
  const bytes = Buffer.from(content as string);
  for (let at = 0; at < bytes.length; at += PIPE_BYTES) yield bytes.subarray(at, at + PIPE_BYTES);
}
