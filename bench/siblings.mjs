// What `--estimator siblings` costs beside `pr`: a group of 8 traces with 40 exits each, mates aligned and their tails scored.
import { onnxAnswerer, windowsOf } from '../dist/estimate/answerer/windows.js';
import { withPeers } from '../dist/estimate/peers.js';
import { askSiblings } from '../dist/estimate/siblings.js';
import { JOB, openRandom, SMALL, tokensOf, valueJob } from './checkpoint.mjs';
import { interleaved } from './measure.mjs';

const G = 8;
const { K, A, scored, prompt } = JOB; // segments, and one exit more
/** tokens of a tail: half the default, and the default */
const LENGTHS = [20, 40];

const T = Number(process.argv[2]);
const rounds = Number(process.argv[3]);

const session = await openRandom('small');
const tokens = tokensOf(SMALL.vocab_size, 7);
const common = { prompt: tokens(prompt), T, K };
const jobs = Array.from({ length: G }, (_, row) => {
  const reference = { ids: tokens(A), scoredFrom: A - scored };
  return valueJob(row, { ...common, reference }, tokens);
});

async function* all() {
  yield* jobs;
}
async function* asking(windows, opts) {
  for await (const window of withPeers(windows, undefined, 15))
    yield window.map((job) => ({ ...job, asked: askSiblings(job, opts, Infinity) }));
}
async function run(mates, mateTokens) {
  const windows = windowsOf(all(), () => 0);
  const asked = mates === 0 ? windows : asking(windows, { mates, mateTokens });
  for await (const _ of onnxAnswerer(session, undefined, () => 0).answer(asked));
}

const [short, whole] = LENGTHS;
const ms = await interleaved(
  { pr: () => run(0, 0), short: () => run(3, short), whole: () => run(3, whole) },
  rounds,
);
await session.close();
console.log(
  JSON.stringify([
    {
      name: `siblings / pr, 3 mates, G=${G}, L=${short}, T=${T}`,
      value: ms.short / ms.pr,
      unit: '×',
      reach: '<=2',
    },
    { name: `siblings / pr, 3 mates, G=${G}, L=${whole}, T=${T}`, value: ms.whole / ms.pr, unit: '×' },
  ]),
);
