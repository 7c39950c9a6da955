// The measurements: `node bench/cases.mjs <case> [--quick]` prints one of them as JSON, {name, value, unit, reach?}[]. What can be is a ratio of things measured in turn.
import { execFileSync } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';
import {
  HALF_B,
  inTwoRuns,
  JOB,
  openRandom,
  randomPolicy,
  SMALL,
  tokensOf,
  traceOf,
  valueJob,
} from './checkpoint.mjs';
import { childTime, interleaved, median, PROGRAM, processorTime, ran } from './measure.mjs';

const EMBEDDED = fileURLToPath(new URL('../models/embedded', import.meta.url));
const FIXTURES = fileURLToPath(new URL('../fixtures/chains.jsonl', import.meta.url));
const [wanted, ...rest] = process.argv.slice(2);
const isQuick = rest.includes('--quick');
const rounds = (n) => (isQuick ? 1 : n);
const result = (name, value, unit, reach) => ({ name, value, unit, ...(reach && { reach }) });
const secondsOf = async (run) => {
  const start = performance.now();
  await run();
  return (performance.now() - start) / 1000;
};

async function inFolder(use) {
  const folder = await mkdtemp(join(tmpdir(), 'rredcot-bench-'));
  try {
    return await use((name) => join(folder, name));
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Processor time of a start: of help, and of one trace scored, beside a Node that does nothing. */
const start = () =>
  inFolder(async (at) => {
    await writeFile(at('one.jsonl'), `${(await readFile(FIXTURES, 'utf8')).split('\n')[0]}\n`);
    const time = (...args) => childTime(args, isQuick ? 3 : 10);
    const nothing = time('-e', '0');
    const score = time(PROGRAM, 'score', at('one.jsonl'), '-o', at('out.jsonl'), '--overwrite', '--quiet');
    return [
      result('rredcot --help / node -e 0, processor time', time(PROGRAM, '--help') / nothing, '×', '<=1.6'),
      result('rredcot score of one trace / node -e 0, processor time', score / nothing, '×'),
      result('rredcot score of one trace, processor time', score, 's', '<=0.9'),
    ];
  });

/** Opening a policy whose weights are bfloat16 and widened at load, beside float32. */
async function open() {
  const { openPolicyFolder } = await import('../dist/model/onnx/folder.js');
  const { ModelSession } = await import('../dist/model/onnx/session.js');
  const [folder] = rest.filter((word) => word !== '--quick');
  if (folder !== undefined) {
    const before = processorTime();
    await ModelSession.open(await openPolicyFolder(folder));
    return [
      result('ms', processorTime() - before, 'ms'),
      result('KiB', process.resourceUsage().maxRSS, 'KiB'),
    ];
  }
  const shape = isQuick ? SMALL : HALF_B;
  const least = {};
  for (const dtype of ['F32', 'BF16'])
    await randomPolicy(join(tmpdir(), `rredcot-bench-open-${dtype}`), shape, dtype);
  for (let round = 0; round < rounds(3); round++)
    for (const dtype of ['F32', 'BF16']) {
      const args = [fileURLToPath(import.meta.url), 'open', join(tmpdir(), `rredcot-bench-open-${dtype}`)];
      const found = JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' })).map(
        ({ value }) => value,
      );
      if (!(least[dtype]?.[0] <= found[0])) least[dtype] = found;
    }
  return [
    result('opening bfloat16 / float32, shape of Qwen2.5-0.5B', least.BF16[0] / least.F32[0], '×', '<=1.5'),
    result('… peak memory', least.BF16[1] / least.F32[1], '×'),
  ];
}

/** All exit points of a trace against a bare pass over it, and against every prefix encoded again. */
async function exits() {
  const session = await openRandom('small');
  const tokens = tokensOf(SMALL.vocab_size, 7);
  const { K, A, scored } = JOB;
  const results = [];
  for (const T of isQuick ? [2048, 4096] : [2048, 4096, 8192, 16_384]) {
    const trace = traceOf(T, tokens);
    const ms = await interleaved(
      {
        bare: () => session.run([{ ...trace, branches: [] }]),
        one: () => session.run([trace]),
        two: () => inTwoRuns(session, trace),
      },
      rounds(7),
    );
    const bound = 1 + (K * A) / T;
    const name = (how) => `all exits / bare pass, ${how}, T=${T}, relative to the bound ${bound.toFixed(3)}`;
    results.push(result(name('one run'), ms.one / ms.bare / bound, '×', '<=1.05'));
    results.push(result(name('two runs'), ms.two / ms.bare / bound, '×', '<=1.08'));
    if (T !== 4096) continue;
    const naive = await secondsOf(async () => {
      for (const { exit, ids } of trace.branches) {
        const prefix = Int32Array.of(...trace.ids.subarray(0, exit), ...ids);
        await session.run([{ ids: prefix, promptLength: exit + A - scored, branches: [] }]);
      }
    });
    results.push(result('40 prefixes encoded again / ours, T=4096', (1000 * naive) / ms.one, '×', '>=9'));
  }
  await session.close();
  return results;
}

/** The largest trace that must fit. */
async function long() {
  const shape = { ...SMALL, vocab_size: 151_936 };
  const session = await openRandom('wide', shape);
  const trace = traceOf(isQuick ? 4096 : 25_000, tokensOf(shape.vocab_size, 13));
  const seconds = await secondsOf(() => session.run([trace]));
  await session.close();
  const what = `T=${trace.ids.length}, 40 exits, V=151,936`;
  return [
    result(`peak RSS, ${what}`, process.resourceUsage().maxRSS / 1024, 'MiB', '<=1500'),
    result(`time, ${what}`, seconds, 's'),
  ];
}

/** What it saves that logits never leave the graph: a pass that reads out every row, beside one that reads out none, and the logits' own size. */
async function head() {
  const T = 4096;
  const shape = { ...SMALL, vocab_size: 151_936 };
  const session = await openRandom('wide', shape);
  const ids = tokensOf(shape.vocab_size, 3)(T);
  const pass = (promptLength) => () => session.run([{ ids, promptLength, branches: [] }]);
  const ms = await interleaved({ all: pass(1), none: pass(T - 1) }, rounds(3));
  await session.close();
  const rss = process.resourceUsage().maxRSS / 1024;
  return [
    result('a pass that reads out all of 4,096 rows / the last alone, V=151,936', ms.all / ms.none, '×'),
    result('… its peak RSS', rss, 'MiB'),
    result("… the logits' own size / that", (T * shape.vocab_size * 4) / 2 ** 20 / rss, '×', '>=3'),
  ];
}

/** Answers jobs by windows, as `score` does. */
async function windowed(jobs, session, windowOf = () => 0, wrap = (windows) => windows) {
  const { onnxAnswerer, windowsOf } = await import('../dist/estimate/answerer/windows.js');
  async function* all() {
    yield* jobs;
  }
  for await (const _ of onnxAnswerer(session, undefined, windowOf)(wrap(windowsOf(all(), windowOf))));
}

/** What the program adds to the policy's runs: time of `score`, less that of one trace, beside the runs of the same traces alone. */
async function whole() {
  const { pr } = await import('../dist/estimate/one-pass.js');
  const { referenceSetMaker } = await import('../dist/estimate/references.js');
  const { openPolicyFolder } = await import('../dist/model/onnx/folder.js');
  const { ModelSession } = await import('../dist/model/onnx/session.js');
  const { encodeTrace } = await import('../dist/model/text/encode.js');
  const { loadTokenizer } = await import('../dist/model/text/tokenizer.js');
  const { cutTrace } = await import('../dist/segment/segment.js');
  const policy = await openPolicyFolder(EMBEDDED);
  const { vocab, maxTokens } = policy.architecture;
  const tokenizer = await loadTokenizer(EMBEDDED);
  const referenceSet = await referenceSetMaker(policy.exitTemplate, pr, tokenizer.encode);
  const lines = (await readFile(FIXTURES, 'utf8')).trim().split('\n');
  const jobs = await Promise.all(
    lines.map(async (line, row) => {
      const { prompt_ids, completion_ids, answer, reward, ...fixture } = JSON.parse(line);
      const ids = { promptIds: Int32Array.from(prompt_ids), completionIds: Int32Array.from(completion_ids) };
      const source = { file: 'chains.jsonl', row, ordinal: row, byteOffset: 0, columns: {}, raw: '' };
      const trace = { ...fixture, ...ids, references: [{ answer, utility: 1 }], reward, source };
      const encoded = await encodeTrace(trace, tokenizer, vocab, maxTokens);
      const pieces = cutTrace(encoded, { segmenter: 'hybrid', fixedLength: 64, maxSegments: 40 });
      return { ...encoded, ...(await referenceSet(trace.references)), pieces };
    }),
  );
  const session = await ModelSession.open(policy);
  const bare = () => secondsOf(() => windowed(jobs, session, (row) => Math.floor(row / 64)));
  return inFolder(async (at) => {
    const flags = ['-o', at('out.parquet'), '--overwrite', '--quiet'];
    const score = (limit) => ran(PROGRAM, 'score', FIXTURES, '--limit', limit, ...flags).seconds;
    await bare();
    const shares = [];
    for (let round = 0; round < rounds(5); round++) shares.push((score('512') - score('1')) / (await bare()));
    return [
      result('score of 512 traces, its start taken off / its policy runs', median(shares), '×', '<=1.1'),
    ];
  });
}

/** `siblings` beside `pr`: a group of 8 traces with 40 exits each, peers aligned and their tails scored. */
async function siblings() {
  const { withPeers } = await import('../dist/estimate/peers.js');
  const { askSiblings } = await import('../dist/estimate/siblings.js');
  const [T, G] = [2048, 8];
  const { K, A, scored, prompt } = JOB;
  const session = await openRandom('small');
  const tokens = tokensOf(SMALL.vocab_size, 7);
  const common = { prompt: tokens(prompt), T, K };
  const jobs = Array.from({ length: G }, (_, row) =>
    valueJob(row, { ...common, reference: { ids: tokens(A), scoredFrom: A - scored } }, tokens),
  );
  async function* asking(windows, opts) {
    for await (const window of withPeers(windows, undefined, 15))
      yield window.map((job) => ({ ...job, asked: askSiblings(job, opts, Infinity) }));
  }
  const run = (peerTokens) => () =>
    windowed(
      jobs,
      session,
      () => 0,
      (windows) => (peerTokens === 0 ? windows : asking(windows, { peers: 3, peerTokens })),
    );
  const ms = await interleaved({ pr: run(0), short: run(20), whole: run(40) }, rounds(5));
  await session.close();
  return [
    result(`siblings / pr, 3 peers, G=${G}, L=20, T=${T}`, ms.short / ms.pr, '×', '<=2'),
    result(`siblings / pr, 3 peers, G=${G}, L=40, T=${T}`, ms.whole / ms.pr, '×'),
  ];
}

/** Eight completions behind one prompt, which is read once, beside the same traces each by itself; processor time. */
async function prompts() {
  const session = await openRandom('small');
  const tokens = tokensOf(SMALL.vocab_size, 7);
  const reference = { ids: tokens(JOB.A), scoredFrom: JOB.A - JOB.scored };
  const group = (prompt, T) =>
    Array.from({ length: 8 }, (_, row) => valueJob(row, { prompt, T, K: 8, reference }, tokens));
  const [long, medium] = [group(tokens(2000), 100), group(tokens(500), 400)];
  const ms = await interleaved(
    {
      long: () => windowed(long, session),
      longApart: () => windowed(long, session, (row) => row),
      medium: () => windowed(medium, session),
      mediumApart: () => windowed(medium, session, (row) => row),
    },
    rounds(7),
    processorTime,
  );
  await session.close();
  return [
    result(
      '8 of 100 tokens behind a prompt of 2,000: read with each / once',
      ms.longApart / ms.long,
      '×',
      '>=3',
    ),
    result('… 400 tokens behind 500', ms.mediumApart / ms.medium, '×'),
  ];
}

/** Segmentation alone: 5,000 pieces of a 25,000-token trace merged down to 40. */
async function merge() {
  const { mergePieces } = await import('../dist/segment/split.js');
  const { segmentSums } = await import('../dist/segment/segment.js');
  const entropies = Float32Array.from(tokensOf(10_000, 5)(25_000), (n) => n / 10_000);
  const ends = Int32Array.from({ length: 5_000 }, (_, i) => 5 * (i + 1));
  const run = () => mergePieces(ends, segmentSums(entropies, ends), 40);
  const { ms } = await interleaved({ ms: run, warm: run }, 40);
  return [result('segmentation, 25,000 tokens, 5,000 pieces to 40', ms, 'ms', '<=5')];
}

/** How long the main thread is ever kept from its work while the policy runs. */
async function lag() {
  const { openPolicyFolder } = await import('../dist/model/onnx/folder.js');
  const { ModelSession } = await import('../dist/model/onnx/session.js');
  const session = await ModelSession.open(await openPolicyFolder(EMBEDDED));
  const trace = traceOf(2000, tokensOf(10, 1));
  await session.run([trace]);
  const resolution = 1;
  const delay = monitorEventLoopDelay({ resolution });
  delay.enable();
  for (let n = 0; n < 10; n++) await session.run([trace]);
  delay.disable();
  return [result('event-loop lag while the policy runs', delay.max / 1e6 - resolution, 'ms', '<=50')];
}

/** Peak memory of `rredcot score` over more and more rows: it must not grow. */
const memory = () =>
  inFolder(async (at) => {
    const rows = (await readFile(FIXTURES, 'utf8')).trim().split('\n');
    const results = [];
    for (const count of isQuick ? [100, 1000] : [100, 1000, 10_000]) {
      const lines = Array.from({ length: count }, (_, i) =>
        JSON.stringify({ ...JSON.parse(rows[i % rows.length]), id: `r${i}`, group: `g${Math.floor(i / 8)}` }),
      );
      await writeFile(at(`${count}.jsonl`), `${lines.join('\n')}\n`);
      const { mib } = ran(PROGRAM, 'score', at(`${count}.jsonl`), '-o', at(`${count}.parquet`), '--quiet');
      results.push(result(`peak RSS of score, ${count} rows`, mib, 'MiB'));
    }
    const [before, last] = results.slice(-2).map(({ value }) => value);
    return [...results, result('peak RSS, ten times as many rows', last / before, '×', '<=1.1')];
  });

/** Rows as trainers dump them: 4 KB of reasoning, 1,000 token ids, some labels. */
async function writeDump(path, bytes) {
  const file = createWriteStream(path);
  for (let row = 0, written = 0; written < bytes; row++) {
    const steps = Array.from(
      { length: 40 },
      (_, n) =>
        `Step ${n + 1}: we know that x${(row * 7 + n) % 90} + ${n * 13} = ${row + n * n}, so the sum of the two is ${row * n}.`,
    );
    const line = `${JSON.stringify({
      id: `row-${row}`,
      prompt: `Solve problem ${row}: what is the sum?`,
      completion: `<think>\n${steps.join('\n')}\nWait, let me check.\n</think>\nThe answer is ${row}.`,
      token_ids: Array.from({ length: 1000 }, (_, n) => (row * 31 + n * 7919) % 150000),
      reward: row % 2,
      metadata: { source: 'bench', level: row % 5, tags: ['a', `t${row % 11}`] },
    })}\n`;
    written += line.length;
    if (!file.write(line)) await new Promise((resolve) => file.once('drain', resolve));
  }
  await new Promise((resolve) => file.end(resolve));
}

/** What anything that reads JSONL must do at least. In a process of its own, like the program. */
const BARE = `
  const { createInterface } = require('node:readline');
  const { createReadStream } = require('node:fs');
  let rows = 0;
  createInterface({ input: createReadStream(process.argv[1], { highWaterMark: 2 ** 20 }) })
    .on('line', (line) => { if (JSON.parse(line).reward !== undefined) rows++; })
    .on('close', () => { if (rows === 0) throw new Error('no rows'); });`;

/** MB/s of \`segment --no-policy\` by format, beside a loop that only splits and parses; its memory beside that of a tenth of the rows. */
const io = () =>
  inFolder(async (at) => {
    const megabytes = isQuick ? 20 : 1000;
    await writeDump(at('rows.jsonl'), megabytes * 1e6);
    await writeDump(at('small.jsonl'), megabytes * 1e5);
    const { size } = await stat(at('rows.jsonl'));
    const memory = {};
    const segment = (input, format) =>
      ran(PROGRAM, 'segment', '--no-policy', '--overwrite', '--quiet', at(input), '-o', at(`out.${format}`))
        .mib;
    const formats = ['arrow', 'parquet', 'jsonl'];
    const runs = formats.map((format) => [
      format,
      () => {
        memory[format] = segment('rows.jsonl', format);
      },
    ]);
    const ms = await interleaved(
      { bare: () => ran('-e', BARE, at('rows.jsonl')), ...Object.fromEntries(runs) },
      rounds(2),
    );
    const speed = (name) => size / 1000 / ms[name];
    return [
      result('split and parse JSONL, nothing else', speed('bare'), 'MB/s'),
      ...formats.map((format) => result(`segment --no-policy to ${format}`, speed(format), 'MB/s')),
      ...['arrow', 'parquet'].map((format) =>
        result(
          `memory, to ${format}, against a tenth of the rows`,
          memory[format] / segment('small.jsonl', format),
          '×',
          '<=1.5',
        ),
      ),
    ];
  });

const pytorch = async () => (await import('./pytorch.mjs')).pytorch(isQuick);

const CASES = { start, open, exits, long, head, whole, siblings, prompts, merge, lag, memory, io, pytorch };
console.log(JSON.stringify(await CASES[wanted]()));
process.exit(0);
