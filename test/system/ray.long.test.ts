// The examples for Ray on a real one: a head and two nodes, of which one is killed while an example is at work, and the result is
// what one process gives, byte for byte.
import { spawnSync } from 'node:child_process';
import { mkdir, readdir, readFile, symlink } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { queryDuckdb } from '../support/io-helpers.js';
import { FIXTURES, ROOT, readScored } from '../support/program.js';
import { openScene } from '../support/scene.js';
import { rayPython } from '../support/trainer-venv.js';

/** It takes minutes, of which Ray waits most: `npm run torture` runs it. */
const python = process.env.RREDCOT_TORTURE === undefined ? undefined : rayPython();
const ROWS = 256;
/** of which groups of eight lie across two files */
const BATCHED = [52, 76];
const BATCH = 32;

interface Ended<Lost> {
  readonly code: number | null;
  /** what was lost with the node; null where the work had ended before */
  readonly lost: Lost | null;
  readonly log: string;
}

interface Found {
  readonly shards: Ended<{ shard: number; kept: number; untouched: boolean }>;
  readonly batches: Ended<{ written: number }>;
}

const why = python === undefined ? ' (skipped: npm run torture has it, where pip has ray 2.58)' : '';
const { at, done, folder, write } = await openScene();

describe.skipIf(python === undefined)(`Ray${why}`, () => {
  let found: Found;

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
    await write('group.jsonl', `${lines.slice(0, 8).join('\n')}\n`);
    await mkdir(at('input'));
    let offset = 0;
    for (const rows of BATCHED) {
      const some = `select * from read_json('${FIXTURES}') limit ${rows} offset ${offset}`;
      await queryDuckdb(`copy (${some}) to '${at(`input/${offset}.parquet`)}'`);
      offset += rows;
    }
    const asked = {
      shards: ['--shards', '4', '--', at('traces.jsonl'), '-o', `${at('out')}/`, '--rows-per-part', '4'],
      batches: [at('input'), at('scored'), '--rows', `${BATCH}`, '--group', 'group', '--group-size', '8'],
    };
    const run = inPython([join(ROOT, 'test/support/ray_nodes.py'), folder, JSON.stringify(asked)]);
    expect(run.status, run.stderr).toBe(0);
    found = JSON.parse(run.stdout.trim().split('\n').at(-1) as string);
  }, 600_000);

  it('the shard of a node that is killed goes on at the other, and the run has the bytes of one process', async () => {
    const { code, lost, log } = found.shards;
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

  it('batches of Ray Data are scored again where a node is killed, and their rows are those of one process', async () => {
    const { code, lost, log } = found.batches;
    expect(code, log).toBe(0);
    expect(lost?.written, log).toBeGreaterThan(0);
    const one = at('input.scored.parquet');
    await done(`score ${at('input')} -o ${one} --rows-per-part ${BATCH}`);
    const names = (await readdir(at('scored'))).sort();
    const rows = (await Promise.all(names.map((name) => readScored(join(at('scored'), name))))).flat();
    // a row's number in its batch is another one than in its file
    const scored = (all: typeof rows) => all.map((row) => ({ ...row, source_file: '', source_row: 0n }));
    expect(rows.length).toBe(BATCHED.reduce((sum, each) => sum + each));
    expect(scored(rows)).toEqual(scored(await readScored(one)));
  });

  it('what another attempt would not change ends a shard or a batch, all else asks for one', () => {
    const run = inPython([
      '-c',
      `
import json, sys, pyarrow.json, ray_batches, ray_shards

def told(call):
  try:
      return call()
  except Exception as error:
      return f"{type(error).__name__}: {error}"

path = sys.argv[1]
rows = pyarrow.json.read_json(path + "/group.jsonl")
shard = lambda name, *flags: told(lambda: ray_shards.score("0/1", [path + "/traces.jsonl", "-o", f"{path}/{name}/", "--quiet", *flags], 1))
batch = lambda table, size, *flags: told(lambda: ray_batches.score(table, flags, "group", size, 1))
print(json.dumps([
  shard("flags", "--sigma", "none"), shard("rejects", "--max-rejects", "0"), shard("time", "--time-limit", "0.01s"),
  batch(rows.slice(1), 8), batch(rows.drop_columns(["id"]), 8), batch(rows, 8, "--sigma", "none"),
]))`,
      folder,
    ]);
    expect(run.status, run.stderr).toBe(0);
    const [flags, rejects, time, cut, nameless, wrong] = JSON.parse(run.stdout);
    expect([flags, rejects]).toEqual([2, 65]);
    expect(time).toBe('Again: shard 0/1: rredcot ended with 75');
    expect(cut).toContain("expected 8 traces of every group in a batch, but 'top-0000' has 7");
    expect(nameless).toMatch(/^RuntimeError: rredcot ended with 65: (.|\n)*"code":"map","reason":"id: no /);
    expect(wrong).toMatch(/^RuntimeError: rredcot ended with 2: (.|\n)*--sigma/);
  });
});
