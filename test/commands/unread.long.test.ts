// Values and segments of the rows' own: no policy runs, σ is what a pass gives, and what would rest on a pass asks for one.
import { copyFile, cp, readdir } from 'node:fs/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { resolveCreditOptions } from '../../dist/estimate/credit-flags.js';
import { type PolicyNeed, policyNeed } from '../../dist/estimate/ready.js';
import { parseFieldMap } from '../../dist/io/map/fields.js';
import { EMBEDDED_POLICY } from '../../dist/package-files.js';
import { changePolicy } from '../support/changed-policy.js';
import { EMBEDDED, type FixtureRow, type ScoredRow } from '../support/program.js';
import { fixtureRows, GIVEN, openScene, valued } from '../support/scene.js';

type Row = Omit<ScoredRow, 'logprobs' | 'entropies'> & {
  readonly logprobs: number[] | null;
  readonly entropies: number[] | null;
  readonly prompt_ids: number[] | null;
  readonly completion_ids: number[];
  readonly sigma_gain: number | null;
};

/** columns that a pass alone fills are named, so that there is one */
const ALL = '--columns id,prompt_ids,completion_ids,logprobs,entropies,sigma,segments,value_start,status';

const { at, done, fails, rows: rowsOf, run, text, write } = await openScene();
let fixtures: FixtureRow[];
async function scored(input: string, flags = ''): Promise<{ rows: Row[]; said: string }> {
  const output = `${input}.${flags.length}.out.jsonl`;
  const { stderr } = await done(`score ${input} ${GIVEN} --overwrite -o ${output} ${flags}`);
  await done(`verify ${output}`);
  return { rows: await rowsOf<Row>(output), said: stderr };
}

beforeAll(async () => {
  fixtures = await fixtureRows(0, 8);
  await write('text.jsonl', fixtures.map(valued));
});

