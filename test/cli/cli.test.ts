// The command line as a user meets it: what goes wrong is said in one line with what mends it, and has its exit code.
import { chmod, cp, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import { SIGMA_RULES } from '../../dist/credit/rules.js';
import { ESTIMATORS } from '../../dist/estimate/registry.js';
import { SEGMENTERS } from '../../dist/segment/segmenters.js';
import { changePolicy } from '../support/changed-policy.js';
import {
  CHAIN,
  EMBEDDED,
  FIXTURES,
  type FixtureRow,
  goodLine as good,
  PROMPT,
  ROOT,
  rredcot,
  type ScoredRow,
} from '../support/program.js';
import { fixtureRows, GIVEN, openScene } from '../support/scene.js';

const { at, done, fails, folder, json, rows, run, text, write } = await openScene();
let fixtures: FixtureRow[];

const line = (row: Record<string, unknown>) => `${JSON.stringify(row)}\n`;
const printed = (lines: string) =>
  lines
    .trim()
    .split('\n')
    .map((each) => JSON.parse(each) as ScoredRow);

beforeAll(async () => {
  fixtures = await fixtureRows(0, 10);
});

type Reject = Record<'file' | 'code' | 'reason' | 'raw' | 'id', string> &
  Record<'row' | 'byte_offset', number>;

describe('an error in the call: exit 2, one line, what mends it', () => {
  const SCORE = `score ${FIXTURES}`;
  it.each([
    ['score nowhere.jsonl', /nowhere\.jsonl/],
    ['score .', /no file below it/],
    [
      'score https://a.org/rows.jsonl',
      /is an address that is not opened here\n {2}try: download it first, then/,
    ],
    ['scor', /scor/],
    ...[
      ['--policy nowhere', /nowhere: no such folder, expected a policy folder\n {2}try: .*policy build/],
      [
        '--policy Qwen/Qwen2.5-0.5B',
        /has to be downloaded first\n {2}try: hf download Qwen\/Qwen2\.5-0\.5B --local-dir Qwen2\.5-0\.5B .*policy build Qwen2/,
      ],
      ['--max-segment 3', /--max-segment/],
      ['--map promt=question', /promt.*\n {2}try: --map prompt=/s],
      ['--map prompt', /--map/],
      ['--max-segments ten', /--max-segments ten: expected a whole number/],
      ['--max-segments 0', /--max-segments 0/],
      ['--segmenter lines', /--segmenter lines.*\n {2}try: .*hybrid\|newline/s],
      ['--estimator mcts', /--estimator mcts: unknown choice\n/],
      [
        '--estimator calibrted',
        /calibrted: unknown choice, did you mean calibrated\?\n {2}try: --estimator auto\|/,
      ],
      ['--sigma share,ruder', /--sigma ruder: .*did you mean rudder\?/],
      ['--preset numinamath', /did you mean numinamath-cot\?/],
      ['--sigma grpo', /--sigma grpo/],
      [
        '--residual answer',
        /--residual answer has no meaning with --sigma share\n {2}try: leave it out, or take one of --sigma rudder/,
      ],
      [
        '--baseline mean',
        /--baseline mean: expected auto, group, rloo, value or a number in 0\.\.1, the scale .*\n {2}try: --baseline auto/,
      ],
      [
        '--reward-range=-1,1 --baseline=-0.2',
        /--baseline -0\.2: expected .* in 0\.\.1, the scale onto which --reward-range maps\n {2}try: --baseline auto/,
      ],
      ['--baseline NaN', /--baseline NaN/],
      ['--estimator joint --baseline value', /--baseline group/],
      ['--reward-range 1,0', /--reward-range 1,0/],
      ['--max-rejects 200%', /--max-rejects 200%/],
      ['--max-rejects 1.5', /--max-rejects 1\.5/],
      ['--fixed-length 8', /--segmenter fixed/],
      ['--max-line-bytes 0', /try: --max-line-bytes \d{6}/],
      ['-o out/ --shard 2/2', /--shard 2\/2: expected i\/n/],
      ['-o out/ --shard 0.5/2', /--shard 0\.5\/2: expected i\/n/],
      ['--time-limit 5d', /--time-limit 5d/],
    ].map(([flags, why]) => [`${SCORE} ${flags}`, why] as const),
    ...[
      [
        '-o a.parquet --format jsonl',
        /a\.parquet: the name says parquet, --format jsonl\n {2}try: leave out --format/,
      ],
      ['-o scored.csv', /scored\.csv/],
      [`-o ${EMBEDDED}`, /holds \S+ and no _run\.json/],
      ['-o a.parquet --shard 0/2', /a\.parquet is one file.*\n {2}try: -o out\//s],
      ['-o out/ --shard 1/2 --limit 5', /--limit/],
      ['-o - --format parquet', /stdout/],
    ].map(([flags, why]) => [`${SCORE} ${GIVEN} ${flags}`, why] as const),
  ] as [string, RegExp][])('%s', async (command, why) => {
    // one of them as a process
    const made = await (command.includes('nowhere.jsonl')
      ? rredcot(command.split(' '), { cwd: folder })
      : run(command));
    expect(made.code, made.stderr).toBe(2);
    expect(made.stderr).toMatch(why);
    expect(made.stderr).not.toMatch(/\n\s+at /);
    expect(made.stdout).toBe('');
  });

  it('a policy folder that lies: unreadable manifest, missing graph, other weights', async () => {
    const score = `score ${FIXTURES} --policy policy`;
    await cp(EMBEDDED, at('policy'), { recursive: true });
    await write('policy/policy.json', '{"format": 2}');
    await fails(score, 2, /policy\.json: .*format/);
    await cp(join(EMBEDDED, 'policy.json'), at('policy/policy.json'));
    await rm(at('policy/policy.onnx'));
    await fails(score, 2, /policy\.onnx/);
    await cp(join(EMBEDDED, 'policy.onnx'), at('policy/policy.onnx'));
    // weights of another training: they would load, and give other numbers than the hashes in the output say
    const weights = await readFile(join(EMBEDDED, 'model.safetensors'));
    await write('policy/model.safetensors', Buffer.from(weights).fill(0, weights.length - 2e4));
    await fails(score, 2, /model\.safetensors: is not the file that policy\.json was built with/);
    await write('policy/model.safetensors', weights);
    await changePolicy(at('policy'), 'policy.onnx', () => 'no graph');
    await fails(score, 69, /policy: ONNX Runtime cannot load/);
  });

  it.skipIf(process.getuid?.() === 0)('an input that may not be read (not as root)', async () => {
    await write('locked.jsonl', good());
    await chmod(at('locked.jsonl'), 0);
    await fails('score locked.jsonl', 2, /locked\.jsonl/);
  });
});

describe('bad rows: rejected with file, row, offset, code and reason; the others are scored', () => {
  it('one of each kind', async () => {
    const lines: [string | Buffer, code?: string][] = [
      [good({ id: 'first' })],
      ['{"prompt": "cut off\n', 'json'],
      [Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d, 0x0a]), 'utf8'],
      ['[1, 2]\n', 'json'],
      [line({ prompt: PROMPT, answer: '7' }), 'map'],
      [line({ prompt: PROMPT, completion: '', answer: '7' }), 'empty_completion'],
      [line({ prompt: '', completion: CHAIN, answer: '7' }), 'empty_prompt'],
      [line({ prompt: PROMPT, completion: CHAIN }), 'no_reference'],
      [good({ reward: 'yes' }), 'reward'],
      [good({ reward: 3 }), 'reward'],
      [good({ completion_ids: [97, 300] }), 'ids'],
      [good({ completion_ids: [97, -1] }), 'ids'],
      [good({ id: 'last', reward: 0 })],
    ];
    const input = at('mixed.jsonl');
    const bytes = lines.map(([text]) => Buffer.from(text as string));
    await write('mixed.jsonl', Buffer.concat(bytes));
    const { stderr } = await done(`score ${input} -o mixed.out.jsonl --reward-range 0,1 --estimator pr`);
    expect((await rows('mixed.out.jsonl')).map((row) => row.id)).toEqual(['first', 'last']);
    const rejects = await rows<Reject>('mixed.out.jsonl.rejects.jsonl');
    const codes = lines.flatMap(([, code], row) => (code === undefined ? [] : [[row, code]]));
    expect(rejects.map(({ row, code }) => [row, code])).toEqual(codes);
    for (const { row, code, file, reason, byte_offset: offset, raw } of rejects) {
      expect([file, offset]).toEqual([input, Buffer.concat(bytes.slice(0, row)).length]);
      expect(reason.length).toBeGreaterThan(10);
      if (code !== 'utf8') expect(`${raw}\n`).toBe(String(bytes[row]));
    }
    // the commonest reasons, each by its first row
    expect(stderr).toMatch(/rejected: 11 \(.*\)\n {2}\S+:\d+: .+\n/);
    expect(stderr).toMatch(/2 traces/);
  });

  it('an empty input is an empty file', async () => {
    await write('empty.jsonl', '');
    await done('score empty.jsonl -o empty.parquet');
    expect(await rows('empty.parquet')).toEqual([]);
  });
});

