// The example for Ray on a real one: a head and two nodes, of which one is killed while it is at work, and the result is
// what one process gives, byte for byte.
import { spawnSync } from 'node:child_process';
import { mkdir, readdir, readFile, symlink } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { FIXTURES, ROOT } from '../support/program.js';
import { openScene } from '../support/scene.js';
import { rayPython } from '../support/trainer-venv.js';

/** It takes minutes, of which Ray waits most: `npm run torture` runs it. */
const python = process.env.RREDCOT_TORTURE === undefined ? undefined : rayPython();
const ROWS = 256;

interface Ended {
  readonly code: number | null;
  /** what was lost with the node; null where the work had ended before */
  readonly lost: { shard: number; kept: number; untouched: boolean } | null;
  readonly log: string;
}

const why = python === undefined ? ' (skipped: npm run torture has it, where pip has ray 2.58)' : '';
const { at, done, folder, write } = await openScene();

describe.skipIf(python === undefined)(`Ray${why}`, () => {
  let found: Ended;

  const inPython = (args: readonly string[]) =>
    spawnSync(python as string, args, {
      encoding: 'utf8',
      maxBuffer: 1e9,
      env: {
        ...process.env,
        RAY_USAGE_STATS_ENABLED: '0',
        PYTHONPATH: join(ROOT, 'examples'),
        PATH: [at('path'), process.env.PATH].join(delimiter),
      },
    });

  beforeAll(async () => {
    await mkdir(at('path'));
    await symlink(join(ROOT, 'bin/rredcot.js'), at('path/rredcot'));
    const lines = (await readFile(FIXTURES, 'utf8')).split('\n').slice(0, ROWS);
    await write('traces.jsonl', [...lines, '{"id": "cut off', ''].join('\n'));
    const asked = ['--shards', '4', '--', at('traces.jsonl'), '-o', `${at('out')}/`, '--rows-per-part', '4'];
    const run = inPython([join(ROOT, 'test/support/ray_nodes.py'), folder, JSON.stringify(asked)]);
    expect(run.status, run.stderr).toBe(0);
    found = JSON.parse(run.stdout.trim().split('\n').at(-1) as string);
  }, 600_000);

  it('the shard of a node that is killed goes on at the other, and the run has the bytes of one process', async () => {
    const { code, lost, log } = found;
    expect(code, log).toBe(0);
    expect(lost?.kept, log).toBeGreaterThan(0);
    expect(lost?.untouched, 'parts of before').toBe(true);
    await done(`score ${at('traces.jsonl')} -o one/ --rows-per-part 4`);
    const files = async (name: string) =>
      (await readdir(at(name), { recursive: true })).filter((file) => /part-\d+/.test(file)).sort();
    const names = await files('one');
    expect(names.length).toBeGreaterThan(ROWS / 4);
    expect(await files('out')).toEqual(names);
    for (const name of names) {
      const [of4, one] = await Promise.all(['out', 'one'].map((run) => readFile(join(at(run), name))));
      expect((of4 as Buffer).equals(one as Buffer), name).toBe(true);
    }
  });

  it('what another attempt would not change ends a shard, all else asks for one', () => {
    const run = inPython([
      '-c',
      `
import json, sys, ray_shards

def told(call):
  try:
      return call()
  except Exception as error:
      return f"{type(error).__name__}: {error}"

path = sys.argv[1]
shard = lambda name, *flags: told(lambda: ray_shards.score("0/1", [path + "/traces.jsonl", "-o", f"{path}/{name}/", "--quiet", *flags], 1))
print(json.dumps([shard("flags", "--sigma", "none"), shard("rejects", "--max-rejects", "0"), shard("time", "--time-limit", "0.01s")]))`,
      folder,
    ]);
    expect(run.status, run.stderr).toBe(0);
    const [flags, rejects, time] = JSON.parse(run.stdout);
    expect([flags, rejects]).toEqual([2, 65]);
    expect(time).toBe('Again: shard 0/1: rredcot ended with 75');
  });
});
