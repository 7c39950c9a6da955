// What the program adds to the policy's runs: the whole of `rredcot score` against the same runs alone, in one process.
import { readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { score } from '../dist/commands/score.js';
import { onnxAnswerer, windowsOf } from '../dist/estimate/answerer/windows.js';
import { pr } from '../dist/estimate/one-pass.js';
import { bankMaker } from '../dist/estimate/references.js';
import { setUpEstimator } from '../dist/estimate/registry.js';
import { openPolicyFolder } from '../dist/model/onnx/folder.js';
import { ModelSession } from '../dist/model/onnx/session.js';
import { encodeTrace } from '../dist/model/text/encode.js';
import { loadTokenizer } from '../dist/model/text/tokenizer.js';
import { cutTrace } from '../dist/segment/segment.js';
import { interleaved } from './measure.mjs';

const rounds = Number(process.argv[2]);
const policyPath = fileURLToPath(new URL('../models/embedded', import.meta.url));
const fixtures = fileURLToPath(new URL('../fixtures/chains.jsonl', import.meta.url));
const segments = { segmenter: 'hybrid', fixedLength: 64, maxSegments: 40 };
const credit = {
  estimator: pr,
  rule: 'share',
  baseline: 'auto',
  residual: 'uniform',
  within: 'uniform',
  rewardRange: [0, 1],
};
const { signal } = new AbortController();
const silent = { info() {}, warn() {}, text() {}, record() {}, progress() {} };

const policy = await openPolicyFolder(policyPath);
const tokenizer = await loadTokenizer(policyPath);
const bank = await bankMaker(policy.exitTemplate, pr, tokenizer.encode);
const jobs = await Promise.all(
  (await readFile(fixtures, 'utf8'))
    .trim()
    .split('\n')
    .map(async (line, row) => {
      const fixture = JSON.parse(line);
      const trace = {
        id: fixture.id,
        prompt: fixture.prompt,
        completion: fixture.completion,
        promptIds: Int32Array.from(fixture.prompt_ids),
        completionIds: Int32Array.from(fixture.completion_ids),
        references: [{ answer: fixture.answer, utility: 1 }],
        reward: fixture.reward,
        source: { file: 'chains.jsonl', row, ordinal: row, byteOffset: 0, columns: {}, raw: '' },
      };
      const encoded = await encodeTrace(
        trace,
        tokenizer,
        policy.architecture.vocab,
        policy.architecture.maxTokens,
      );
      const { continuations: atExits } = await bank(trace.references);
      return { ...encoded, pieces: cutTrace(encoded, segments), asked: { atExits } };
    }),
);
async function* all() {
  yield* jobs;
}

const out = join(tmpdir(), `rredcot-bench-${process.pid}.parquet`);
const ms = await interleaved(
  {
    async whole() {
      await score(
        [fixtures],
        {
          policy: policyPath,
          output: out,
          segments,
          credit,
          setUp: await setUpEstimator(pr, {}, { segments, inputs: [fixtures] }),
          isRangeGiven: true,
          maxLineBytes: 2 ** 28,
          signal,
          device: { name: 'cpu' },
          rowsPerChunk: 512,
          overwrite: false,
          preset: 'none',
          bank: 'row',
          chatTemplateArgs: {},
        },
        silent,
      );
    },
    async bare() {
      const session = await ModelSession.open(policy);
      const window = (row) => Math.floor(row / 64);
      for await (const _ of onnxAnswerer(session, undefined, window).answer(windowsOf(all(), window)));
      await session.close();
    },
  },
  rounds,
);
await rm(out, { force: true });
console.log(
  JSON.stringify([
    {
      name: 'whole score / its policy runs, 512 fixture traces',
      value: ms.whole / ms.bare,
      unit: '×',
      reach: '<=1.1',
    },
    {
      name: 'score, 512 fixture traces, tokens/s',
      value: (1000 * jobs.reduce((sum, job) => sum + job.completionIds.length, 0)) / ms.whole,
      unit: 'tokens/s',
    },
  ]),
);
