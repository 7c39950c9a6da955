// What measurements score: random Llama checkpoints of a chosen shape, whose weights mean nothing while the arithmetic is real, and random
// traces.
import { copyFile, mkdir, open, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArchitecture } from '../dist/model/graph/architecture.js';
import { readCheckpoint } from '../dist/model/graph/checkpoint.js';
import { expectedWeights } from '../dist/model/graph/families.js';
import { serialiseModel } from '../dist/model/graph/onnx.js';
import { buildScoringGraph, stateLayers } from '../dist/model/graph/scoring-graph.js';
import { buildPolicyFolder } from '../dist/model/onnx/build.js';
import { CUDA_GRAPH, GRAPH, openPolicyFolder } from '../dist/model/onnx/folder.js';
import { ModelSession } from '../dist/model/onnx/session.js';
import { cutPieces } from '../dist/segment/segment.js';

export const EMBEDDED = fileURLToPath(new URL('../models/embedded', import.meta.url));

/** The shape that most rows of the table use: four layers, a head that is about half of a pass at T = 4096. */
export const SMALL = {
  num_hidden_layers: 4,
  hidden_size: 256,
  num_attention_heads: 8,
  num_key_value_heads: 4,
  intermediate_size: 768,
  vocab_size: 32_000,
};

/** The shape of Qwen2.5-0.5B, without the biases of its queries, keys and values. */
export const HALF_B = {
  num_hidden_layers: 24,
  hidden_size: 896,
  num_attention_heads: 14,
  num_key_value_heads: 2,
  intermediate_size: 4864,
  vocab_size: 151_936,
};

/** The shapes of Qwen2.5-1.5B, without biases, and of Llama-3.1-8B. */
export const ONE_AND_A_HALF_B = {
  num_hidden_layers: 28,
  hidden_size: 1536,
  num_attention_heads: 12,
  num_key_value_heads: 2,
  intermediate_size: 8960,
  vocab_size: 151_936,
};
export const EIGHT_B = {
  num_hidden_layers: 32,
  hidden_size: 4096,
  num_attention_heads: 32,
  num_key_value_heads: 8,
  intermediate_size: 14_336,
  vocab_size: 128_256,
  tie_word_embeddings: false,
};

function configOf(shape) {
  return {
    architectures: ['LlamaForCausalLM'],
    max_position_embeddings: 131_072,
    rms_norm_eps: 1e-5,
    rope_theta: 10_000,
    tie_word_embeddings: true,
    ...shape,
  };
}

/** Names and sizes of its weights. */
export function weightsOf(shape) {
  return expectedWeights(parseArchitecture(configOf(shape), 'bench'));
}

/** A policy's graphs with random weights and no canary, which the CPU would read: seconds, whatever its size. */
export async function randomGraphs(folder, shape, dtype) {
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'config.json'), JSON.stringify(configOf(shape)));
  await writeRandomWeights(join(folder, 'model.safetensors'), weightsOf(shape), dtype);
  const { architecture, weights } = await readCheckpoint(folder);
  const cuda = { graph: CUDA_GRAPH, precision: 'bf16' };
  for (const { graph, precision } of [{ graph: GRAPH, precision: 'f32' }, cuda])
    await writeFile(join(folder, graph), serialiseModel(buildScoringGraph(architecture, weights, precision)));
  return { path: folder, architecture, cuda, stateLayers: stateLayers(architecture) };
}

/** Builds a policy folder with random weights. @param dtype F32 or BF16 @returns its path */
export async function randomPolicy(folder, shape, dtype = 'F32') {
  const config = configOf(shape);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'config.json'), JSON.stringify(config));
  for (const name of ['tokenizer.json', 'tokenizer_config.json'])
    await copyFile(join(EMBEDDED, name), join(folder, name));
  await writeRandomWeights(join(folder, 'model.safetensors'), weightsOf(shape), dtype);
  await buildPolicyFolder(folder, folder, { close: '\n', open: '', closer: '\n' });
  return folder;
}

/** Numbers of a tile, a prime, so that rows of a matrix differ: billions of weights of one stream would take minutes. */
const TILE = 1_048_573;

