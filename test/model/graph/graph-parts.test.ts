/** The policy's small parts: wire format, headers, sizes, alignment, tokenizer and tables, each on its own. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fromBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import {
  type AttributeProto,
  AttributeProtoSchema,
  type GraphProto,
  type ModelProto,
  ModelProtoSchema,
  TensorProto_DataLocation,
  TensorProto_DataType,
} from 'onnx-buf';
import { describe, expect, test } from 'vitest';
import { RredcotError } from '../../../dist/errors.js';
import { type Architecture, parseArchitecture } from '../../../dist/model/graph/architecture.js';
import { headRows } from '../../../dist/model/graph/head.js';
import { Graph, ProtoWriter, serialiseModel } from '../../../dist/model/graph/onnx.js';
import { ropeTables } from '../../../dist/model/graph/rope.js';
import { readSafetensorsHeader } from '../../../dist/model/graph/safetensors.js';
import { blockRows } from '../../../dist/model/onnx/layout.js';
import { alignTokens } from '../../../dist/model/text/align.js';
import { loadTokenizer } from '../../../dist/model/text/tokenizer.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

const scratch = await temporaryFolder();
const embedded = fileURLToPath(new URL('../../../models/embedded', import.meta.url));

const ARCH: Architecture = {
  family: 'LlamaForCausalLM',
  layers: 2,
  hidden: 32,
  heads: 4,
  kvHeads: 2,
  headDim: 16,
  intermediate: 48,
  vocab: 100,
  maxTokens: 256,
  rmsNormEps: 1e-5,
  ropeTheta: 10_000,
  tiedHead: true,
};

async function failureOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => undefined,
    (error: unknown) => error,
  );
}

// ------ protobuf and ONNX

describe('protobuf writer, decoded by onnx-buf', () => {
  // what graphs have of it beside is held by the bytes of models/embedded (package.test.ts)
  const attribute = (writer: ProtoWriter): AttributeProto =>
    fromBinary(AttributeProtoSchema, writer.finish());

  test('integers of 64 bits, negative ones too', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), (value) => {
        expect(attribute(new ProtoWriter().varint(3, value)).i).toBe(value);
        expect(attribute(new ProtoWriter().packed(8, [value, 0n, value])).ints).toEqual([value, 0n, value]);
      }),
    );
    for (const value of [0, -1, 127, 128, 2 ** 31, -(2 ** 31), 2 ** 53 - 1])
      expect(attribute(new ProtoWriter().varint(3, value)).i).toBe(BigInt(value));
    expect(new ProtoWriter().varint(3, -1).finish()).toHaveLength(11); // tag and ten bytes
  });
});

describe('ONNX writer, decoded by onnx-buf', () => {
  // what graphs have of it beside is held by their bytes, too
  const decode = (graph: Graph): ModelProto => fromBinary(ModelProtoSchema, serialiseModel(graph));
  const graphOf = (graph: Graph): GraphProto => decode(graph).graph as GraphProto;

  test('weights are external: file, offset beyond 4 GiB, length; nothing inside', () => {
    const g = new Graph('g');
    g.weight('w', 'f16', [3, 5], { location: 'model.safetensors', offset: 5_368_709_121, length: 30 });
    const [tensor] = graphOf(g).initializer;
    expect(tensor).toMatchObject({ name: 'w', dims: [3n, 5n], dataType: TensorProto_DataType.FLOAT16 });
    expect(tensor?.dataLocation).toBe(TensorProto_DataLocation.EXTERNAL);
    expect(Object.fromEntries((tensor?.externalData ?? []).map(({ key, value }) => [key, value]))).toEqual({
      location: 'model.safetensors',
      offset: '5368709121',
      length: '30',
    });
    expect(tensor?.rawData).toHaveLength(0);
  });
});

// ------ safetensors

describe('safetensors header', () => {
  const path = join(scratch, 'x.safetensors');
  /** A file of a header (a value, or text as it stands) and so many data bytes. */
  function write(header: unknown, dataBytes: number, claim?: bigint): string {
    const body = Buffer.from(typeof header === 'string' ? header : JSON.stringify(header));
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(claim ?? BigInt(body.length));
    writeFileSync(path, Buffer.concat([length, body, Buffer.alloc(dataBytes)]));
    return path;
  }
  const F32 = (shape: unknown, begin: unknown, end: unknown) => ({
    dtype: 'F32',
    shape,
    data_offsets: [begin, end],
  });

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

  test.each<[string, unknown, number, bigint | undefined, string]>([
    ['a header longer than the file', {}, 0, 3n, 'claims 3 bytes'],
    ['no JSON', '{"a":', 0, undefined, 'not JSON'],
    ['a tensor that is null', { a: null }, 0, undefined, 'tensor a'],
    ['overlapping tensors', { a: F32([2], 0, 8), b: F32([2], 4, 12) }, 12, undefined, 'overlap'],
    ['an end beyond the data', { a: F32([2], 0, 8) }, 7, undefined, 'the data has 7 bytes'],
    ['a negative offset', { a: F32([2], -8, 0) }, 8, undefined, 'no valid shape and data_offsets'],
    ['no shape', { a: { dtype: 'F32', data_offsets: [0, 4] } }, 4, undefined, 'no valid shape'],
    ['fewer bytes than the shape needs', { a: F32([3], 0, 8) }, 8, undefined, 'needs 12'],
    ['an unknown dtype', { a: { ...F32([2], 0, 8), dtype: 'F64' } }, 8, undefined, 'dtype "F64"'],
  ])('refused: %s', async (_, header, dataBytes, claim, message) => {
    const error = await failureOf(readSafetensorsHeader(write(header, dataBytes, claim)));
    expect(error).toBeInstanceOf(RredcotError);
    expect(error).toMatchObject({ exitCode: 2, message: expect.stringContaining(message) });
    expect((error as Error).message).toContain(path);
  });

  test('refused: a file too short for the length, a missing one, a folder', async () => {
    for (const bytes of [0, 1, 7]) {
      writeFileSync(path, Buffer.alloc(bytes));
      expect(await failureOf(readSafetensorsHeader(path))).toMatchObject({
        name: 'RredcotError',
        exitCode: 2,
      });
    }
    for (const bad of [join(scratch, 'nothing.safetensors'), scratch])
      expect(await failureOf(readSafetensorsHeader(bad))).toMatchObject({
        name: 'RredcotError',
        exitCode: 2,
      });
  });
});

