// Ids that come twice and groups of several prompts are told by every form of a run, by status and by verify.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { SeenNames } from '../../dist/report/names.js';
import { rredcotHere } from '../support/in-process.js';
import { FIXTURES, type FixtureRow, readJsonl, temporaryFolder } from '../support/program.js';

const CODES = ['same_id', 'mixed_groups'];

let folder: string;
let rows: FixtureRow[];
const write = (name: string, all: readonly object[]) =>
  writeFile(join(folder, name), all.map((row) => `${JSON.stringify(row)}\n`).join(''));
/** The codes that are told, and by how many records each. */
const told = async (args: readonly string[], stdin?: string) => {
  const run = await rredcotHere([...args, '--log-json'], { cwd: folder, ...(stdin && { stdin }) });
  const found = run.stderr
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as { code?: string; msg: string })
    .filter(({ code }) => CODES.includes(code ?? ''));
  return { ...run, codes: found.map(({ code }) => code).sort(), messages: found.map(({ msg }) => msg) };
};
const BOTH = [...CODES].sort();

/** the id and the group of the first row again in the last one, which has another prompt: chunks of eight rows apart */
beforeAll(async () => {
  folder = await temporaryFolder();
  rows = (await readJsonl<FixtureRow>(FIXTURES)).slice(0, 16);
  const [first, last] = [rows[0] as FixtureRow, rows[15] as FixtureRow];
  await write('traces.jsonl', [...rows.slice(0, 15), { ...last, id: first.id, group: first.group }]);
});

it('are told of one process, of workers and of each shard, once', async () => {
  for (const [out, ...flags] of [
    ['one.parquet'],
    ['two.parquet', '--workers', '2'],
    ['three/', '--workers', '2'],
  ]) {
    const made = await told([
      'score',
      'traces.jsonl',
      '-o',
      out as string,
      '--rows-per-chunk',
      '8',
      ...flags,
    ]);
    expect([made.code, made.codes], made.stderr).toEqual([0, BOTH]);
    expect(made.messages.join('\n')).toMatch(/1 trace has the id of an earlier one, first "top-0000\/0"/);
    expect(made.messages.join('\n')).toMatch(
      /1 prompt is in a group with other prompts, first in "top-0000"/,
    );
  }
  for (const shard of ['0/2', '1/2']) {
    const made = await told([
      'score',
      'traces.jsonl',
      '-o',
      'out/',
      '--rows-per-chunk',
      '8',
      '--shard',
      shard,
    ]);
    expect([made.code, made.codes], shard).toEqual([0, BOTH]);
  }
  const dry = await told(['score', 'traces.jsonl', '--dry-run']);
  expect(dry.codes).toEqual(BOTH);
  // of a stream at its end, by what was read
  const lines = rows.map((row) => ({ ...row, id: rows[0]?.id, group: 'g' }));
  const stream = await told(
    ['score', '-', '-o', '-', '--format', 'jsonl'],
    lines.map((row) => `${JSON.stringify(row)}\n`).join(''),
  );
  expect(stream.codes).toEqual(BOTH);
});

it('are told by status and by verify, and of groups only where these count', async () => {
  const { stdout } = await rredcotHere(['status', 'out/'], { cwd: folder });
  for (const code of CODES) expect(stdout).toContain(`\n${code}: `);
  const json = JSON.parse((await rredcotHere(['status', 'out/', '--json'], { cwd: folder })).stdout);
  expect(json.warnings.map(({ code }: { code: string }) => code).sort()).toEqual(BOTH);
  // an id that comes twice is a finding
  for (const place of ['out/', 'one.parquet']) {
    const verified = await told(['verify', place]);
    expect(verified.code).toBe(65);
    expect(verified.stdout).toContain('its id stands in an earlier row too');
    expect(verified.codes, place).toEqual(['mixed_groups']);
  }
  const apart = ['score', 'traces.jsonl', '-o', 'apart.parquet', '--baseline', 'value'];
  expect((await told(apart)).codes).toEqual(['same_id']);
  expect((await told(['verify', 'apart.parquet'])).codes).toEqual([]);
});

it('count for a limit as far as its traces go, and their groups with what follows', async () => {
  const limited = ['score', 'traces.jsonl', '--limit', '8', '-o', 'limited.parquet'];
  expect((await told(limited)).codes).toEqual(['mixed_groups']);
});

it('are told of segments, too: of lines by the first process for all', async () => {
  const shard = [
    'segment',
    'traces.jsonl',
    '--no-policy',
    '-o',
    'cut/',
    '--format',
    'jsonl',
    '--rows-per-chunk',
    '8',
  ];
  for (const each of ['0/2', '1/2'])
    expect((await told([...shard, '--shard', each])).codes, each).toEqual(['same_id']);
});

it('tells a completion under several ids, once a trace, in one group and of one prompt alone', () => {
  const named = (id: string, group: string, prompt: string, completion: string) => ({
    id,
    group,
    prompt,
    completion,
  });
  const seen = (...all: ReturnType<typeof named>[]) => {
    const names = new SeenNames(true);
    for (const each of all) names.add(each);
    return names.warnings.map(({ code, message }) => `${code} ${message.slice(0, 1)}`);
  };
  expect(seen(named('a', 'g', 'p', 'c'), named('b', 'g', 'p', 'c'), named('c', 'g', 'p', 'c'))).toEqual([
    'same_completion 2',
  ]);
  expect(seen(named('a', 'g', 'p', 'c'), named('b', 'h', 'p', 'c'), named('c', 'g', 'p', 'd'))).toEqual([]);
  expect(seen(named('a', 'g', 'p', 'c'), named('a', 'g', 'p', 'c'))).toEqual(['same_id 1']);
});
