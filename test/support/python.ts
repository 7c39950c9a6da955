// Which Python a test has: one on the path that imports what it needs, or Debian's beside it.
import { spawn, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { ROOT } from './program.js';

/** For torch beside other test files: threads that wait for a core in a loop take longer than one thread alone. */
export const ONE_THREAD = { ...process.env, OMP_NUM_THREADS: '1', OPENBLAS_NUM_THREADS: '1' };

const imports = (python: string, modules: string): boolean =>
  spawnSync(python, ['-c', `import ${modules}`]).status === 0;

/** The first Python that has the modules (`torch, pyarrow`); RREDCOT_PYTHON names one that is asked before all others. */
export function pythonWith(modules: string): string | undefined {
  const named = process.env.RREDCOT_PYTHON;
  return [...(named ? [named] : []), 'python3', '/usr/bin/python3'].find((name) => imports(name, modules));
}

/** A Python that answers lines of JSON with lines, one after the other: what it imports takes longer than most answers. */
export function pythonThatStays(
  python: string,
  [script, ...args]: readonly string[],
  more: NodeJS.ProcessEnv = {},
) {
  const child = spawn(python, [join(ROOT, 'test/support', script as string), ...args], {
    env: { ...ONE_THREAD, ...more },
  });
  let said = '';
  child.stderr.on('data', (text) => (said += text));
  child.stdin.on('error', () => {}); // what it has said before it ended tells why
  const closed = new Promise<void>((resolve) => child.on('close', () => resolve()));
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    async ask<T>(question: unknown): Promise<T> {
      child.stdin.write(`${JSON.stringify(question)}\n`);
      const { value, done } = await answers.next();
      if (!done) return JSON.parse(value);
      await closed;
      throw new Error(said);
    },
    close: (): void => void child.stdin.end(),
  };
}

/** Runs commands as `python WORDS` does, in forks of one Python that has imported the modules. */
export function pythonThatForks(python: string, modules: readonly string[], env?: NodeJS.ProcessEnv) {
  const parent = pythonThatStays(python, ['forked.py', ...modules], env);
  return {
    run: (command: readonly string[], input = '') =>
      parent.ask<{ status: number; stdout: string; stderr: string }>({ command, input }),
    close: parent.close,
  };
}
