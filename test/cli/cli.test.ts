// The command line as a user meets it: what goes wrong is said in one line with what mends it, and has its exit code.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import { rredcotHere } from '../support/in-process.js';
import {
  CHAIN,
  EMBEDDED,
  FIXTURES,
  type FixtureRow,
  goodLine as good,
  PROMPT,
  ROOT,
  readJsonl,
  readScored,
  rredcot,
  type ScoredRow,
  temporaryFolder,
} from '../support/program.js';

let folder: string;
let fixtures: FixtureRow[];

const line = (row: Record<string, unknown>) => `${JSON.stringify(row)}\n`;

beforeAll(async () => {
  folder = await temporaryFolder();
  fixtures = await readJsonl<FixtureRow>(FIXTURES);
});

async function file(name: string, content: string | Buffer): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, content);
  return path;
}

interface Reject {
  readonly file: string;
  readonly row: number;
  readonly byte_offset: number;
  readonly code: string;
  readonly reason: string;
  readonly raw: string;
  readonly id?: string;
}

describe('an error in the call: exit 2, one line, what mends it', () => {
  it.each([
    ['missing input', ['score', 'nowhere.jsonl'], /nowhere\.jsonl/],
    ['input is a folder', ['score', '.'], /folder/],
    [
      'policy folder missing',
      ['score', FIXTURES, '--policy', 'nowhere'],
      /nowhere: no such folder, expected a policy folder\n {2}try: .*policy build/,
    ],
    [
      'policy by its name on the Hub',
      ['score', FIXTURES, '--policy', 'Qwen/Qwen2.5-0.5B'],
      /opens no connection\n {2}try: hf download Qwen\/Qwen2\.5-0\.5B --local-dir Qwen2\.5-0\.5B .*policy build Qwen2/,
    ],
    [
      'input elsewhere',
      ['score', 's3://bucket/rows.jsonl'],
      /is an address, and rredcot opens no connection\n {2}try: .*aws s3 cp s3:\/\/bucket\/rows\.jsonl \./,
    ],
    ['unknown flag', ['score', FIXTURES, '--max-segment', '3'], /--max-segment/],
    ['unknown command', ['scor'], /scor/],
    [
      'unknown field in --map',
      ['score', FIXTURES, '--map', 'promt=question'],
      /promt.*\n {2}try: --map prompt=/s,
    ],
    ['malformed --map', ['score', FIXTURES, '--map', 'prompt'], /--map/],
    [
      'bad number',
      ['score', FIXTURES, '--max-segments', 'ten'],
      /--max-segments ten: expected a whole number/,
    ],
    ['zero segments', ['score', FIXTURES, '--max-segments', '0'], /--max-segments 0/],
    [
      'unknown segmenter',
      ['score', FIXTURES, '--segmenter', 'lines'],
      /--segmenter lines.*\n {2}try: .*hybrid\|newline/s,
    ],
    ['unknown estimator', ['score', FIXTURES, '--estimator', 'mcts'], /--estimator mcts: unknown choice\n/],
    [
      'misspelled estimator',
      ['score', FIXTURES, '--estimator', 'calibrted'],
      /--estimator calibrted: unknown choice, did you mean calibrated\?\n {2}try: --estimator pr\|/,
    ],
    [
      'misspelled rule',
      ['score', FIXTURES, '--sigma', 'share,ruder'],
      /--sigma ruder: .*did you mean rudder\?/,
    ],
    ['misspelled preset', ['score', FIXTURES, '--preset', 'numinamath'], /did you mean numinamath-cot\?/],
    ['unknown rule', ['score', FIXTURES, '--sigma', 'grpo'], /--sigma grpo/],
    [
      'a residual of a rule that leaves none',
      ['score', FIXTURES, '--residual', 'answer'],
      /--residual answer: --sigma share leaves no residual\n {2}try: add --sigma rudder/,
    ],
    [
      'labels of a rule without signs',
      ['score', FIXTURES, '--export', 'prm'],
      /--export prm labels steps by the sign of σ.*--sigma share.*\n {2}try: add --sigma rudder/,
    ],
    [
      'baseline',
      ['score', FIXTURES, '--baseline', 'mean'],
      /--baseline mean: expected auto, group, value or a number in 0\.\.1, the scale .*\n {2}try: --baseline auto/,
    ],
    [
      'baseline off the scale',
      ['score', FIXTURES, '--reward-range=-1,1', '--baseline=-0.2'],
      /--baseline -0\.2: expected .* in 0\.\.1, the scale onto which --reward-range maps\n {2}try: --baseline auto/,
    ],
    ['baseline not finite', ['score', FIXTURES, '--baseline', 'NaN'], /--baseline NaN/],
    [
      'joint without a group baseline',
      ['score', FIXTURES, '--estimator', 'joint', '--baseline', 'value'],
      /--baseline group/,
    ],
    ['reward range', ['score', FIXTURES, '--reward-range', '1,0'], /--reward-range 1,0/],
    ['max rejects', ['score', FIXTURES, '--max-rejects', '200%'], /--max-rejects 200%/],
    ['fixed length without fixed', ['score', FIXTURES, '--fixed-length', '8'], /--segmenter fixed/],
    [
      'a name and a format that differ',
      ['score', FIXTURES, '-o', 'a.parquet', '--format', 'jsonl'],
      /a\.parquet: the name says parquet, --format jsonl\n {2}try: leave out --format/,
    ],
    ['no workers', ['segment', FIXTURES, '--workers', '0'], /--workers 0: .*\n {2}try: --workers 2\n/],
    [
      'a device of several',
      ['segment', FIXTURES, '--devices', 'cpu,tpu'],
      /--devices tpu: .*\n {2}try: --devices auto\n/,
    ],
    ['a short line limit', ['score', FIXTURES, '--max-line-bytes', '0'], /try: --max-line-bytes \d{6}/],
    ['unknown format of the output', ['score', FIXTURES, '-o', 'scored.csv'], /scored\.csv/],
    [
      'a folder of other things as output',
      ['score', FIXTURES, '-o', EMBEDDED],
      /holds other files and no run\.json/,
    ],
    [
      'a shard of one file',
      ['score', FIXTURES, '-o', 'a.parquet', '--shard', '0/2'],
      /a\.parquet is one file.*\n {2}try: -o out\//s,
    ],
    ['no such shard', ['score', FIXTURES, '-o', 'out/', '--shard', '2/2'], /--shard 2\/2/],
    ['a limit on shards', ['score', FIXTURES, '-o', 'out/', '--shard', '1/2', '--limit', '5'], /--limit/],
    ['a time limit without sense', ['score', FIXTURES, '--time-limit', '5d'], /--time-limit 5d/],
    ['Parquet on stdout', ['score', FIXTURES, '-o', '-', '--format', 'parquet'], /stdout/],
  ])('%s', async (what, args, message) => {
    // one of them as a process
    const run = await (what === 'missing input' ? rredcot : rredcotHere)(args, { cwd: folder });
    expect(run.code, run.stderr).toBe(2);
    expect(run.stderr).toMatch(message);
    expect(run.stderr).not.toMatch(/\n\s+at /);
    expect(run.stdout).toBe('');
  });

  it('a policy folder that lies: unreadable manifest, missing graph, other weights', async () => {
    const policy = join(folder, 'policy');
    await mkdir(policy, { recursive: true });
    await writeFile(join(policy, 'policy.json'), '{"format": 2}');
    let run = await rredcotHere(['score', FIXTURES, '--policy', policy], { cwd: folder });
    expect(run.code).toBe(2);
    expect(run.stderr).toMatch(/policy\.json: .*format/);
    await writeFile(join(policy, 'policy.json'), await readFile(join(EMBEDDED, 'policy.json')));
    run = await rredcotHere(['score', FIXTURES, '--policy', policy], { cwd: folder });
    expect(run.code).toBe(2);
    expect(run.stderr).toMatch(/policy\.onnx/);
    for (const name of await readdir(EMBEDDED))
      await writeFile(join(policy, name), await readFile(join(EMBEDDED, name)));
    // weights of another training: they would load, and give other numbers than the hashes in the output say
    const weights = await readFile(join(EMBEDDED, 'model.safetensors'));
    await writeFile(join(policy, 'model.safetensors'), Buffer.from(weights).fill(0, weights.length - 2e4));
    run = await rredcotHere(['score', FIXTURES, '--policy', policy], { cwd: folder });
    expect(run.code, run.stderr).toBe(2);
    expect(run.stderr).toMatch(/model\.safetensors: is not the file that policy\.json was built with/);
    await writeFile(join(policy, 'model.safetensors'), weights);
    await writeFile(join(policy, 'policy.onnx'), 'no graph');
    const manifest = JSON.parse(await readFile(join(policy, 'policy.json'), 'utf8'));
    manifest.files['policy.onnx'] = createHash('sha256').update('no graph').digest('hex');
    await writeFile(join(policy, 'policy.json'), JSON.stringify(manifest));
    run = await rredcotHere(['score', FIXTURES, '--policy', policy], { cwd: folder });
    expect(run.code, run.stderr).toBe(69);
    expect(run.stderr).toMatch(/policy: ONNX Runtime cannot load/);
  });

  it.skipIf(process.getuid?.() === 0)('an input that may not be read (not as root)', async () => {
    const path = await file('locked.jsonl', good());
    await chmod(path, 0);
    const run = await rredcotHere(['score', path], { cwd: folder });
    expect(run.code).toBe(2);
    expect(run.stderr).toMatch(/locked\.jsonl/);
  });
});

