// What eight completions behind one prompt cost, which is read once, beside the same traces each by itself; processor time.
import { onnxAnswerer, windowsOf } from '../dist/estimate/answerer/windows.js';
import { JOB, openRandom, SMALL, tokensOf, valueJob } from './checkpoint.mjs';
import { interleaved, processorTime } from './measure.mjs';

const G = 8;

const rounds = Number(process.argv[2]);

const session = await openRandom('small');
const tokens = tokensOf(SMALL.vocab_size, 7);
const reference = { ids: tokens(JOB.A), scoredFrom: JOB.A - JOB.scored };

/** A trace of T tokens with an exit about every 12. @param row of the input */
const jobOf = (row, prompt, T) => valueJob(row, { prompt, T, K: 8, reference }, tokens);

/** All in one window, or each in one of its own. */
async function run(jobs, windowOf) {
  async function* all() {
    yield* jobs;
  }
  for await (const _ of onnxAnswerer(session, undefined, windowOf).answer(windowsOf(all(), windowOf)));
}
const group = (promptLength, T) => {
  const prompt = tokens(promptLength);
  return Array.from({ length: G }, (_, row) => jobOf(row, prompt, T));
};

const together = () => 0;
const apart = (row) => row;
const [long, medium, short] = [group(2000, 100), group(500, 400), group(10, 100)];
const differ = Array.from({ length: G }, (_, row) => jobOf(row, tokens(10), 100));
const ms = await interleaved(
  {
    long: () => run(long, together),
    longApart: () => run(long, apart),
    medium: () => run(medium, together),
    mediumApart: () => run(medium, apart),
    short: () => run(short, together),
    differ: () => run(differ, together),
  },
  rounds,
  processorTime,
);
await session.close();
console.log(
  JSON.stringify([
    {
      name: `${G} of 100 tokens, 9 exits, behind a prompt of 2,000: read with each / once`,
      value: ms.longApart / ms.long,
      unit: '×',
      reach: '>=3',
    },
    { name: '… 400 tokens behind 500', value: ms.mediumApart / ms.medium, unit: '×' },
    { name: '… behind 2,000, read once / behind 10', value: ms.long / ms.short, unit: '×' },
    {
      name: '… behind a prompt of 10, the same / all different',
      value: ms.short / ms.differ,
      unit: '×',
      reach: '<=1.03',
    },
  ]),
);
