// What `--estimator siblings` costs beside `pr`: a group of 8 traces with 40 exits each, mates aligned and their tails scored.
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { windowsOf } from '../dist/estimate/cut-windows.js';
import { withMates } from '../dist/estimate/siblings/with-mates.js';
import { scoreWindows } from '../dist/estimate/windows.js';
import { openPolicyFolder } from '../dist/policy/folder.js';
import { PolicySession } from '../dist/policy/run/session.js';
import { cutPieces } from '../dist/segment/segment.js';
import { mulberry32, randomPolicy, SMALL } from './checkpoint.mjs';
import { interleaved } from './measure.mjs';

const G = 8;
const K = 40; // segments, and one exit more
const A = 16; // tokens of a reference with its template, of which the last SCORED are read out
const SCORED = 4;
const PROMPT = 64;
/** tokens of a tail: half the default, and the default */
const LENGTHS = [20, 40];

const T = Number(process.argv[2]);
const rounds = Number(process.argv[3]);

const folder = await openPolicyFolder(await randomPolicy(join(tmpdir(), 'rredcot-bench-small'), SMALL));
const session = await PolicySession.open(folder);
const random = mulberry32(7);
const tokens = (n) => Int32Array.from({ length: n }, () => Math.floor(random() * SMALL.vocab_size));
const units = Int32Array.from({ length: T + 1 }, (_, t) => t);
const opts = { segmenter: 'fixed', fixedLength: Math.ceil(T / K), maxSegments: K };
const prompt = tokens(PROMPT);
const jobs = Array.from({ length: G }, (_, row) => ({
  trace: { id: `${row}`, group: 'g', source: { file: 'in', row, ordinal: row } },
  reward: { reward: row % 2 },
  promptIds: prompt,
  completionIds: tokens(T),
  pieces: cutPieces({ text: 'x'.repeat(T), units, textEnd: T }, opts),
  continuations: [{ ids: tokens(A), scoredFrom: A - SCORED, utility: 1 }],
}));

async function* all() {
  yield* jobs;
}
async function run(mates, mateTokens) {
  const windows = windowsOf(all(), () => 0);
  const asked = mates === 0 ? windows : withMates(windows, undefined, { mates, mateTokens });
  for await (const _ of scoreWindows(asked, session));
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