describe('bad rows: set aside with file, row, offset, code and reason; the others are scored', () => {
  it('one of each kind', async () => {
    const lines: (string | Buffer)[] = [
      good({ id: 'first' }),
      '{"prompt": "cut off\n',
      Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d, 0x0a]),
      '[1, 2]\n',
      line({ prompt: PROMPT, answer: '7' }),
      line({ prompt: PROMPT, completion: '', answer: '7' }),
      line({ prompt: '', completion: CHAIN, answer: '7' }),
      line({ prompt: PROMPT, completion: CHAIN }),
      good({ reward: 'yes' }),
      good({ reward: 3 }),
      good({ completion_ids: [97, 300] }),
      good({ completion_ids: [97, -1] }),
      good({ id: 'last', reward: 0 }),
    ];
    const input = await file('mixed.jsonl', Buffer.concat(lines.map((l) => Buffer.from(l as string))));
    const out = join(folder, 'mixed.parquet');
    const run = await rredcot(['score', input, '-o', out, '--reward-range', '0,1'], { cwd: folder });
    expect(run.code, run.stderr).toBe(0);
    expect((await readScored(out)).map((row) => row.id)).toEqual(['first', 'last']);
    const rejects = await readJsonl<Reject>(`${out}.rejects.jsonl`);
    expect(rejects.map(({ row, code }) => [row, code])).toEqual([
      [1, 'json'],
      [2, 'utf8'],
      [3, 'json'],
      [4, 'map'],
      [5, 'empty_completion'],
      [6, 'empty_prompt'],
      [7, 'no_reference'],
      [8, 'reward'],
      [9, 'reward'],
      [10, 'ids'],
      [11, 'ids'],
    ]);
    let offset = 0;
    for (const [row, bytes] of lines.map((l) => Buffer.from(l as string)).entries()) {
      const reject = rejects.find((r) => r.row === row);
      if (reject !== undefined) {
        expect(reject.byte_offset).toBe(offset);
        expect(reject.file).toBe(input);
        expect(reject.reason.length).toBeGreaterThan(10);
        if (reject.code !== 'utf8') expect(`${reject.raw}\n`).toBe(bytes.toString());
      }
      offset += bytes.length;
    }
    // the commonest reasons, each by its first row
    expect(run.stderr).toMatch(/rejected: 11 \(.*\)\n {2}\S+:\d+: .+\n/);
    expect(run.stderr).toMatch(/2 traces/);
  });

  it('--max-rejects: a number stops at once, a share at the end, both exit 65 and write no output', async () => {
    const input = await file('half.jsonl', `${good()}{\n${good()}{\n${good()}`);
    for (const [limit, code] of [
      ['0', 65],
      ['1', 65],
      ['2', 0],
      ['39%', 65],
      ['40%', 0],
    ] as const) {
      const out = join(folder, `half-${limit}.parquet`);
      const run = await rredcotHere(['score', input, '-o', out, '--max-rejects', limit], { cwd: folder });
      expect(run.code, `${limit}: ${run.stderr}`).toBe(code);
      const dry = await rredcotHere(['score', input, '--dry-run', '--max-rejects', limit], { cwd: folder });
      expect(dry.code, `${limit}: ${dry.stderr}`).toBe(code);
      if (code !== 0) expect(dry.stderr).toContain('rejected, --max-rejects allows');
      const names = await readdir(folder);
      expect(names.includes(`half-${limit}.parquet`)).toBe(code === 0);
      expect(names.includes(`half-${limit}.parquet.rejects.jsonl`)).toBe(true);
    }
    const left = (await readdir(folder)).filter((name) => name.startsWith('.') || name.endsWith('.tmp'));
    expect(left).toEqual([]);
  });

  it('a run that rejects everything fails with 65', async () => {
    const input = await file('none.jsonl', line({ question: 'a', solution: 'b' }));
    const run = await rredcotHere(['score', input, '-o', join(folder, 'none.parquet')], { cwd: folder });
    expect(run.code).toBe(65);
    const [reject] = await readJsonl<Reject>(join(folder, 'none.parquet.rejects.jsonl'));
    expect(reject?.reason).toMatch(/question.*--map completion=<path>/s);
  });

  it('an empty input is an empty file', async () => {
    const out = join(folder, 'empty.parquet');
    const run = await rredcotHere(['score', await file('empty.jsonl', ''), '-o', out], { cwd: folder });
    expect(run.code, run.stderr).toBe(0);
    expect(await readScored(out)).toEqual([]);
  });
});

