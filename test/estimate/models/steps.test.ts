// What a process reward model reads of a trace: prompt, lead and steps, encoded apart, and the rows where labels stand.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { askedWith, stepSequence, stepsOf } from '../../../dist/estimate/models/prm.js';
import { ArchitectureSchema } from '../../../dist/policy/build/architecture.js';

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
