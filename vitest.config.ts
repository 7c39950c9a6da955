// The test files in three projects: `quick`, `program` and `long`. No list of names: a file tells by itself where it belongs.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';

const report = process.env.RREDCOT_TEST_REPORT;

/** What takes time: a process that is started, a policy that is run, torture. */
const TAKES_TIME =
  /\brredcot\(|child_process|PolicySession|build(?:Policy|Prm)Folder|random-policy|family-checks|oracle-comparison|in-process|support\/scene|runIn|\.\/fs-hook|\.\/damage\.js|\bstart\(argsOf/;

function projectOf(path: string): 'quick' | 'program' | 'long' {
  if (path.endsWith('.long.test.ts')) return 'long';
  return TAKES_TIME.test(readFileSync(join(import.meta.dirname, path), 'utf8')) ? 'program' : 'quick';
}

const files = readdirSync(join(import.meta.dirname, 'test'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.test.ts'))
  .map((name) => join('test', name));

export default defineConfig({
  test: {
    projects: (['quick', 'program', 'long'] as const).map((name) => ({
      extends: true as const,
      test: {
        name,
        include: files.filter((path) => projectOf(path) === name),
        // one process for every file would load everything as often
        isolate: name === 'long',
        setupFiles: ['test/support/every-file.ts'],
        // two files at a time share two cores: a policy that takes both in each costs more than it gains
        env: name === 'long' ? {} : { RREDCOT_THREADS: '1' },
        // what ends a test that hangs: no test may depend on how busy the machine is
        testTimeout: name === 'long' ? 1_800_000 : 300_000,
      },
    })),
    // what is built is loaded as it is
    server: { deps: { external: [/\/dist\//] } },
    globalSetup: 'test/support/fresh-build.ts',
    // the machine has two cores: test files run two at a time
    maxWorkers: 2,
    hookTimeout: 300_000,
    ...(report ? { reporters: ['default', 'json'], outputFile: { json: report } } : {}),
  },
});