describe('score', () => {
  it('names its output after the input and says so', async () => {
    const cwd = await temporaryFolder();
    const run = await rredcotHere(['score', await file('traces.jsonl', good())], { cwd });
    expect(run.code, run.stderr).toBe(0);
    expect((await readdir(cwd)).sort()).toEqual([
      'traces.scored.parquet',
      'traces.scored.parquet.summary.json',
    ]);
    expect(run.stderr).toContain('traces.scored.parquet');
    expect(run.stdout).toBe('');
  });

  it('maps columns, explodes lists into traces, and groups them by row', async () => {
    const row = {
      q: PROMPT,
      gold: 7,
      generations: [
        { text: CHAIN, ok: true },
        { text: CHAIN.replaceAll('7', '5'), ok: false },
      ],
    };
    const input = await file('exploded.jsonl', line(row));
    const out = join(folder, 'exploded.parquet');
    const map = 'prompt=q,completion=generations[].text,reward=generations[].ok,reference=gold';
    const run = await rredcotHere(['score', input, '-o', out, '--map', map], { cwd: folder });
    expect(run.code, run.stderr).toBe(0);
    const rows = await readScored(out);
    expect(rows.map(({ id, group, reward, baseline }) => ({ id, group, reward, baseline }))).toEqual([
      { id: 'exploded:0/0', group: 'exploded:0', reward: 1, baseline: 0.5 },
      { id: 'exploded:0/1', group: 'exploded:0', reward: 0, baseline: 0.5 },
    ]);
  });

  it('warns of an input that ends too early, whatever it is written to', async () => {
    const whole = gzipSync(good().repeat(400), { level: 1 });
    const input = await file('cut.jsonl.gz', whole.subarray(0, whole.length - 20));
    const run = await rredcotHere(['segment', '--no-policy', input, '-o', join(folder, 'cut.jsonl')], {
      cwd: folder,
    });
    expect(run.code, run.stderr).toBe(0);
    expect(run.stderr).toMatch(/WARN: .*cut\.jsonl\.gz: .*nothing after row \d+ was read/);
  });

  it('compares answers where the reward is missing, and never guesses', async () => {
    const answered = (text: string) => CHAIN.replace('answer: 7', `answer: ${text}`);
    const rows = [
      { completion: answered('7') },
      { completion: answered('8') },
      { completion: answered('seven') },
      { completion: '<think>\na: 3+4=7 top 7\n' },
    ];
    const input = await file(
      'unrewarded.jsonl',
      rows.map((row) => line({ prompt: PROMPT, answer: '7', ...row })).join(''),
    );
    const out = join(folder, 'unrewarded.parquet');
    const run = await rredcotHere(['score', input, '-o', out], { cwd: folder });
    expect(run.code, run.stderr).toBe(0);
    const scored = await readScored(out);
    expect(scored.map((row) => row.reward)).toEqual([1, 0, null, 0]);
    expect(scored.map((row) => row.status.split(';').find((code) => !code.startsWith('uniform')))).toEqual([
      'reward:compared',
      'reward:compared',
      'reward:unknown',
      'truncated',
    ]);
    expect(scored[3]?.segments.every((segment) => segment.kind === 'thought')).toBe(true);
    expect(run.stderr).toMatch(/σ uniform by fallback: .*reward:unknown 1/);
    expect(run.stderr).toMatch(/also in status: \(reward:compared 2, truncated 1\)/);
  });

  it('keeps ids that disagree with the text, and says so', async () => {
    const out = join(folder, 'mismatch.parquet');
    const input = await file(
      'mismatch.jsonl',
      good({ completion: 'another text', completion_ids: [...Buffer.from('abc\nd')] }),
    );
    const run = await rredcotHere(['score', input, '-o', out], { cwd: folder });
    expect(run.code, run.stderr).toBe(0);
    const [row] = (await readScored(out)) as [ScoredRow];
    expect(row.completion_ids).toEqual([...Buffer.from('abc\nd')]);
    expect(row.status).toMatch(/ids:text-mismatch/);
    expect(row.segments.map(({ start, end, char_start }) => ({ start, end, char_start }))).toEqual([
      { start: 0, end: 4, char_start: null },
      { start: 4, end: 5, char_start: null },
    ]);
  });

  it('uses segment ends from a column, in tokens or characters', async () => {
    const completion = 'é1\nxy</think>\nanswer: 7\n';
    const input = await file(
      'given.jsonl',
      good({ completion, segment_char_ends: [1, 4] }) +
        good({ completion, segment_ends: [2, 5] }) +
        good({ completion }) +
        good({ completion, segment_ends: [3, 2] }),
    );
    const out = join(folder, 'given.parquet');
    const run = await rredcotHere(['score', input, '-o', out, '--segmenter', 'given'], { cwd: folder });
    expect(run.code, run.stderr).toBe(0);
    const ends = (await readScored(out)).map((row) => row.segments.map((segment) => segment.char_end));
    expect(ends).toEqual([
      [1, 4, 5, 24],
      [1, 4, 5, 24],
    ]);
    expect((await readJsonl<Reject>(`${out}.rejects.jsonl`)).map((r) => r.code)).toEqual([
      'segments',
      'segments',
    ]);
  });

  it('--limit takes the first traces', async () => {
    const out = join(folder, 'limited.parquet');
    const run = await rredcotHere(['score', FIXTURES, '--limit', '3', '-o', out], { cwd: folder });
    expect(run.code, run.stderr).toBe(0);
    expect((await readScored(out)).map((row) => row.id)).toEqual(fixtures.slice(0, 3).map((row) => row.id));
  });

  it('reads stdin: the same numbers, with the means of contiguous groups', async () => {
    const lines = (await readFile(FIXTURES, 'utf8')).split('\n').slice(0, 24).join('\n');
    const input = await file('some.jsonl', lines);
    const [a, b] = [join(folder, 'from-file.parquet'), join(folder, 'from-stdin.parquet')];
    expect((await rredcotHere(['score', input, '-o', a], { cwd: folder })).code).toBe(0);
    const run = await rredcot(['score', '-o', b], { cwd: folder, stdin: lines });
    expect(run.code, run.stderr).toBe(0);
    const named = (await readScored(a)).map((row) => ({ ...row, source_file: '-' }));
    expect(await readScored(b)).toEqual(named);
  });

  it('turns down a trace of a stream whose group had ended', async () => {
    const rows = ['g', 'g', 'h', 'g'].map((group, i) => good({ group, id: String(i) })).join('');
    const out = join(folder, 'split.parquet');
    const run = await rredcotHere(['score', '-', '-o', out], { cwd: folder, stdin: rows });
    expect(run.code, run.stderr).toBe(0);
    expect((await readScored(out)).map((row) => row.id)).toEqual(['0', '1', '2']);
    expect((await readJsonl<Reject>(`${out}.rejects.jsonl`)).map(({ id, code }) => [id, code])).toEqual([
      ['3', 'group_split'],
    ]);
  });

  it('prints JSONL on demand; a reader that leaves ends it quietly', async () => {
    const run = await rredcotHere(
      ['score', FIXTURES, '--limit', '2', '-o', '-', '--format', 'jsonl', '--quiet'],
      { cwd: folder },
    );
    expect(run.code).toBe(0);
    expect(run.stderr).toBe('');
    const rows = run.stdout
      .trim()
      .split('\n')
      .map((text) => JSON.parse(text) as ScoredRow);
    expect(rows.map((row) => row.id)).toEqual(fixtures.slice(0, 2).map((row) => row.id));
    for (const row of rows) expect(row.sigma.reduce((a, b) => a + b, 0)).toBeCloseTo(1, 5);

    const head = spawn('bash', [
      '-o',
      'pipefail',
      '-c',
      `node ${join(ROOT, 'bin/rredcot.js')} score ${FIXTURES} -o - --format jsonl | head -n 1 >/dev/null`,
    ]);
    let stderr = '';
    head.stderr.on('data', (chunk) => {
      stderr += chunk;
    });
    const code = await new Promise((resolve) => head.on('close', resolve));
    expect(stderr).not.toMatch(/EPIPE|bug|Error/);
    expect(code).toBe(0);
  });

  it('--log-json writes records, with the totals at the end', async () => {
    const run = await rredcotHere(
      ['score', FIXTURES, '--limit', '2', '-o', join(folder, 'log.parquet'), '--log-json'],
      { cwd: folder },
    );
    const records = run.stderr
      .trim()
      .split('\n')
      .map((text) => JSON.parse(text) as Record<string, unknown>);
    expect(records.at(-1)).toMatchObject({ msg: 'done', traces: 2, rejects: 0 });
  });
});

