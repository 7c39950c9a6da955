// What the package promises beside its code: exact pins, a committed graph that is built from the committed weights.
import { execFileSync } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { buildPolicyFolder } from '../../dist/model/onnx/build.js';
import { readExitTemplate } from '../../dist/model/text/templates.js';
import { EMBEDDED, ROOT, temporaryFolder } from '../support/program.js';

it('package.json pins every dependency exactly', async () => {
  const manifest = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'));
  const pins = Object.entries({ ...manifest.dependencies, ...manifest.devDependencies });
  expect(pins.length).toBeGreaterThan(10);
  for (const [name, version] of pins) expect(`${name}@${version}`).toMatch(/@\d+\.\d+\.\d+[\w.-]*$/);
});

it('models/embedded holds the graphs and the manifest that its weights build, and no other graph', async () => {
  const folder = await temporaryFolder();
  await buildPolicyFolder(EMBEDDED, folder, await readExitTemplate(EMBEDDED));
  const onnx = (names: readonly string[]) => names.filter((name) => name.endsWith('.onnx')).sort();
  const graphs = ['policy.cuda.onnx', 'policy.onnx'];
  expect(onnx(await readdir(folder))).toEqual(graphs);
  expect(onnx(await readdir(EMBEDDED))).toEqual(graphs);
  // the canary's last digits are those of one kind of processor: it is compared with a session, as all are
  const manifest = async (of: string) => {
    const { canary, ...rest } = JSON.parse(await readFile(join(of, 'policy.json'), 'utf8'));
    expect(canary.file).toBe('canary.json');
    return rest;
  };
  expect(await manifest(EMBEDDED)).toEqual(await manifest(folder));
  const { ids } = tokensOf(await readFile(join(folder, 'canary.json'), 'utf8'));
  expect(tokensOf(await readFile(join(EMBEDDED, 'canary.json'), 'utf8')).ids).toEqual(ids);
  for (const name of (await readdir(folder)).filter((each) => !/^(policy|canary)\.json$/.test(each))) {
    const [built, committed] = await Promise.all([
      readFile(join(folder, name)),
      readFile(join(EMBEDDED, name)),
    ]);
    expect(built.equals(committed), `${name}: build models/embedded again (CONTRIBUTING.md)`).toBe(true);
  }
});

it('what bench measures with is there: Node loads its modules', () => {
  for (const name of ['checkpoint', 'measure', 'pytorch']) {
    const load = `await import(${JSON.stringify(join(ROOT, 'bench', `${name}.mjs`))})`;
    execFileSync(process.execPath, ['--input-type=module', '-e', load], { stdio: 'pipe' });
  }
});

it('threads read neither the library of schemas nor what the start alone reads: each would take a tenth of a second longer', async () => {
  const program = join(ROOT, 'dist/program');
  const threads = (await readdir(program)).filter((name) => name.endsWith('-thread.js'));
  expect(threads.length).toBeGreaterThan(4);
  for (const thread of threads) {
    const read = new Map<string, string>();
    const reach = async (name: string): Promise<void> => {
      if (read.has(name)) return;
      read.set(name, await readFile(join(program, name), 'utf8'));
      for (const [, next] of (read.get(name) as string).matchAll(/^import .*"\.\/(.*?)";$/gm))
        await reach(next as string);
    };
    await reach(thread);
    expect(read.size, thread).toBeGreaterThan(1);
    expect(
      [...read.keys()].filter((name) => name.startsWith('start-')),
      thread,
    ).toEqual([]);
    expect(
      [...read].filter(([, text]) => text.includes('ZodError')).map(([name]) => name),
      thread,
    ).toEqual([]);
  }
});

/** The tokens that a canary asks about. */
function tokensOf(canary: string): { ids: number[][] } {
  const { passes } = JSON.parse(canary) as { passes: { traces: { ids: number[] }[] }[] };
  return { ids: passes.flatMap(({ traces }) => traces.map(({ ids }) => ids)) };
}
