// The test files in three projects: `quick`, `program` and `long`. A file tells by itself where it belongs; which of them begin first is a list.
import { readdirSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

const report = process.env.RREDCOT_TEST_REPORT;

/** What takes time: a process that is started, a policy that is run, torture. */
const TAKES_TIME =
  /\brredcot\(|child_process|PolicySession|build(?:Policy|Prm)Folder|random-policy|family-checks|oracle-comparison|in-process|support\/scene|runIn|\.\/fs-hook|\bstart\(argsOf/;

function projectOf(path: string): 'quick' | 'program' | 'long' {
  if (path.endsWith('.long.test.ts')) return 'long';
  return TAKES_TIME.test(readFileSync(join(import.meta.dirname, path), 'utf8')) ? 'program' : 'quick';
}

/**
 * Files that take more than a minute, which begin first: both workers end together. Between `system/export`, which makes the one large
 * environment of Python, and those that need it or make the other ones, stand files that need none: a file that waits keeps a worker.
 */
const LONG = [
  ...['system/export', 'system/docs', 'system/wheel', 'model/graph/families', 'system/trainers-real'],
  ...['system/docs-others', 'model/graph/qwen35', 'model/graph/mixture', 'system/runners', 'torture/kill'],
  ...['torture/faults', 'torture/damage', 'model/engine/live', 'system/endings', 'run/partition'],
  ...['commands/probe', 'estimate/contract', 'run/parts', 'estimate/mc'],
];

class LongestFirst extends BaseSequencer {
  override async sort(specs: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification) => {
      const at = LONG.findIndex((name) => new RegExp(`/test/${name}(\\.long)?\\.test\\.ts$`).test(moduleId));
      return at < 0 ? LONG.length : at;
    };
    return (await super.sort(specs)).sort((a, b) => place(a) - place(b));
  }
}

/** What Python compiles of packages, which would else be compiled at each start: minutes in all. */
const PYCACHE = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'rredcot-ci/pycache');

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
        env: { PYTHONDONTWRITEBYTECODE: '', PYTHONPYCACHEPREFIX: PYCACHE, RREDCOT_THREADS: '1' },
        // what ends a test that hangs: no test may depend on how busy the machine is
        testTimeout: name === 'long' ? 1_800_000 : 300_000,
      },
    })),
    // what is built is loaded as it is
    server: { deps: { external: [/\/dist\//] } },
    globalSetup: 'test/support/fresh-build.ts',
    sequence: { sequencer: LongestFirst },
    // the machine has two cores: test files run two at a time
    maxWorkers: 2,
    hookTimeout: 300_000,
    ...(report ? { reporters: ['default', 'json'], outputFile: { json: report } } : {}),
  },
});