describe('segment', () => {
  it("prints JSONL with the policy's entropies, at most --max-segments thought segments", async () => {
    const run = await rredcotHere(['segment', FIXTURES, '--limit', '8', '--max-segments', '3'], {
      cwd: folder,
    });
    expect(run.code, run.stderr).toBe(0);
    const rows = run.stdout
      .trim()
      .split('\n')
      .map((text) => JSON.parse(text) as ScoredRow);
    expect(rows.length).toBe(8);
    for (const [i, row] of rows.entries()) {
      expect(row.completion_ids).toEqual(fixtures[i]?.completion_ids);
      expect(row.segments.filter((s) => s.kind === 'thought').length).toBeLessThanOrEqual(3);
      expect(row.segments.at(-1)?.end).toBe(row.completion_ids.length);
      const nats = row.segments.reduce((sum, s) => sum + s.entropy, 0);
      expect(nats).toBeCloseTo(
        row.entropies.reduce((a, b) => a + b, 0),
        3,
      );
    }
  });

  it('--no-policy merges by length, says so, and needs no prompt', async () => {
    const completion = 'a\nbb\nccc\ndddd\n</think>\n5';
    const run = await rredcotHere(['segment', '--no-policy', '--max-segments', '2'], {
      cwd: folder,
      stdin: line({ completion }),
    });
    expect(run.code, run.stderr).toBe(0);
    expect(run.stderr).toMatch(/by length/);
    const row = JSON.parse(run.stdout) as ScoredRow;
    expect(
      row.segments.map(({ kind, start, char_start, char_end }) => ({ kind, start, char_start, char_end })),
    ).toEqual([
      { kind: 'thought', start: null, char_start: 0, char_end: 9 },
      { kind: 'thought', start: null, char_start: 9, char_end: 14 },
      { kind: 'answer', start: null, char_start: 14, char_end: 24 },
    ]);
  });

  it('--map and --columns may be given in several flags', async () => {
    const maps = ['--map', 'completion=text', '--map', 'group=g'];
    const columns = ['--columns', 'id', '--columns', 'group'];
    const run = await rredcotHere(['segment', '--no-policy', ...maps, ...columns], {
      cwd: folder,
      stdin: line({ text: 'a\nb', g: 'x' }),
    });
    expect(run.code, run.stderr).toBe(0);
    expect(JSON.parse(run.stdout)).toEqual({ text: 'a\nb', g: 'x', id: 'stdin:0', group: 'x' });
  });

  it('says that an input has no rows', async () => {
    const run = await rredcotHere(['segment', '--no-policy'], { cwd: folder });
    expect(run.code, run.stderr).toBe(0);
    expect(run.stderr).toMatch(/no row in the input/);
    expect(run.stderr).not.toMatch(/first row/);
  });

  it.each([
    ['newline', [], [2, 5, 8, 26]],
    ['fixed', ['--fixed-length', '4'], [4, 8, 26]],
  ] as const)('--segmenter %s', async (segmenter, flags, ends) => {
    const completion = 'a\nbb\n𝒳c\n</think>\nanswer: 5';
    const run = await rredcotHere(['segment', '--no-policy', '--segmenter', segmenter, ...flags], {
      cwd: folder,
      stdin: line({ completion }),
    });
    expect(run.code, run.stderr).toBe(0);
    const row = JSON.parse(run.stdout) as ScoredRow;
    expect(row.segments.map((s) => s.char_end)).toEqual(ends);
  });
});

