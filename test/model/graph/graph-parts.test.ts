/** The policy's small parts: wire format, headers, sizes, alignment, tokenizer and tables, each on its own. */
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fromBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import * as buf from 'onnx-buf';
import { describe, expect, test } from 'vitest';
import { RredcotError } from '../../../dist/errors.js';
import { parseArchitecture } from '../../../dist/model/graph/architecture.js';
import { Graph, serialiseModel } from '../../../dist/model/graph/onnx.js';
import { readSafetensorsHeader } from '../../../dist/model/graph/safetensors.js';
import { alignTokens } from '../../../dist/model/text/encode.js';
import { loadTokenizer } from '../../../dist/model/text/tokenizer.js';
import { headerBytes } from '../../support/checkpoints.js';
import { EMBEDDED, temporaryFolder } from '../../support/program.js';

const scratch = await temporaryFolder();

const refused = (message: string) => {
  return { name: 'RredcotError', exitCode: 2, message: expect.stringContaining(message) };
};

// what graphs have of it beside is held by their bytes, too
const graphOf = (graph: Graph) =>
  fromBinary(buf.ModelProtoSchema, serialiseModel(graph)).graph as buf.GraphProto;

test('ONNX writer, decoded by onnx-buf: weights are external: file, offset beyond 4 GiB, length; nothing inside', () => {
  const g = new Graph('g');
  g.weight('w', 'f16', [3, 5], { location: 'model.safetensors', offset: 5_368_709_121, length: 30 });
  const [tensor] = graphOf(g).initializer;
  expect(tensor).toMatchObject({ name: 'w', dims: [3n, 5n], dataType: buf.TensorProto_DataType.FLOAT16 });
  expect(tensor?.dataLocation).toBe(buf.TensorProto_DataLocation.EXTERNAL);
  expect(Object.fromEntries((tensor?.externalData ?? []).map(({ key, value }) => [key, value]))).toEqual({
    location: 'model.safetensors',
    offset: '5368709121',
    length: '30',
  });
  expect(tensor?.rawData).toHaveLength(0);
});

// ------ safetensors

describe('safetensors header', () => {
  const path = join(scratch, 'x.safetensors');
  /** A file of a header (a value, or text as it stands) and so many data bytes. */
  function write(header: unknown, dataBytes: number, claim?: bigint): string {
    const bytes = headerBytes(typeof header === 'string' ? header : JSON.stringify(header));
    if (claim !== undefined) bytes.writeBigUInt64LE(claim);
    writeFileSync(path, Buffer.concat([bytes, Buffer.alloc(dataBytes)]));
    return path;
  }
  const F32 = (shape: unknown, ...data_offsets: unknown[]) => ({ dtype: 'F32', shape, data_offsets });

  test('a sound file: dtypes, shapes, offsets from the start of the file', async () => {
    const header = {
      __metadata__: { format: 'pt' },
      b: { dtype: 'BF16', shape: [2], data_offsets: [24, 28] },
      a: F32([2, 3], 0, 24),
      scalar: { dtype: 'F16', shape: [], data_offsets: [28, 30] },
      empty: F32([0, 4], 30, 30),
    };
    const found = await readSafetensorsHeader(write(header, 30));
    const base = 8 + JSON.stringify(header).length;
    expect([...found.keys()].sort()).toEqual(['a', 'b', 'empty', 'scalar']);
    expect(found.get('a')).toEqual({ name: 'a', dtype: 'f32', shape: [2, 3], offset: base, length: 24 });
    expect(found.get('b')).toEqual({ name: 'b', dtype: 'bf16', shape: [2], offset: base + 24, length: 4 });
    expect(found.get('scalar')).toMatchObject({ dtype: 'f16', shape: [], length: 2 });
    expect(found.get('empty')).toMatchObject({ length: 0 });
    expect((await readSafetensorsHeader(write({}, 0))).size).toBe(0);
  });

  const ENTRIES = [F32([1], 0, 4), F32([1], 4, 8)].map((entry) => `"a":${JSON.stringify(entry)}`);
  test.each<[string, unknown, number, string, bigint?]>([
    ['a header longer than the file', {}, 0, 'claims 3 bytes', 3n],
    ['no JSON', '{"a":', 0, 'not JSON'],
    ['a tensor that is null', { a: null }, 0, 'tensor a'],
    ['overlapping tensors', { a: F32([2], 0, 8), b: F32([2], 4, 12) }, 12, 'begins at byte 4'],
    ['a tensor named twice leaves a hole', `{${ENTRIES}}`, 8, 'tensor a begins at byte 4'],
    ['an end beyond the data', { a: F32([2], 0, 8) }, 7, 'the data has 7 bytes'],
    ['a negative offset', { a: F32([2], -8, 0) }, 8, 'at data_offsets[0]'],
    ['no shape', { a: { dtype: 'F32', data_offsets: [0, 4] } }, 4, 'at shape'],
    ['fewer bytes than the shape needs', { a: F32([3], 0, 8) }, 8, 'needs 12'],
    ['an unknown dtype', { a: { ...F32([2], 0, 8), dtype: 'F64' } }, 8, 'dtype "F64"'],
  ])('refused: %s', async (_, header, dataBytes, message, claim) => {
    const error = await readSafetensorsHeader(write(header, dataBytes, claim)).catch((cause) => cause);
    expect(error).toMatchObject(refused(message));
    expect(error).toMatchObject(refused(path));
  });
});

