// What `--estimator siblings` costs beside `pr`: a group of 8 traces with 40 exits each, mates aligned and their tails scored.
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { windowsOf } from '../dist/estimate/passes/cut-windows.js';
import { scoreWindows } from '../dist/estimate/passes/windows.js';
import { withMates } from '../dist/estimate/siblings/with-mates.js';
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
const L = 20;

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
async function run(mates) {
  const windows = windowsOf(all(), () => 0);
  const asked = mates === 0 ? windows : withMates(windows, undefined, { mates, mateTokens: L });
  for await (const _ of scoreWindows(asked, session, 'auto'));
}

const ms = await interleaved({ pr: () => run(0), three: () => run(3), seven: () => run(7) }, rounds);
await session.close();
console.log(
  JSON.stringify([
    {
      name: `siblings / pr, 3 mates, G=${G}, L=${L}, T=${T}`,
      value: ms.three / ms.pr,
      unit: '×',
      reach: '<=2',
    },
    { name: `siblings / pr, 7 mates, G=${G}, L=${L}, T=${T}`, value: ms.seven / ms.pr, unit: '×' },
  ]),
);