describe('help and version', () => {
  it.each([[['--help']], [['score', '--help']], [['segment', '--help']], [['policy', 'build', '--help']]])(
    '%j',
    async (args) => {
      const run = await rredcotHere(args);
      expect(run.code).toBe(0);
      expect(run.stdout).toMatch(/Usage: rredcot/);
      if (args.length > 1) expect(run.stdout).toMatch(/Example:\n {2}rredcot /);
    },
  );

  it('--version is the package version', async () => {
    const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as { version: string };
    expect((await rredcot(['--version'])).stdout.trim()).toBe(version);
  });
});

describe('-h', () => {
  it.each(['score', 'segment', 'sample', 'redistribute'])(
    '%s: the common flags by purpose, each of them one of --help, on a screen',
    async (command) => {
      const [short, long] = [await rredcotHere([command, '-h']), await rredcotHere([command, '--help'])];
      const flagsOf = (text: string) =>
        [...text.matchAll(/^ +(?:-\w, )?(--[a-z-]+)/gm)].map(([, flag]) => flag as string);
      const flags = flagsOf(short.stdout);
      expect(flags.length).toBeGreaterThan(8);
      expect(flags.length).toBeLessThanOrEqual(21);
      expect(flagsOf(long.stdout)).toEqual(expect.arrayContaining(flags));
      expect(short.stdout.split('\n').length).toBeLessThan(70);
      expect(short.stdout).toContain(`rredcot ${command} --help shows every flag`);
      expect(long.stdout).not.toContain('shows every flag');
    },
  );

  it('--help has the flags of an estimator under its name', async () => {
    const { stdout } = await rredcotHere(['score', '--help']);
    expect(stdout).toMatch(/^Of --estimator siblings:\n +--mates <n>/m);
    expect(stdout).toMatch(/^Of --estimator mc, mc-truncated:\n +--mc-samples <n>/m);
  });
});
