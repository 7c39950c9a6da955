// Values and segments of the rows' own: no policy runs, σ is what a pass gives, and what would rest on a pass asks for one.

import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { resolveCreditOptions } from '../../dist/commands/job/options.js';
import { type PolicyNeed, policyNeed } from '../../dist/commands/policy-need.js';
import { parseFieldMap } from '../../dist/io/map/field-map.js';
import { EMBEDDED_POLICY } from '../../dist/policy/embedded.js';
import { rredcotHere } from '../support/in-process.js';
import {
  EMBEDDED,
  FIXTURES,
  type FixtureRow,
  readJsonl,
  type ScoredRow,
  temporaryFolder,
} from '../support/program.js';

type Row = Omit<ScoredRow, 'logprobs' | 'entropies'> & {
  readonly logprobs: number[] | null;
  readonly entropies: number[] | null;
  readonly prompt_ids: number[] | null;
  readonly completion_ids: number[];
  readonly sigma_gain: number | null;
};

const OF_ROWS = ['--estimator', 'given', '--segmenter', 'given'];
/** columns that a pass alone fills are named, so that there is one */
const ALL = [
  'id',
  'prompt_ids',
  'completion_ids',
  'logprobs',
  'entropies',
  'sigma',
  'segments',
  'value_start',
  'status',
];