/** Seeded weights, a tile over and over: norms are 1, the rest has the variance that keeps activations near 1. */
async function writeRandomWeights(path, shapes, dtype) {
  const header = {};
  let offset = 0;
  for (const [name, shape] of shapes) {
    const length = (dtype === 'F32' ? 4 : 2) * shape.reduce((a, b) => a * b, 1);
    header[name] = { dtype, shape, data_offsets: [offset, offset + length] };
    offset += length;
  }
  const text = Buffer.from(JSON.stringify(header));
  const padded = Buffer.concat([text, Buffer.alloc((64 - ((8 + text.length) % 64)) % 64, ' ')]);
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(padded.length));
  const random = seeded(1);
  const uniform = Float32Array.from({ length: TILE }, () => 2 * random() - 1);
  const tiles = new Map(); // by width: of norms 1
  const tileOf = (width) => {
    if (tiles.has(width)) return tiles.get(width);
    const values = width ? uniform.map((x) => x * Math.sqrt(3 / width)) : new Float32Array(TILE).fill(1);
    const tile = Buffer.from((dtype === 'F32' ? values : upperHalves(values)).buffer);
    tiles.set(width, tile);
    return tile;
  };
  const file = await open(path, 'w');
  await file.writev([size, padded]);
  for (const [name, [, width]] of shapes) {
    const [from, to] = header[name].data_offsets;
    const tile = tileOf(width);
    for (let at = from; at < to; at += tile.length) await file.write(tile, 0, Math.min(tile.length, to - at));
  }
  await file.close();
}

/** Floats as bfloat16: the upper 16 bits of each, little-endian. */
function upperHalves(values) {
  const halves = new Uint16Array(values.buffer);
  const upper = new Uint16Array(values.length);
  for (let i = 0; i < upper.length; i++) upper[i] = halves[2 * i + 1];
  return upper;
}

/** Numbers in [0, 1) by a seed (mulberry32). */
function seeded(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Random tokens of a vocabulary, n at a time. */
export function tokensOf(vocab, seed) {
  const random = seeded(seed);
  return (n) => Int32Array.from({ length: n }, () => Math.floor(random() * vocab));
}

/** What most measurements score: exit points, tokens behind each, of which the last `scored` are read out, and tokens of the prompt. */
export const JOB = { K: 40, A: 16, scored: 4, prompt: 64 };

/** Such a trace of T tokens. */
export function traceOf(T, tokens, { K, A, scored, prompt } = JOB) {
  const branches = Array.from({ length: K }, (_, k) => ({
    exit: prompt + Math.floor(((k + 1) * (T - prompt)) / K),
    ids: tokens(A),
    scoredFrom: A - scored,
  }));
  return { ids: tokens(T), promptLength: prompt, branches };
}

/** Scores it in two runs: keys and values of the trace go through the host. */
export async function inTwoRuns(session, { branches, ...trace }) {
  await session.run([{ ...trace, branches: [] }], 1);
  await session.branches(1, [branches]);
  await session.release(1);
}

/** A trace of T tokens as the estimators take it, cut into K segments; all are of one group. */
export function valueJob(row, { prompt, T, K, reference }, tokens) {
  const units = Int32Array.from({ length: T + 1 }, (_, t) => t);
  const opts = { segmenter: 'fixed', fixedLength: Math.ceil(T / K), maxSegments: K };
  return {
    trace: { id: `${row}`, group: 'g', source: { file: 'in', row, ordinal: row } },
    reward: { reward: row % 2 },
    promptIds: prompt,
    completionIds: tokens(T),
    pieces: cutPieces({ text: 'x'.repeat(T), units, textEnd: T }, opts),
    continuations: [reference],
    asked: { atExits: [reference] },
  };
}

/** A random policy of a shape, in a folder that the next measurement finds again, opened. */
export async function openRandom(name, shape = SMALL) {
  const folder = await randomPolicy(join(tmpdir(), `rredcot-bench-${name}`), shape);
  return ModelSession.open(await openPolicyFolder(folder));
}
