// Ids that come twice and groups of several prompts are told by every form of a run.
import { beforeAll, expect, it } from 'vitest';
import { fixtureRows, GIVEN, jsonLines, openScene, valued } from '../support/scene.js';

const score = `score traces.jsonl ${GIVEN} --baseline group`;
const BOTH = ['mixed_groups', 'same_id'];

const { run, write } = await openScene();
let rows: ReturnType<typeof valued>[];

/** The codes that are told, and by how many records each. */
const told = async (line: string, code = 0, stdin?: string) => {
  const { stdout, stderr, ...made } = await run(`${line} --log-json`, stdin);
  expect(made.code, stderr).toBe(code);
  const records = stderr.split('\n').filter(Boolean);
  const found = records
    .map((record) => JSON.parse(record) as { code?: string; msg: string })
    .filter((record) => BOTH.includes(record.code ?? ''));
  return {
    stdout,
    codes: found.map((each) => each.code).sort(),
    said: found.map(({ msg }) => msg).join('\n'),
  };
};

/** the id and the group of the first row again in the last one, which has another prompt: chunks of eight rows apart */
beforeAll(async () => {
  rows = (await fixtureRows(0, 16)).map(valued);
  const [first, last] = [rows[0], rows[15]] as [(typeof rows)[0], (typeof rows)[0]];
  await write('traces.jsonl', [...rows.slice(0, 15), { ...last, id: first.id, group: first.group }]);
});

it('are told of one process and of each shard, once', async () => {
  for (const out of ['one.parquet', 'two.jsonl']) {
    const { codes, said } = await told(`${score} --rows-per-part 8 -o ${out}`);
    expect(codes).toEqual(BOTH);
    expect(said).toMatch(
      /^1 trace has the id of an earlier one, first "top-0000\/0": .*; --map id=<column>/m,
    );
    expect(said).toMatch(
      /^1 prompt is in a group with other prompts, first in "top-0000": .*; --map group=/m,
    );
  }
  for (const shard of ['0/2', '1/2'])
    expect((await told(`${score} -o out/ --rows-per-part 8 --shard ${shard}`)).codes).toEqual(BOTH);
  // of a stream at its end, by what was read
  const lines = (await fixtureRows(0, 16)).map((row) => ({ ...row, id: rows[0]?.id, group: 'g' }));
  expect((await told('score - -o - --format jsonl', 0, jsonLines(lines))).codes).toEqual(BOTH);
});

it('are told of groups only where these count', async () => {
  expect((await told(`${score} -o apart.jsonl --baseline value`)).codes).toEqual(['same_id']);
});

it('count for a limit as far as its traces go, and their groups with what follows', async () => {
  expect((await told(`${score} --limit 8 -o limited.jsonl`)).codes).toEqual(['mixed_groups']);
});

it('are told of segments, too', async () => {
  const segment = 'segment traces.jsonl --no-policy -o cut/ --format jsonl --rows-per-part 8';
  for (const shard of ['0/2', '1/2'])
    expect((await told(`${segment} --shard ${shard}`)).codes, shard).toEqual(['same_id']);
});

it('tell of groups of one completion each, and not of a prompt that comes in several epochs', async () => {
  const all = (await fixtureRows(0, 16)).map(valued);
  await write(
    'alone.jsonl',
    all.map((row) => ({ ...row, group: row.id })),
  );
  const { stderr } = await run(`${score.replace('traces', 'alone')} -o alone.parquet`);
  expect(stderr).toMatch(/14 groups have the prompt of an earlier one, first "top-0000\/1": .* --map group=/);
  const again = all.map((row) => ({ ...row, id: `${row.id}/2`, group: `${row.group}/2` }));
  await write('epochs.jsonl', [...all, ...again]);
  const epochs = await run(`${score.replace('traces', 'epochs')} -o epochs.parquet`);
  expect(epochs.stderr).not.toContain('the prompt of an earlier one');
});