describe('score', () => {
  it('names its output after the input and says so', async () => {
    await write('traces.jsonl', good());
    const { stdout, stderr } = await done('score traces.jsonl');
    expect((await readdir(folder)).filter((name) => name.startsWith('traces.')).sort()).toEqual([
      ...['traces.jsonl', 'traces.scored.parquet', 'traces.scored.parquet.summary.json'],
    ]);
    expect(stderr).toContain('traces.scored.parquet');
    expect(stdout).toBe('');
  });

  it('maps columns, explodes lists into traces, and groups them by row', async () => {
    const generations = [
      { text: CHAIN, ok: true },
      { text: CHAIN.replaceAll('7', '5'), ok: false },
    ];
    await write('exploded.jsonl', [{ q: PROMPT, gold: 7, generations }]);
    const map = 'prompt=q,completion=generations[].text,reward=generations[].ok,reference=gold';
    await done(`score exploded.jsonl -o exploded.out.jsonl --map ${map}`);
    const found = await rows('exploded.out.jsonl');
    expect(found.map(({ id, group, reward, baseline }) => ({ id, group, reward, baseline }))).toEqual([
      { id: 'exploded:0/0', group: 'exploded:0', reward: 1, baseline: 0.5 },
      { id: 'exploded:0/1', group: 'exploded:0', reward: 0, baseline: 0.5 },
    ]);
  });

  it('warns of an input that ends too early, whatever it is written to', async () => {
    const whole = gzipSync(good().repeat(400), { level: 1 });
    await write('cut.jsonl.gz', whole.subarray(0, whole.length - 20));
    const { stderr } = await done('segment --no-policy cut.jsonl.gz -o cut.jsonl');
    expect(stderr).toMatch(/WARN: .*cut\.jsonl\.gz: .*nothing after row \d+ was read/);
  });

  it('compares answers where the reward is missing, and never guesses', async () => {
    const answered = (text: string) => CHAIN.replace('answer: 7', `answer: ${text}`);
    const completions = [...['7', '8', 'seven'].map(answered), '<think>\na: 3+4=7 top 7\n'];
    const unrewarded = completions.map((completion) => ({ prompt: PROMPT, answer: '7', completion }));
    await write('unrewarded.jsonl', unrewarded);
    const { stderr } = await done('score unrewarded.jsonl --end-token none -o unrewarded.out.jsonl');
    const scored = await rows('unrewarded.out.jsonl');
    expect(scored.map((row) => row.reward)).toEqual([1, 0, null, 0]);
    expect(scored.map((row) => row.status.split(';').find((code) => !code.startsWith('uniform')))).toEqual([
      ...['reward:compared', 'reward:compared', 'reward:unknown', 'truncated'],
    ]);
    expect(scored[3]?.segments.every((segment) => segment.kind === 'thought')).toBe(true);
    expect(stderr).toMatch(/σ uniform by fallback: .*reward:unknown 1/);
    expect(stderr).toMatch(/also in status: \(reward:compared 2, truncated 1\)/);
  });

  it('reads stdin: the same numbers, with the means of contiguous groups', async () => {
    await write('some.jsonl', fixtures);
    await done('score some.jsonl -o from-file.out.jsonl');
    const made = await rredcot(['score', '-o', 'from-stdin.out.jsonl'], {
      cwd: folder,
      stdin: await text('some.jsonl'),
    });
    expect(made.code, made.stderr).toBe(0);
    const named = (await rows('from-file.out.jsonl')).map((row) => ({ ...row, source_file: '-' }));
    // of a stream nobody knows whether a later trace has several turns: it has the mask
    const streamed = (await rows('from-stdin.out.jsonl')) as (ScoredRow & { completion_mask?: number[] })[];
    for (const { completion_mask: mask, completion_ids: ids } of streamed)
      expect(mask).toEqual(ids.map(() => 1));
    expect(streamed.map(({ completion_mask: _, ...row }) => row)).toEqual(named);
  });

  it('rejects a trace of a stream whose group had ended', async () => {
    const stream = ['g', 'g', 'h', 'g'].map((group, i) => good({ group, id: String(i) })).join('');
    await done('score - -o split.out.jsonl', stream);
    expect((await rows('split.out.jsonl')).map((row) => row.id)).toEqual(['0', '1', '2']);
    const rejects = await rows<Reject>('split.out.jsonl.rejects.jsonl');
    expect(rejects.map(({ id, code }) => [id, code])).toEqual([['3', 'group_split']]);
  });

  it('prints JSONL on demand', async () => {
    const made = await done(`score ${FIXTURES} --limit 2 -o - --format jsonl --quiet`);
    expect(made.stderr).toBe('');
    const found = printed(made.stdout);
    expect(found.map((row) => row.id)).toEqual(fixtures.slice(0, 2).map((row) => row.id));
    for (const row of found) expect(row.sigma.reduce((a, b) => a + b, 0)).toBeCloseTo(1, 5);
  });

  it('--log-json writes records, with the totals at the end', async () => {
    const { stderr } = await done(`score ${FIXTURES} --limit 2 -o log.out.jsonl --log-json`);
    expect(printed(stderr).at(-1)).toMatchObject({ msg: 'done', traces: 2, rejects: 0 });
  });
});

