// The reward model's pass: steps of segments in, P(right) as values out, in runs of one window and in input order. What it reads: prompt, lead and steps, encoded apart, and the rows where labels stand.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { OutOfMemoryError } from '../../dist/errors.js';
import {
  askedWith,
  type JudgedBy,
  prmValues,
  stepSequence,
  stepsOf,
} from '../../dist/estimate/reward-model.js';
import { ArchitectureSchema } from '../../dist/model/graph/architecture.js';
import type { ReadSteps } from '../../dist/model/onnx/placed.js';
import { isBad, rejectTrace } from '../../dist/rows.js';
import { named } from '../support/estimators.js';
import { streamOf, traceAt } from '../support/streams.js';

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

const ARCHITECTURE = ArchitectureSchema.parse({
  ...{ family: 'LlamaForCausalLM', layers: 1, hidden: 4, heads: 1, kvHeads: 1, headDim: 4, intermediate: 4 },
  ...{ vocab: 256, maxTokens: 40, rmsNormEps: 1e-6, ropeTheta: 500, tiedHead: true },
});
const STEP = { text: '#', id: 35 };
const HEAD = { layers: 1, bias: false } as const;
const encode = (text: string) => Int32Array.from(Buffer.from(text));
const prompt = encode('Q:');
const read = (steps: string[], isMarked: boolean, lead = '', labels = ['wrong', 'right']) =>
  stepSequence(
    prompt,
    { lead, steps },
    { architecture: ARCHITECTURE, head: { ...HEAD, labels }, ...(isMarked ? { stepToken: STEP } : {}) },
    encode,
  );
const text = (ids: Int32Array) => Buffer.from(ids).toString();

describe('stepSequence', () => {
  it('reads steps as they stand, at their last tokens', async () => {
    const { ids, rows } = await read(['a b\n', 'c\n'], false, '<t>');
    expect(text(ids)).toBe('Q:<t>a b\nc\n');
    expect([...rows]).toEqual([8, 10]);
  });

  it('reads a score in front of the first step too', async () => {
    const { ids, rows } = await read(['a b\n', 'c\n'], false, '<t>', ['score']);
    expect(text(ids)).toBe('Q:<t>a b\nc\n');
    expect([...rows]).toEqual([4, 8, 10]);
  });

  it('puts the step token behind every step, in the place of its white space, and reads there', async () => {
    const { ids, rows } = await read([' a b\n\n', 'c'], true, '<t>\n');
    expect(text(ids)).toBe('Q:<t>\na b#c#');
    expect([...rows]).toEqual([9, 11]);
  });

  it('reads a step without a token where the one before it is read; marked, at its step token', async () => {
    expect([...(await read(['a', '', 'b'], false)).rows]).toEqual([2, 2, 3]);
    const { ids, rows } = await read(['a', ' \n', 'b'], true);
    expect([text(ids), [...rows]]).toEqual(['Q:a##b#', [3, 4, 6]]);
    expect(await read([], true)).toEqual({ ids: prompt, rows: new Int32Array(0) });
  });

  it('turns down what is too long, or has ids beyond the vocabulary', async () => {
    await expect(read(['x'.repeat(38)], false)).resolves.toBeDefined();
    await expect(read(['x'.repeat(38)], true)).rejects.toMatchObject({
      code: 'prm_too_long',
      reason: expect.stringContaining('prompt and steps have 41 tokens, the reward model takes 40'),
    });
    const far = stepSequence(
      prompt,
      { lead: '', steps: ['x'] },
      { architecture: ARCHITECTURE, head: { ...HEAD, labels: ['wrong', 'right'] } },
      () => Int32Array.of(256),
    );
    await expect(far).rejects.toMatchObject({ code: 'prm_tokens' });
  });

  it('has a row a step, in order, each the end of what stands before the next', () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(fc.string({ maxLength: 3, unit: fc.constantFrom('a', ' ', '\n') }), { maxLength: 6 }),
        fc.boolean(),
        async (steps, isMarked) => {
          const { ids, rows } = await read(steps, isMarked);
          expect(rows).toHaveLength(steps.length);
          expect(steps.length === 0 || rows.at(-1) === ids.length - 1).toBe(true);
          for (const [k, step] of steps.entries()) {
            const from = k === 0 ? prompt.length - 1 : (rows[k - 1] as number);
            expect(text(ids.slice(from + 1, (rows[k] as number) + 1))).toBe(
              isMarked ? `${step.trim()}#` : step,
            );
          }
        },
      ),
    ));
});

describe('stepsOf', () => {
  const tokens = { text: '<t>héllo', units: Int32Array.of(0, 3, 5, 8, 8), textEnd: 8 };

  it('cuts the text at the exits; what stands before the first is the lead', () => {
    expect(stepsOf(tokens, { exits: Int32Array.of(1, 2, 4) }, false)).toEqual({
      lead: '<t>',
      steps: ['hé', 'llo'],
    });
    expect(stepsOf(tokens, { exits: Int32Array.of(0) }, false)).toEqual({ lead: '', steps: [] });
  });

  it('takes bytes that are no sound text for what they spell', () => {
    const bytes = { text: Buffer.from('é!').toString('latin1'), units: Int32Array.of(0, 2, 3), textEnd: 3 };
    expect(stepsOf(bytes, { exits: Int32Array.of(0, 1, 2) }, true).steps).toEqual(['é', '!']);
  });
});

describe('askedWith', () => {
  it('fills the template with the prompt, or with the last message of the user', () => {
    const template = '{prompt} [{reference}]';
    expect(askedWith('2+2 {reference}?', '$&4', template)).toBe('2+2 {reference}? [$&4]');
    const messages = ['system', 'user', 'user', 'assistant'].map((role, i) => ({ role, content: `${i}` }));
    const filled = askedWith(messages, '4', template) as { content: string }[];
    expect(filled.map(({ content }) => content)).toEqual(['0', '1', '2 [4]', '3']);
    expect(() => askedWith([{ role: 'system', content: '' }], '4', template)).toThrow(
      /no message of the prompt/,
    );
  });
});
