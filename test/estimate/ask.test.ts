// What is of `ask` alone: traces without a reference, the folder's own question and the tokens of its answers.
import { cp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { beforeAll, expect, it } from 'vitest';
import { askedValues } from '../../dist/estimate/ask.js';
import { openTokenizer } from '../../dist/model/text/open-tokenizer.js';
import { askedIds } from '../../dist/model/text/templates.js';
import { EMBEDDED, PROVER, type ScoredRow, storedValues } from '../support/program.js';
import { fixtureRows, openScene } from '../support/scene.js';

const { at, done, fails, rows, text, write } = await openScene();
const template = (question: string, yes: string, no: string) => JSON.stringify({ question, yes, no });

beforeAll(async () => {
  const fixtures = await fixtureRows(0, 2);
  const bare = fixtures.map(({ answer: _, ...row }) => row);
  await write('bare.jsonl', bare);
  await cp(PROVER, at('asking'), { recursive: true });
  await write('asking/ask_template.json', template('\nright? ', 'y', 'n'));
  await done(`policy build asking -o asked --exit-template ${join(PROVER, 'exit_template.json')}`);
});

it('needs no reference: build takes the question along, and score asks it', async () => {
  const { said } = await done('policy info asked');
  expect(said).toContain('"\\nright? "\n');
  expect(said).toMatch(/scored "y" \(1 token\) against "n" \(1 token\)/);
  await done('score bare.jsonl --policy asked --estimator ask -o own.jsonl');
  const [first] = (await rows('own.jsonl')) as [ScoredRow];
  expect(first.status).not.toContain('no-references');
  const [yes = 0, no = 0] = first.reference_logprobs[0] as number[];
  expect(storedValues(first)[0]).toBeCloseTo(Math.exp(yes) / (Math.exp(yes) + Math.exp(no)), 6);
});

it('says where the policy does not answer, until other values take the place of these', async () => {
  // it was never taught to
  await done('score bare.jsonl --policy asked --estimator ask -o noise.jsonl');
  const found = await rows('noise.jsonl');
  for (const { status } of found) expect(status).toContain('ask:unanswered');
  await done('redistribute noise.jsonl --estimator surprise -o surprise.jsonl');
  for (const { status } of await rows('surprise.jsonl')) expect(status).not.toContain('ask:');

  const lp = fc.float({ min: -12, max: Math.fround(-0.7), noNaN: true });
  fc.assert(
    fc.property(
      fc.array(fc.tuple(lp, lp), { minLength: 1, maxLength: 4 }),
      fc.boolean(),
      (exits, isShared) => {
        const branches = exits.map(([yes, no]) =>
          isShared ? [Float32Array.of(yes, no)] : [Float32Array.of(yes), Float32Array.of(no)],
        );
        const { status } = askedValues(branches, Float32Array.of(1, 0));
        const most = Math.max(...exits.map(([yes, no]) => Math.exp(yes) + Math.exp(no)));
        expect(status).toEqual(most < 0.01 ? ['ask:unanswered'] : []);
      },
    ),
  );
});

it('a folder whose question was changed is refused, and so is a checkpoint whose question cannot be asked', async () => {
  const own = await text('asked/ask_template.json');
  // it may be a link to the checkpoint's
  await rm(at('asked/ask_template.json'));
  await write('asked/ask_template.json', own.replace('right', 'wrong'));
  await fails('score bare.jsonl --policy asked --estimator ask -o no.jsonl', 2, 'is not the file that');
  for (const [broken, why] of [
    [template('? ', 'ye', 'yes'), 'begin alike'],
    [template('? ', '', 'no'), '→ at yes'],
    ['{"question": "?"}', 'asking/ask_template.json: '],
  ] as const) {
    await write('asking/ask_template.json', broken);
    await fails('policy build asking -o none', 2, why);
  }
});

it('a question scores from the first token in which the answers differ', async () => {
  const tokenizer = await openTokenizer(EMBEDDED);
  const words = fc.string({ unit: fc.constantFrom('a', 'b'), minLength: 1, maxLength: 4 });
  await fc.assert(
    fc.asyncProperty(words, words, words, async (question, yes, no) => {
      const asked = askedIds({ question, yes, no }, tokenizer, 259);
      // of this tokenizer a letter is a token
      const at = [...yes].findIndex((letter, t) => letter !== no[t]);
      if (yes.startsWith(no) || no.startsWith(yes)) await expect(asked).rejects.toThrow('begin alike');
      else {
        const spelled = (answer: string) => Int32Array.from(Buffer.from(question + answer));
        const scoredFrom = question.length + at;
        expect(await asked).toEqual({ yes: spelled(yes), no: spelled(no), scoredFrom });
      }
    }),
  );
  await expect(askedIds({ question: '?', yes: 'é', no: 'n' }, tokenizer, 128)).rejects.toThrow(
    'config.json has a vocabulary of 128',
  );
  await tokenizer.close();
});