describe('segment', () => {
  it("prints JSONL with the policy's entropies, at most --max-segments thought segments", async () => {
    const found = printed((await done(`segment ${FIXTURES} --limit 8 --max-segments 3`)).stdout);
    expect(found.length).toBe(8);
    for (const [i, row] of found.entries()) {
      expect(row.completion_ids).toEqual(fixtures[i]?.completion_ids);
      expect(row.segments.filter((s) => s.kind === 'thought').length).toBeLessThanOrEqual(3);
      expect(row.segments.at(-1)?.end).toBe(row.completion_ids.length);
      const nats = row.segments.reduce((sum, s) => sum + s.entropy, 0);
      const all = row.entropies.reduce((a, b) => a + b, 0);
      expect(nats).toBeCloseTo(all, 3);
    }
  });

  it('--no-policy merges by length, says so, and needs no prompt', async () => {
    const completion = 'a\nbb\nccc\ndddd\n</think>\n5';
    const { stdout, stderr } = await done('segment --no-policy --max-segments 2', line({ completion }));
    expect(stderr).toMatch(/by length/);
    const [row] = printed(stdout) as [ScoredRow];
    expect(
      row.segments.map(({ kind, start, char_start, char_end }) => ({ kind, start, char_start, char_end })),
    ).toEqual([
      { kind: 'thought', start: null, char_start: 0, char_end: 9 },
      { kind: 'thought', start: null, char_start: 9, char_end: 14 },
      { kind: 'answer', start: null, char_start: 14, char_end: 24 },
    ]);
  });

  it('--map and --columns may be given in several flags', async () => {
    const flags = '--map completion=text --map group=g --columns id --columns group';
    const { stdout } = await done(`segment --no-policy ${flags}`, line({ text: 'a\nb', g: 'x' }));
    expect(printed(stdout)).toEqual([{ text: 'a\nb', g: 'x', id: 'stdin:0', group: 'x' }]);
  });

  it('says that an input has no rows', async () => {
    const { stderr } = await done('segment --no-policy');
    expect(stderr).toMatch(/no row in the input/);
    expect(stderr).not.toMatch(/first row/);
  });
});

