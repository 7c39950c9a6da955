// The reward model's pass: steps of segments in, P(right) as values out, in runs of one window and in input order.
import { describe, expect, it } from 'vitest';
import { OutOfMemoryError } from '../../../dist/errors.js';
import { type JudgedBy, prmValues } from '../../../dist/estimate/models/prm.js';
import type { ReadSteps } from '../../../dist/policy/run/placed.js';
import { isBad, rejectTrace } from '../../../dist/rows.js';
import { named } from '../../support/estimators.js';
import { streamOf, traceAt } from '../../support/streams.js';

const PROMPT = Int32Array.of(1, 2);

/** A model that says of a row what the ids up to it are; it keeps what ran together. */
class FakePrm {
  readonly device = { name: 'cpu' } as const;
  readonly runs: number[][] = [];

  constructor(
    private readonly most = Number.POSITIVE_INFINITY,
    private readonly share = shareOf,
  ) {}

  async judge(sequences: readonly ReadSteps[]): Promise<Float32Array[]> {
    const tokens = sequences.reduce((sum, { ids }) => sum + ids.length, 0);
    if (tokens > this.most) throw new OutOfMemoryError('too much');
    this.runs.push(sequences.map(({ ids }) => ids.length));
    return sequences.map(({ ids, rows }) =>
      Float32Array.from(rows, (row) => this.share(ids.subarray(0, row + 1))),
    );
  }
}
const shareOf = (ids: Int32Array) => (ids.reduce((sum, id, t) => sum + id * (t + 1), 0) % 97) / 97;

/** A trace of one letter a token, cut at ends. */
function scored(row: number, text: string, ends: readonly number[]) {
  const trace = traceAt(row, { completion: text });
  const units = Int32Array.from({ length: text.length + 1 }, (_, t) => t);
  const job = {
    trace,
    tokens: { text, units, textEnd: text.length },
    chars: units,
    again: { promptIds: PROMPT },
  };
  const segmentation = {
    exits: Int32Array.of(0, ...ends),
    thoughtEnds: Int32Array.from(ends),
    answered: false,
  };
  return { job, trace, result: { segmentation }, needed: [] };
}

async function values(
  items: readonly object[],
  session: FakePrm,
  rowsPerWindow = 100,
  labels = ['wrong', 'right'],
) {
  const folder = { architecture: { vocab: 500, maxTokens: 100 }, head: { labels } };
  const tokenizer = { encode: (text: string) => Int32Array.from(Buffer.from(text)) };
  const window = (row: number) => Math.floor(row / rowsPerWindow);
  const by = { policy: folder, tokenizer, session, window } as unknown as JudgedBy;
  const found: unknown[] = [];
  const stream = streamOf(items) as unknown as Parameters<typeof prmValues>[0];
  for await (const item of prmValues(stream, by))
    found.push(
      isBad(item) ? item.rejection.code : [...(item as { values: { values: Float32Array } }).values.values],
    );
  return found;
}

const expected = (text: string, ends: readonly number[]) => [
  1,
  ...ends.map((end) => Math.fround(shareOf(Int32Array.of(...PROMPT, ...Buffer.from(text.slice(0, end)))))),
];

const CASES: [string, number[]][] = [
  ['abcdef', [2, 6]],
  ['xy', [1, 2]],
  ['', []],
  ['hello world, this is longer', [5, 11, 20, 27]],
];

describe('prmValues', () => {
  it('judge no step in a segment without text: the value stays', async () => {
    const [blank, between] = await Promise.all([
      values([scored(0, 'ab \n', [0, 2, 4])], new FakePrm()),
      values([scored(0, ' \n', [2])], new FakePrm()),
    ]);
    const [, step] = expected('ab', [2]);
    expect(blank).toEqual([[1, 1, step, step]]);
    expect(between).toEqual([[1, 1]]);
  });

  it('are P(right) at the end of every segment, 1 before the first, in input order', async () => {
    const items = CASES.map(([text, ends], row) => scored(row, text, ends));
    const { trace } = items[0] as { trace: Parameters<typeof rejectTrace>[0] };
    const bad = rejectTrace(trace, { code: 'earlier', reason: '' });
    const failed = rejectTrace(trace, { code: 'memory', reason: '' });
    const session = new FakePrm();
    expect(await values([bad, ...items, failed], session)).toEqual([
      'earlier',
      ...CASES.map(([text, ends]) => expected(text, ends)),
      'memory',
    ]);
    // like lengths together, and nothing is run for a trace without a step
    expect(session.runs).toEqual([[29, 8, 4]]);
    expect(named('prm')).toMatchObject({ scores: 'nothing', valueName: 'P(right)' });
  });

  it('of a head with one label are read before the first step too', async () => {
    const items = CASES.map(([text, ends], row) => scored(row, text, ends));
    const start = Math.fround(shareOf(PROMPT));
    expect(await values(items, new FakePrm(), 100, ['score'])).toEqual(
      CASES.map(([text, ends]) => [start, ...expected(text, ends).slice(1)]),
    );
    expect(await values([scored(0, ' \n', [2])], new FakePrm(), 100, ['score'])).toEqual([[start, start]]);
  });

  it('never runs traces of two windows together', async () => {
    const items = CASES.map(([text, ends], row) => scored(row, text, ends));
    const session = new FakePrm();
    expect(await values(items, session, 1)).toEqual(CASES.map(([text, ends]) => expected(text, ends)));
    expect(session.runs).toEqual([[8], [4], [29]]);
  });

  it('halves a batch that memory does not hold, and turns down a trace that it does not hold alone', async () => {
    const items = CASES.map(([text, ends], row) => scored(row, text, ends));
    const session = new FakePrm(12);
    expect(await values(items, session)).toEqual([
      ...CASES.slice(0, 3).map(([text, ends]) => expected(text, ends)),
      'out_of_memory',
    ]);
  });

  it.each([Number.NaN, -0.1, 1.01])('ends the run where the model says %s', async (share) => {
    const items = [scored(7, 'ab', [1, 2])];
    await expect(values(items, new FakePrm(100, () => share))).rejects.toMatchObject({
      exitCode: 65,
      message: expect.stringMatching(/^in:7 \(id "7"\): the reward model on cpu gave P\(right\) /),
    });
    // rounding is no fault
    expect(await values(items, new FakePrm(100, () => 1.000001))).toEqual([[1, 1, 1]]);
  });
});