describe('rows that bring values and segments', () => {
  it('are read by no policy: the same σ, values and segments as behind a pass, without what a pass says', async () => {
    const { rows, said } = await scored('text.jsonl', '--sigma rudder');
    const passed = await scored('text.jsonl', `--sigma rudder ${ALL}`);
    expect(said).toContain('no policy runs');
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
      expect([row.status, other.status]).toEqual([
        'completion:end-token;policy:none;tokens:bytes',
        'completion:end-token',
      ]);
      expect(other.logprobs?.length).toBe(row.sigma.length);
    }
  });

  it('are counted in bytes where they are text and no tokenizer was named, which everything says', async () => {
    const { said } = await scored('text.jsonl');
    const bytes = /, ([\d,]+) bytes in .*\([\d,]+ bytes\/s\)/.exec(said)?.[1];
    expect(said).toContain(
      'WARN: 8 traces have text and no token ids, and what is called a token of them is a byte',
    );
    const summary = (await done('summary text.jsonl.0.out.jsonl')).stdout;
    expect(summary).toContain(`, ${bytes} bytes\n`);
    expect(summary).toMatch(/^bytes a trace .*\n.*\nbytes a segment /m);
    expect(summary).not.toContain('tokens a');
    await done('report text.jsonl.0.out.jsonl -o bytes.html');
    expect(await text('bytes.html')).toContain(`<dt>bytes</dt><dd>${bytes}</dd>`);
    // ids are tokens, and so are a named policy's
    const ids = fixtures.map((row) => ({ ...valued(row), completion_ids: row.completion_ids }));
    await write('ids.jsonl', ids);
    const named = await scored('text.jsonl', `--policy ${EMBEDDED}/.`);
    expect((await scored('ids.jsonl')).said).toContain(' tokens in ');
    expect(named.said).toContain(' tokens in ');
  });

  it('are not called foreign by a policy that has not read them', async () => {
    const strange = fixtures.map(({ id }) => ({
      ...{ id, prompt: '¿?', completion: '<think>\n¡Ñandú, qué pingüino!</think> sí', reward: 1 },
      ...{ segment_char_ends: [12, 30], values: [0.5, 0, 1] },
    }));
    await write('strange.jsonl', strange);
    const { said } = await scored('strange.jsonl');
    expect(said).not.toContain('foreign');
    expect((await scored('strange.jsonl', ALL)).said).toContain('are foreign to the bundled');
  });

  it('need the tokenizer of a policy alone: one whose graphs are broken counts their tokens', async () => {
    await cp(EMBEDDED, at('broken'), { recursive: true });
    for (const name of (await readdir(at('broken'))).filter((file) => file.endsWith('.onnx')))
      await changePolicy(at('broken'), name, () => 'no graph');
    const { rows, said } = await scored('text.jsonl', '--policy broken');
    expect(said).toContain('no policy runs');
    // a prompt's ids are those of a policy that was named
    expect(rows.map(({ prompt_ids: ids }) => ids)).toEqual(fixtures.map(({ prompt_ids: ids }) => ids));
    expect(
      (await run(`score text.jsonl ${GIVEN} --policy broken --within entropy -o none.jsonl`)).code,
    ).not.toBe(0);
  });

  it('need no tokenizer either where they bring ids: of any vocabulary, with a text or without', async () => {
    const row = (id: string, T: number, more: object) => ({
      completion_ids: Array.from({ length: T }, (_, t) => 150_000 + t),
      ...{ id, segment_ends: [3, 8], values: [0.5, 0.25, 0.75], reward: 1, ...more },
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
    const { rows, said } = await scored('ids.jsonl', '--sigma rudder');
    expect(said).toContain('no policy runs');
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
    const rejects = await rowsOf<Record<'id' | 'code' | 'reason', string>>(
      'ids.jsonl.14.out.jsonl.rejects.jsonl',
    );
    expect(rejects.map(({ id, code }) => `${id}: ${code}`)).toEqual([
      ...['odd: values', 'long: segments', 'text: empty_completion', 'characters: segments'],
    ]);
    for (const { reason } of rejects.slice(2))
      expect(reason).toContain('--policy <the policy that wrote the traces>');
    // a policy that is named reads the ids, and finds that they are not its own
    const why = "the policy's vocabulary has 259 tokens";
    await fails(`score ids.jsonl ${GIVEN} --policy broken -o named.jsonl`, 65, why);
  });
});

describe('a file that no policy has read', () => {
  it('is shared out again, shown and summed up, and refuses what rests on a pass', async () => {
    await done(`score text.jsonl ${GIVEN} -o unread.parquet`);
    await done('redistribute unread.parquet --sigma rudder -o again.jsonl');
    const { rows } = await scored('text.jsonl', '--sigma rudder');
    expect((await rowsOf<Row>('again.jsonl')).map(({ sigma }) => sigma)).toEqual(
      rows.map(({ sigma }) => sigma),
    );
    const looks = ['verify', 'summary', 'inspect', 'inspect --worst', 'compare', 'report -o unread.html'];
    for (const command of looks) {
      const { stdout } = await done(`${command} unread.parquet`);
      expect(stdout, command).not.toMatch(/NaN|undefined|null/);
    }
    for (const [flags, column] of [
      ['--within entropy', 'entropies'],
      ['--within unsure', 'logprobs'],
      ['--sigma share,surprise', 'logprobs'],
      ['--steps scaled', 'logprobs'],
      ['--estimator surprise', 'logprobs'],
    ] as const) {
      const why = `unread.parquet: has no ${column}, from which`;
      const { stderr } = await fails(`redistribute unread.parquet ${flags} -o none.jsonl`, 2, why);
      expect(stderr).toContain('try: rredcot score with the same flag');
    }
  });

  it('is told from one whose log-probabilities were lost, and from one that has some', async () => {
    const { rows } = await scored('text.jsonl');
    await copyFile(at('text.jsonl.0.out.jsonl.summary.json'), at('changed.jsonl.summary.json'));
    const verified = async (change: object) => {
      const changed = rows.map((row) => ({ ...row, ...change }));
      await write('changed.jsonl', changed);
      return (await run('verify changed.jsonl')).stdout;
    };
    expect(await verified({ status: 'ok' })).toMatch(/logprobs is null[\s\S]*segments\[0\]\.entropy is null/);
    const some = rows[0]?.sigma.map(() => -0.5);
    expect(await verified({ logprobs: some })).toContain(
      'logprobs is there, and status is completion:end-token;policy:none',
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
  const need = (change: Record<string, unknown> = {}, first: object = ids, map?: string): PolicyNeed =>
    policyNeed(
      {
        ...{ segments, columns: undefined, policy: EMBEDDED_POLICY },
        ...change,
        credit: resolveCreditOptions({ ...flags, ...(change.flags ?? {}) }),
      },
      { first: first as never, map: parseFieldMap(map) },
    );

  it.each([
    [{ flags: { estimator: 'pr' } }],
    [{ flags: { within: 'entropy' } }],
    [{ flags: { within: 'unsure' } }],
    [{ flags: { sigma: 'surprise' } }],
    [{ flags: { sigma: 'share,top-entropy' } }],
    [{ flags: { steps: 'smoothed' } }],
    [{ segments: { ...segments, segmenter: 'hybrid' } }],
    [{ segments: { ...segments, maxSegments: 5 } }],
    [{ columns: ['id', 'entropies'] }],
  ])('is a pass where something rests on it: %j', (change) => expect(need(change)).toBe('pass'));
});
