// Which tokens end a completion: those that the checkpoint names, and what is none of the vocabulary.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { edgeTokens, readStops } from '../../../dist/model/text/edge-tokens.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

const VOCAB = 10;
/** a letter is a token, from a on; what begins with `<` is the special one, 9 */
const tokenizer = {
  encode: (text: string) =>
    Promise.resolve(
      text.startsWith('<') ? Int32Array.of(9) : Int32Array.from(text, (c) => c.charCodeAt(0) - 97),
    ),
  isSpecial: (id: number) => id === 9,
} as unknown as Parameters<typeof readStops>[1];

async function folderOf(files: Record<string, unknown>) {
  const folder = await temporaryFolder();
  for (const [name, content] of Object.entries(files))
    await writeFile(join(folder, `${name}.json`), JSON.stringify(content));
  return folder;
}

async function stopsIn(files: Record<string, unknown>) {
  return readStops(await folderOf(files), tokenizer, VOCAB);
}

describe('the end tokens of a checkpoint', () => {
  it.each([
    ['one id', { config: { eos_token_id: 3 } }, [3]],
    [
      'both files, each once, in order',
      { generation_config: { eos_token_id: [9, 3] }, config: { eos_token_id: 3 } },
      [3, 9],
    ],
    ['the last id of the vocabulary', { config: { eos_token_id: 9 } }, [9]],
    ["the tokenizer's special token", { tokenizer_config: { eos_token: '<end>' } }, [9]],
    ['the same as an object', { tokenizer_config: { eos_token: { content: '<end>' } } }, [9]],
    ['no letter, which traces hold', { tokenizer_config: { eos_token: 'a' } }, []],
    ['no word of several tokens', { tokenizer_config: { eos_token: 'ab' } }, []],
    ['no special token after others', { tokenizer_config: { eos_token: 'jj' } }, []],
    ['nothing where nothing is named', { config: {} }, []],
  ])('%s', async (_, files, expected) => {
    expect(await stopsIn(files)).toEqual(expected);
  });

  it.each([VOCAB, VOCAB + 5])('%i is no token of a vocabulary of 10', async (id) => {
    await expect(stopsIn({ config: { eos_token_id: id } })).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringContaining(`eos_token_id is ${id}, config.json has a vocabulary of 10`),
    });
  });
});

it('a policy without one of the tokens, as Qwen2.5 has none to begin with, has the others', async () => {
  const added_tokens = ['<end>', '<stop>'].map((content, n) => ({ id: 90 + n, content, special: true }));
  const tokenizer_config = { eos_token: '<stop>', pad_token: { content: '<end>' }, bos_token: null };
  const folder = await folderOf({ tokenizer: { added_tokens }, tokenizer_config });
  const texts = [
    ['<end>', 90],
    ['<stop>', 91],
  ];
  expect(await edgeTokens(folder)).toEqual({ pads: new Set([90]), ends: new Set([91]), texts });
});