let folder: string;
let fixtures: FixtureRow[];
const at = (name: string) => join(folder, name);
const run = (...args: string[]) => rredcotHere(args, { cwd: folder });
const write = (name: string, rows: readonly object[]) =>
  writeFile(at(name), rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
async function scored(input: string, ...flags: string[]): Promise<{ rows: Row[]; said: string }> {
  const output = `${input}.${flags.length}.out.jsonl`;
  const { code, stderr } = await run('score', input, ...OF_ROWS, '--overwrite', '-o', output, ...flags);
  expect(code, stderr).toBe(0);
  const verified = await run('verify', output);
  expect(verified.code, verified.stdout).toBe(0);
  return { rows: await readJsonl<Row>(at(output)), said: stderr };
}

/** A fixture with a value at the start, in the middle of the thought, and at its end. */
function valued({ completion, prompt_ids: _, completion_ids: __, ...rest }: FixtureRow) {
  const end = completion.indexOf('</think>');
  return { ...rest, completion, segment_char_ends: [Math.floor(end / 2), end], values: [0.5, 0.25, 0.75] };
}

beforeAll(async () => {
  folder = await temporaryFolder();
  fixtures = (await readJsonl<FixtureRow>(FIXTURES)).slice(0, 8);
  await write('text.jsonl', fixtures.map(valued));
});

describe('rows that bring values and segments', () => {
  it('are read by no policy: the same σ, values and segments as behind a pass, without what a pass says', async () => {
    const { rows, said } = await scored('text.jsonl', '--sigma', 'rudder');
    const passed = await scored('text.jsonl', '--sigma', 'rudder', '--columns', ALL.join(','));
    expect(said).toContain("so no policy runs: tokens are the bundled policy's, bytes; --policy <folder>");
    expect(passed.said).not.toContain('no policy runs');
    for (const [n, row] of rows.entries()) {
      const other = passed.rows[n] as Row;
      expect(row.sigma).toEqual(other.sigma);
      expect(row.completion_ids).toEqual(other.completion_ids);
      expect(row.segments.map((segment) => ({ ...segment, entropy: null }))).toEqual(
        other.segments.map((segment) => ({ ...segment, entropy: null })),
      );
      expect(other.segments.every(({ entropy }) => typeof entropy === 'number')).toBe(true);
      expect([row.logprobs, row.entropies, row.prompt_ids, row.sigma_gain]).toEqual([null, null, null, null]);
      expect(row.segments.every(({ entropy }) => entropy === null)).toBe(true);
      expect([row.status, other.status]).toEqual(['policy:none', 'ok']);
      expect(other.logprobs?.length).toBe(row.sigma.length);
    }
  });

  it('are not called foreign by a policy that has not read them', async () => {
    const strange = fixtures.map(({ id }) => ({
      ...{ id, prompt: '¿?', completion: '<think>\n¡Ñandú, qué pingüino!</think> sí', reward: 1 },
      ...{ segment_char_ends: [12, 30], values: [0.5, 0, 1] },
    }));
    await write('strange.jsonl', strange);
    const { said } = await scored('strange.jsonl');
    expect(said).not.toMatch(/^WARN/m);
    expect((await scored('strange.jsonl', '--columns', ALL.join(','))).said).toContain(
      'are foreign to the bundled',
    );
  });

  it('need the tokenizer of a policy alone: one whose graphs are broken counts their tokens', async () => {
    const policy = at('broken');
    await run(
      'policy',
      'build',
      EMBEDDED,
      '-o',
      policy,
      '--exit-template',
      join(EMBEDDED, 'exit_template.json'),
    );
    const manifest = JSON.parse(await readFile(join(policy, 'policy.json'), 'utf8'));
    const graph = 'no graph';
    for (const name of Object.keys(manifest.files).filter((file) => file.endsWith('.onnx'))) {
      await writeFile(join(policy, name), graph);
      manifest.files[name] = createHash('sha256').update(graph).digest('hex');
    }
    await writeFile(join(policy, 'policy.json'), JSON.stringify(manifest));
    const { rows, said } = await scored('text.jsonl', '--policy', policy);
    expect(said).toContain(`no policy runs: tokens are those of ${policy}`);
    // a prompt's ids are those of a policy that was named
    expect(rows.map(({ prompt_ids: ids }) => ids)).toEqual(fixtures.map(({ prompt_ids: ids }) => ids));
    const pass = await run(
      'score',
      'text.jsonl',
      ...OF_ROWS,
      '--policy',
      policy,
      '--within',
      'entropy',
      '-o',
      'none.jsonl',
    );
    expect(pass.code).not.toBe(0);
  });

  it('need no tokenizer either where they bring ids: of any vocabulary, with a text or without', async () => {
    const row = (id: string, T: number, more: object) => ({
      id,
      completion_ids: Array.from({ length: T }, (_, t) => 150_000 + t),
      segment_ends: [3, 8],
      values: [0.5, 0.25, 0.75],
      reward: 1,
      ...more,
    });
    await write('ids.jsonl', [
      row('plain', 12, {}),
      row('prompted', 12, { prompt_ids: [151_644], completion: '<think>a</think>b' }),
      row('answer too', 12, { segment_ends: [3, 8, 12] }),
      row('no answer', 8, {}),
      row('odd', 12, { segment_ends: [3] }),
      row('long', 12, { segment_ends: [3, 13] }),
      row('text', 12, { completion_ids: undefined, completion: 'text' }),
      row('characters', 12, { segment_ends: undefined, segment_char_ends: [3, 8] }),
    ]);
    const { rows, said } = await scored('ids.jsonl', '--sigma', 'rudder');
    expect(said).toContain('no policy runs: tokens are the completion_ids');
    const places = rows.map(({ id, segments }) => [id, ...segments.map(({ end, kind }) => `${kind} ${end}`)]);
    expect(places).toEqual([
      ...['plain', 'prompted', 'answer too'].map((id) => [id, 'thought 3', 'thought 8', 'answer 12']),
      ['no answer', 'thought 3', 'thought 8'],
    ]);
    expect(rows.map(({ prompt_ids: ids }) => ids)).toEqual([null, [151_644], null, null]);
    // METHOD §4 by hand: Δ = −¼, ½; R* = ½, ρ = ¼; σ_t = (Δ_k/n_k + ρ/T) / R*
    const sigma = [
      ...Array(3).fill(-1 / 12 + 1 / 48),
      ...Array(5).fill(1 / 10 + 1 / 48),
      ...Array(4).fill(1 / 48),
    ];
    for (const [t, expected] of sigma.entries()) expect(rows[0]?.sigma[t]).toBeCloseTo(2 * expected, 6);
    const rejects = await readJsonl<{ id: string; code: string; reason: string }>(
      at('ids.jsonl.2.out.jsonl.rejects.jsonl'),
    );
    expect(rejects.map(({ id, code }) => [id, code])).toEqual([
      ['odd', 'values'],
      ['long', 'segments'],
      ['text', 'empty_completion'],
      ['characters', 'segments'],
    ]);
    for (const { reason } of rejects.slice(2))
      expect(reason).toContain('--policy <the policy that wrote the traces>');
    // a policy that is named reads the ids, and finds that they are not its own
    const named = await run('score', 'ids.jsonl', ...OF_ROWS, '--policy', at('broken'), '-o', 'named.jsonl');
    expect([named.code, named.stderr]).toEqual([
      65,
      expect.stringContaining("the policy's vocabulary has 259 tokens"),
    ]);
  });
});

describe('a file that no policy has read', () => {
  it('is shared out again, shown and summed up, and refuses what rests on a pass', async () => {
    await run('score', 'text.jsonl', ...OF_ROWS, '-o', 'unread.parquet');
    const again = await run('redistribute', 'unread.parquet', '--sigma', 'rudder', '-o', 'again.jsonl');
    expect(again.code, again.stderr).toBe(0);
    const { rows } = await scored('text.jsonl', '--sigma', 'rudder');
    expect((await readJsonl<Row>(at('again.jsonl'))).map(({ sigma }) => sigma)).toEqual(
      rows.map(({ sigma }) => sigma),
    );
    for (const command of [
      ['verify'],
      ['summary'],
      ['inspect'],
      ['inspect', '--worst'],
      ['compare'],
      ['report', '-o', 'unread.html'],
    ]) {
      const [name, ...flags] = command as [string, ...string[]];
      const { code, stdout, stderr } = await run(name, 'unread.parquet', ...flags);
      expect(code, `${name}: ${stderr}`).toBe(0);
      expect(stdout, name).not.toMatch(/NaN|undefined|null/);
    }
    for (const [flags, column] of [
      ['--within entropy', 'entropies'],
      ['--within unsure', 'logprobs'],
      ['--sigma share,surprise', 'logprobs'],
      ['--steps scaled', 'logprobs'],
      ['--estimator surprise', 'logprobs'],
    ] as const) {
      const { code, stderr } = await run(
        'redistribute',
        'unread.parquet',
        ...flags.split(' '),
        '-o',
        'none.jsonl',
      );
      expect(code).toBe(2);
      expect(stderr).toContain(`unread.parquet: has no ${column}, from which`);
      expect(stderr).toContain('try: rredcot score with the same flag');
    }
  });

  it('is told from one whose log-probabilities were lost, and from one that has some', async () => {
    const { rows } = await scored('text.jsonl');
    const verified = async (change: object) => {
      await write(
        'changed.jsonl',
        rows.map((row) => ({ ...row, ...change })),
      );
      return (await run('verify', 'changed.jsonl')).stdout;
    };
    expect(await verified({ status: 'ok' })).toMatch(/logprobs is null[\s\S]*segments\[0\]\.entropy is null/);
    const some = rows[0]?.sigma.map(() => -0.5);
    expect(await verified({ logprobs: some })).toContain('logprobs is there, and status is policy:none');
  });

  it('is forecast without a run', async () => {
    const { stdout, code } = await run('score', 'text.jsonl', ...OF_ROWS, '--dry-run');
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^traces +8, from 8 rows\nrejected +0\ntokens +[\d,]+ in completions\nexits +24\ntime +no policy runs\n$/,
    );
  });
});

