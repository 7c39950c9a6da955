// What eight completions behind one prompt cost, which is read once, beside the same traces each by itself; processor time.
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { windowsOf } from '../dist/estimate/cut-windows.js';
import { scoreWindows } from '../dist/estimate/windows.js';
import { openPolicyFolder } from '../dist/policy/folder.js';
import { PolicySession } from '../dist/policy/run/session.js';
import { cutPieces } from '../dist/segment/segment.js';
import { mulberry32, randomPolicy, SMALL } from './checkpoint.mjs';
import { interleaved, processorTime } from './measure.mjs';

const G = 8;
const A = 16; // tokens of a reference with its template, of which the last SCORED are read out
const SCORED = 4;

const rounds = Number(process.argv[2]);

const folder = await openPolicyFolder(await randomPolicy(join(tmpdir(), 'rredcot-bench-small'), SMALL));
const session = await PolicySession.open(folder);
const random = mulberry32(7);
const tokens = (n) => Int32Array.from({ length: n }, () => Math.floor(random() * SMALL.vocab_size));
const reference = { ids: tokens(A), scoredFrom: A - SCORED, utility: 1 };

/** A trace of T tokens with an exit about every 12. @param row of the input */
function jobOf(row, promptIds, T) {
  const units = Int32Array.from({ length: T + 1 }, (_, t) => t);
  const opts = { segmenter: 'fixed', fixedLength: Math.ceil(T / 8), maxSegments: 8 };
  return {
    trace: { id: `${row}`, group: 'g', source: { file: 'in', row, ordinal: row } },
    reward: { reward: row % 2 },
    promptIds,
    completionIds: tokens(T),
    pieces: cutPieces({ text: 'x'.repeat(T), units, textEnd: T }, opts),
    continuations: [reference],
  };
}

/** All in one window, or each in one of its own. */
async function run(jobs, windowOf) {
  async function* all() {
    yield* jobs;
  }
  for await (const _ of scoreWindows(windowsOf(all(), windowOf), session));
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