// ------ config.json

describe('config.json', () => {
  const config = JSON.parse(readFileSync(join(EMBEDDED, 'config.json'), 'utf8')) as Record<string, unknown>;
  const without = (key: string) =>
    Object.fromEntries(Object.entries(config).filter(([name]) => name !== key));

  test('what a config leaves out: key/value heads, head size, theta, tied head', () => {
    expect(parseArchitecture(without('num_key_value_heads'), 'c').kvHeads).toBe(config.num_attention_heads);
    const headDim = (config.hidden_size as number) / (config.num_attention_heads as number);
    expect(parseArchitecture(without('head_dim'), 'c').headDim).toBe(headDim);
    expect(parseArchitecture({ ...config, head_dim: null }, 'c').headDim).toBe(headDim);
    expect(parseArchitecture(without('rope_theta'), 'c').ropeTheta).toBe(10_000);
    expect(parseArchitecture(without('tie_word_embeddings'), 'c').tiedHead).toBe(false);
  });

  test('rope_parameters of the default kind give theta', () => {
    const rope_parameters = { rope_type: 'default', rope_theta: 500_000 };
    expect(parseArchitecture({ ...without('rope_theta'), rope_parameters }, 'c').ropeTheta).toBe(500_000);
  });

  test.each([
    ['heads no multiple of key/value heads', { num_attention_heads: 4, num_key_value_heads: 3 }],
    ['a head of no whole size', { hidden_size: 130, head_dim: null }],
    ['a head of odd size', { head_dim: 33 }],
  ])('refused: %s', (_, change) => {
    expect(() => parseArchitecture({ ...config, ...change }, 'c')).toThrow(/do not fit together/);
  });

  test.each([null, 7, 'text', []])('refused: %j is no config', (value) => {
    expect(() => parseArchitecture(value, 'c')).toThrow(RredcotError);
  });
});

// ------ tokens and text

const bytesOf = (text: string) => Buffer.from(text, 'utf8');
/** A text's bytes cut anywhere, inside characters too. */
const tokensOf = (text: string, cuts: readonly number[]): Uint8Array[] => {
  const bytes = bytesOf(text);
  const places = new Set([...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length]);
  const ends = [...places].sort((a, b) => a - b);
  return ends.map((end, i) => bytes.subarray(ends[i - 1] ?? 0, end)).filter((token) => token.length > 0);
};
const unit = fc.constantFrom('a', ' ', '\n', 'é', '€', '😀', '👩‍🚀', '\u0301', '字');
const anyText = fc.string({ unit });
const cuts = fc.array(fc.nat(200), { maxLength: 30 });

test('alignTokens: boundaries count the characters whose first byte lies before them', () => {
  fc.assert(
    fc.property(anyText, cuts, (text, at) => {
      const tokens = tokensOf(text, at);
      const found = alignTokens(tokens, text);
      expect(found?.textEnd).toBe(tokens.length);
      let bytes = 0;
      for (let t = 0; t <= tokens.length; t++) {
        const begun = [...text].filter((_, i) => bytesOf([...text].slice(0, i).join('')).length < bytes);
        expect(found?.chars[t]).toBe(begun.length);
        expect(found?.units[t]).toBe(begun.join('').length);
        bytes += tokens[t]?.length ?? 0;
      }
    }),
  );
});

describe('tokenizer', () => {
  test('embedded: tags are one token each, only the end token is special', async () => {
    const tokenizer = await loadTokenizer(EMBEDDED);
    expect([...tokenizer.encode('<think>é</think>')]).toHaveLength(4);
    expect([0, 256, 257, 258].map((id) => tokenizer.isSpecial(id))).toEqual([false, false, false, true]);
  });

  const specs = JSON.parse(readFileSync(join(EMBEDDED, 'tokenizer.json'), 'utf8')) as object;
  test.each([
    ['a SentencePiece decoder on a byte-level one', 'Replace, ByteFallback, Fuse'],
    ['broken', 'broken'],
    ['missing', 'missing'],
  ])('refused: %s', async (name, message) => {
    const folder = join(scratch, name);
    const pattern = { String: '▁' };
    const decoders = ['Replace', 'ByteFallback', 'Fuse'].map((type) => ({ type, pattern, content: ' ' }));
    const spec = { ...specs, decoder: { type: 'Sequence', decoders } };
    if (name !== 'missing') cpSync(EMBEDDED, folder, { recursive: true });
    if (name !== 'missing')
      writeFileSync(join(folder, 'tokenizer.json'), name === 'broken' ? '{' : JSON.stringify(spec));
    await expect(loadTokenizer(folder)).rejects.toMatchObject(refused(message));
  });
});