describe('what a credit needs of the policy', () => {
  const flags = {
    ...{ estimator: 'given', sigma: 'share', baseline: 'auto', residual: 'uniform', within: 'uniform' },
    ...{ steps: 'free', rewardRange: '0,1' },
  };
  const segments = { segmenter: 'given', fixedLength: 64 } as const;
  const ids = { completion_ids: [1], segment_ends: [1] };
  const need = (change: Record<string, unknown> = {}, first: object = ids): PolicyNeed =>
    policyNeed(
      {
        ...{ segments, exportName: undefined, columns: undefined, policy: EMBEDDED_POLICY },
        ...change,
        credit: resolveCreditOptions({ ...flags, ...(change.flags ?? {}) }),
      },
      { first: first as never, map: parseFieldMap(undefined) },
    );

  it('is nothing where rows bring ids and ends that count them, tokens where a policy is named or they do not', () => {
    expect(need()).toBe('nothing');
    expect(need({ policy: './policy' })).toBe('tokens');
    expect(need({}, { completion: 'x', segment_char_ends: [1] })).toBe('tokens');
    expect(need({}, { completion_ids: [1], segment_char_ends: [1] })).toBe('tokens');
    expect(need({}, { completion_ids: null, completion: 'x', segment_ends: [1] })).toBe('tokens');
    expect(need({ flags: { sigma: 'rudder,softmax,uniform', normalisers: 'grpo', method: 'segment' } })).toBe(
      'nothing',
    );
    expect(need({ columns: ['id', 'sigma'] })).toBe('nothing');
  });

  it.each([
    [{ flags: { estimator: 'pr' } }],
    [{ flags: { within: 'entropy' } }],
    [{ flags: { within: 'unsure' } }],
    [{ flags: { sigma: 'surprise' } }],
    [{ flags: { sigma: 'share,top-entropy' } }],
    [{ flags: { steps: 'smoothed' } }],
    [{ segments: { ...segments, segmenter: 'hybrid' } }],
    [{ segments: { ...segments, maxSegments: 5 } }],
    [{ exportName: 'tinker' }],
    [{ columns: ['id', 'entropies'] }],
  ])('is a pass where something rests on it: %j', (change) => expect(need(change)).toBe('pass'));
});