// ------ config.json

describe('config.json', () => {
  const config = JSON.parse(readFileSync(join(embedded, 'config.json'), 'utf8')) as Record<string, unknown>;
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

  test.each<[string, unknown]>([
    ['architectures', ['LlamaForCausalLM', 'Other']],
    ['num_hidden_layers', 0],
    ['hidden_size', -128],
    ['intermediate_size', null],
    ['max_position_embeddings', Number.NaN],
    ['rms_norm_eps', 0],
    ['tie_word_embeddings', 'yes'],
    // where transformers 5 keeps the rotary base and its scaling
    ['rope_parameters', { rope_type: 'llama3', rope_theta: 500_000, factor: 8 }],
  ])('refused by name: %s = %j', (key, value) => {
    const error = (() => {
      try {
        return parseArchitecture({ ...config, [key]: value }, 'some/config.json');
      } catch (cause) {
        return cause;
      }
    })();
    expect(error).toBeInstanceOf(RredcotError);
    expect(error).toMatchObject({ exitCode: 2, message: expect.stringContaining(key) });
    expect((error as Error).message).toContain('some/config.json');
    expect((error as Error).message).not.toContain('\n');
  });

  test('rope_parameters of the default kind give theta', () => {
    const modern = {
      ...without('rope_theta'),
      rope_parameters: { rope_type: 'default', rope_theta: 500_000 },
    };
    expect(parseArchitecture(modern, 'c').ropeTheta).toBe(500_000);
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

describe('alignTokens', () => {
  const bytesOf = (text: string) => Buffer.from(text, 'utf8');
  /** A text's bytes cut anywhere, inside characters too. */
  const tokensOf = (text: string, cuts: readonly number[]): Uint8Array[] => {
    const bytes = bytesOf(text);
    const ends = [...new Set([...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length])].sort(
      (a, b) => a - b,
    );
    return ends.map((end, i) => bytes.subarray(ends[i - 1] ?? 0, end)).filter((token) => token.length > 0);
  };
  const anyText = fc.string({
    unit: fc.constantFrom('a', ' ', '\n', 'é', '€', '😀', '👩‍🚀', '\u0301', '字'),
  });
  const cuts = fc.array(fc.nat(200), { maxLength: 30 });

  test('boundaries count the characters whose first byte lies before them', () => {
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
});

describe('tokenizer', () => {
  test('embedded: tags are one token each, only the end token is special', async () => {
    const tokenizer = await loadTokenizer(embedded);
    expect([...tokenizer.encode('<think>é</think>')]).toHaveLength(4);
    expect([0, 256, 257, 258].map((id) => tokenizer.isSpecial(id))).toEqual([false, false, false, true]);
  });

  const copyWith = (name: string, change: (spec: Record<string, unknown>) => void): string => {
    const folder = join(scratch, name);
    mkdirSync(folder, { recursive: true });
    const spec = JSON.parse(readFileSync(join(embedded, 'tokenizer.json'), 'utf8')) as Record<
      string,
      unknown
    >;
    change(spec);
    writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(spec));
    writeFileSync(
      join(folder, 'tokenizer_config.json'),
      readFileSync(join(embedded, 'tokenizer_config.json')),
    );
    return folder;
  };

  test('a SentencePiece decoder on a byte-level tokenizer is refused by name', async () => {
    const replace = { type: 'Replace', pattern: { String: '▁' }, content: ' ' };
    const folder = copyWith('sentencepiece', (spec) => {
      spec.decoder = { type: 'Sequence', decoders: [replace, { type: 'ByteFallback' }, { type: 'Fuse' }] };
    });
    const error = await failureOf(loadTokenizer(folder));
    expect(error).toBeInstanceOf(RredcotError);
    expect(error).toMatchObject({
      exitCode: 2,
      message: expect.stringContaining('Replace, ByteFallback, Fuse'),
    });
  });

  test('missing and broken files are refused', async () => {
    const broken = copyWith('broken', () => {});
    writeFileSync(join(broken, 'tokenizer.json'), '{');
    for (const folder of [broken, join(scratch, 'nowhere')]) {
      const error = await failureOf(loadTokenizer(folder));
      expect(error).toMatchObject({
        name: 'RredcotError',
        exitCode: 2,
        message: expect.stringContaining(folder),
      });
    }
  });
});

// ------ the head's blocks and tables

describe('the head in blocks', () => {
  test('all rows where they fit, else blocks of like size: 4 MB of a vocabulary block on the CPU, 256 MB on a GPU', () => {
    expect(headRows(10, 259, 'f32')).toBe(10);
    expect(headRows(0, 259, 'f32')).toBe(1);
    expect(headRows(5000, 259, 'f32')).toBe(1000); // 5 blocks, 1,024 at most
    expect(headRows(513, 151_936, 'f32')).toBe(257); // of 2,048 entries of the vocabulary, so 512 at most
    expect(headRows(5000, 4095, 'f32')).toBe(250); // 4,095 entries are one block, 256 at most
    expect(headRows(4410, 151_936, 'bf16')).toBe(441);
    expect(headRows(5000, 2 ** 25, 'f16')).toBe(32);
  });

  test('rows keep their order and are padded by row 0 to whole blocks, one at least', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(1e6), { maxLength: 70 }),
        fc.integer({ min: 1, max: 32 }),
        (values, block) => {
          const found = blockRows(Int32Array.from(values), block);
          // one block at least: the graph has rows to read even where nothing is scored
          expect(found.length).toBe(Math.max(1, Math.ceil(values.length / block)) * block);
          expect([...found].map(Number)).toEqual([...values, ...Array(found.length - values.length).fill(0)]);
        },
      ),
    );
  });
});

test('rope tables are cos and sin of p·θ^(−2i/d) in float64, rounded once', () => {
  for (const [headDim, ropeTheta] of [
    [16, 10_000],
    [128, 500_000],
  ] as const) {
    const { positions, cos, sin } = ropeTables({ ...ARCH, headDim, ropeTheta }, 3000);
    expect(positions).toBe(3000);
    expect(cos).toHaveLength((3000 * headDim) / 2);
    for (const p of [0, 1, 2, 77, 1023, 1024, 2999])
      for (let i = 0; i < headDim / 2; i++) {
        const angle = p / ropeTheta ** ((2 * i) / headDim);
        expect(Math.abs((cos[(p * headDim) / 2 + i] as number) - Math.cos(angle))).toBeLessThan(1e-7);
        expect(Math.abs((sin[(p * headDim) / 2 + i] as number) - Math.sin(angle))).toBeLessThan(1e-7);
      }
  }
});