it('--version is the package version', async () => {
  const { version } = await json(join(ROOT, 'package.json'));
  expect((await rredcot(['--version'])).stdout.trim()).toBe(version);
});

describe('-h', () => {
  it.each(['score', 'segment', 'redistribute'])(
    '%s: the common flags by purpose, each of them one of --help, on a screen',
    async (command) => {
      const [short, long] = [(await done(`${command} -h`)).stdout, (await done(`${command} --help`)).stdout];
      const flagsOf = (help: string) =>
        [...help.matchAll(/^ +(?:-\w, )?(--[a-z-]+)/gm)].map(([, flag]) => flag as string);
      const flags = flagsOf(short);
      expect(flags.length).toBeGreaterThan(8);
      expect(flags.length).toBeLessThanOrEqual(21);
      expect(flagsOf(long)).toEqual(expect.arrayContaining(flags));
      expect(short.split('\n').length).toBeLessThan(70);
      expect(short).toContain(`rredcot ${command} --help shows every flag`);
      expect(long).not.toContain('shows every flag');
    },
  );

  it('says every segmenter, estimator and rule that there is', async () => {
    const { stdout } = await done('score -h');
    const estimators = ESTIMATORS.map(({ name }) => name);
    for (const names of [SEGMENTERS, estimators, SIGMA_RULES]) expect(stdout).toContain(names.join('|'));
  });

  it('--help has the flags of the estimator that is named', async () => {
    expect((await done('score --help')).stdout).not.toContain('Of --estimator');
    const { stdout } = await done('score --estimator siblings --help');
    expect(stdout).toMatch(/^Of --estimator siblings:\n +--peers <n>/m);
    expect(stdout).not.toContain('--hint-policy');
  });
});
