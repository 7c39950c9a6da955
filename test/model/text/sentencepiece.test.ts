/** SentencePiece tokenizers: exact byte alignment, on stories260K's; that checkpoint built, checked and scored. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { encodeTrace } from '../../../dist/model/text/encode.js';
import {
  isSentencePiece,
  loadTokenizer,
  pieceBytes,
  withoutPrefixSpace,
} from '../../../dist/model/text/tokenizer.js';
import { rredcotHere } from '../../support/in-process.js';
import { traceOf } from '../../support/io-helpers.js';
import { readScored, temporaryFolder } from '../../support/program.js';

const stories = fileURLToPath(new URL('../../../../shared/models-src/stories260K', import.meta.url));
const scratch = await temporaryFolder();

describe('the form of tokenizer.json', () => {
  const PREPEND = { type: 'Prepend', prepend: '▁' };
  const REPLACE = { type: 'Replace', pattern: { String: ' ' }, content: '▁' };
  const DECODERS = [
    { type: 'Replace', pattern: { String: '▁' }, content: ' ' },
    { type: 'ByteFallback' },
    { type: 'Fuse' },
    { type: 'Strip', content: ' ', start: 1, stop: 0 },
  ];
  const SPEC = {
    model: { type: 'BPE', byte_fallback: true },
    normalizer: { type: 'Sequence', normalizers: [PREPEND, REPLACE] },
    pre_tokenizer: null,
    decoder: { type: 'Sequence', decoders: DECODERS },
  };
  const decoding = (...decoders: object[]) => ({ decoder: { type: 'Sequence', decoders } });
  const METASPACE = { type: 'Metaspace', replacement: '▁', prepend_scheme: 'first', split: false };

  test('both spellings are taken: normalizers, or a Metaspace step', () => {
    expect(isSentencePiece(SPEC)).toBe(true);
    expect(isSentencePiece({ ...SPEC, normalizer: null, pre_tokenizer: METASPACE })).toBe(true);
  });

  test.each<[string, Record<string, unknown>]>([
    ['no byte fallback', { model: { type: 'BPE' } }],
    ['a normalizer that changes characters', { normalizer: { type: 'NFKC' } }],
    ['another prefix', { normalizer: { type: 'Prepend', prepend: '_' } }],
    ['another pre-tokenizer', { pre_tokenizer: { type: 'ByteLevel' } }],
    ['a decoder that strips words', decoding(...DECODERS, { type: 'BPEDecoder' })],
    ['a decoder that strips more', decoding(...DECODERS.slice(0, 3), { ...DECODERS[3], start: 2 })],
    ['no decoder', { decoder: null }],
  ])('not taken: %s', (_, change) => {
    expect(isSentencePiece({ ...SPEC, ...change })).toBe(false);
  });

  test('for a text that continues, the prefix goes and the rest stays', () => {
    expect(withoutPrefixSpace(SPEC)).toEqual({
      ...SPEC,
      normalizer: { type: 'Sequence', normalizers: [REPLACE] },
    });
    expect(withoutPrefixSpace({ ...SPEC, normalizer: PREPEND, pre_tokenizer: METASPACE })).toMatchObject({
      normalizer: null,
      pre_tokenizer: { type: 'Metaspace', prepend_scheme: 'never' },
    });
  });

  test('pieces spell bytes', () => {
    expect([...pieceBytes('<0x0A>')]).toEqual([10]);
    expect([...pieceBytes('<0xFF>')]).toEqual([255]);
    expect(Buffer.from(pieceBytes('▁a▁é')).toString()).toBe(' a é');
    expect(Buffer.from(pieceBytes('<0x0a>')).toString()).toBe('<0x0a>');
  });
});

describe.skipIf(!existsSync(stories))('stories260K (skipped where ../shared/models-src is absent)', () => {
  test('sampled ids whose first space the decoded text has lost are aligned', async () => {
    const tokenizer = await loadTokenizer(stories);
    const encode = (completion: string, text: string) => {
      const trace = { ...traceOf({}), prompt: 'Once', completion, completionIds: tokenizer.encode(text) };
      return encodeTrace(trace, tokenizer, 512, 512);
    };
    const lost = await encode('upon a time', ' upon a time');
    expect(lost).toMatchObject({ status: [], tokens: { text: 'upon a time' } });
    expect((await encode(' upon a time', ' upon a time')).status).toEqual([]);
    expect((await encode('upon', '  upon')).status).toEqual(['ids:text-mismatch']);
    expect(lost.chars?.at(-1)).toBe(11);
  });

  test('builds, agrees with its published numbers, and scores', async () => {
    const policy = join(scratch, 'policy');
    const build = await rredcotHere(['policy', 'build', stories, '-o', policy]);
    expect(build.code, build.stderr).toBe(0);
    expect(build.stderr).toContain('close  "\\n\\n"');
    const reference = JSON.parse(readFileSync(join(stories, 'reference.json'), 'utf8'));
    const [traces, scored] = [join(scratch, 'traces.jsonl'), join(scratch, 'scored.parquet')];
    const completion = 'She saw a dog.\nThe dog was big.\n\nShe ran home 😀.';
    const { ids } = reference;
    const asIds = { prompt_ids: ids.slice(0, 1), completion_ids: ids.slice(1), answer: 'park', reward: 1 };
    const asText = { prompt: 'Once upon a time', completion, answer: 'home', reward: 1 };
    writeFileSync(traces, [asText, asIds].map((row) => `${JSON.stringify(row)}\n`).join(''));
    const flags = ['--policy', policy, '-o', scored, '--map', 'reference=answer'];
    const run = await rredcotHere(['score', traces, ...flags]);
    expect(run.code, run.stderr).toBe(0);
    const [row, published] = await readScored(scored);
    const near = (found: ArrayLike<number>, expected: readonly number[]) =>
      expected.forEach((x, t) => void expect(found[t], `${t}`).toBeCloseTo(x, 4));
    near(published?.logprobs ?? [], reference.token_logprobs);
    near(published?.entropies ?? [], reference.token_entropies_nats.slice(0, -1));
    // a policy of stories does not answer: its values are next to nothing
    expect(row?.status).toBe('completion:end-token;uniform:flat-values');
    expect(row?.segments.at(-1)?.char_end).toBe([...completion].length);
  });
});
