// Writes the weights of a policy anew, a few rows at a time: experts stacked, and what an adapter adds merged: W + s·B A.
import { type FileHandle, open, rm } from 'node:fs/promises';
import { dataError, usageError } from '../../errors.js';
import { fromFloat16, toFloat16 } from '../onnx/float16.js';
import type { Checkpoint } from './checkpoint.js';
import type { Rows } from './experts.js';
import type { Dtype } from './onnx.js';
import type { Weight } from './operators.js';
import { AGAIN, bytesOf, product, type StoredTensor, safetensorsHeader } from './safetensors.js';

/** The two matrices that are added to one, and what their product is multiplied by. */
export interface Delta {
  readonly a: StoredTensor; // [r,in]
  readonly b: StoredTensor; // [out,r]
  readonly scale: number;
}
export interface Adapter {
  readonly file: string;
  /** by the name of the weight that each changes */
  readonly deltas: ReadonlyMap<string, Delta>;
}

/**
 * Weights that are to be written, each of the type that it has in the checkpoint.
 * @param location name of the file @returns weights: where each will lie; write: writes them all, and replaces what has the name, whatever that is linked to
 * @throws RredcotError (exit 2) where parts of one are of two types
 */
export function writtenWeights(
  { weights: base, files, made }: Omit<Checkpoint, 'architecture'>,
  location: string,
  adapter?: Adapter,
) {
  const typed = made.map(({ name, shape, parts }) => {
    const sources = parts.flat().map((part) => base.get(part.name) as Weight);
    const one = sources[0] as Weight;
    const other = sources.find(({ dtype }) => dtype !== one.dtype);
    if (other) {
      const both = `${other.name} is ${other.dtype}, ${one.name} ${one.dtype}`;
      throw usageError(`${both}: they go into one tensor`, AGAIN);
    }
    return { ...one, name, shape, length: bytesOf(one) * product(shape) };
  });
  const { header, weights } = safetensorsHeader(typed, location);
  return {
    weights,
    async write(to: string): Promise<void> {
      // a link to the base would hand on what is written
      await rm(to, { force: true });
      await using out = await open(to, 'wx');
      await using own = adapter && (await open(adapter.file));
      await out.appendFile(header);
      const opened = new Map<string, FileHandle>();
      const readerOf = async ({ name, first }: Rows) => {
        const weight = base.get(name) as Weight;
        const delta = adapter?.deltas.get(name);
        const added = own && delta && (await numbersOf(own, delta));
        const file = opened.get(weight.location) as FileHandle;
        return (done: number, count: number) => rowsOf(file, weight, first + done, count, added);
      };
      try {
        for (const { name, path } of files) opened.set(name, await open(path));
        for (const { shape, parts } of made)
          for (const group of parts) {
            const readers = await Promise.all(group.map(readerOf));
            const { count } = group[0] as Rows;
            const step = Math.max(1, Math.floor(BLOCK / (shape.at(-1) as number)));
            for (let done = 0; done < count; done += step) {
              const rows = Math.min(step, count - done);
              const blocks: Buffer[] = [];
              for (const read of readers) blocks.push(await read(done, rows));
              await out.appendFile(inTurns(blocks, rows));
            }
          }
      } finally {
        for (const each of opened.values()) await each.close();
      }
    },
  };
}

/** Numbers that are read at once. */
const BLOCK = 2 ** 22;

/** Some rows of a weight, from one on, with what is added to them. */
async function rowsOf(
  file: FileHandle,
  weight: Weight,
  from: number,
  count: number,
  added?: Awaited<ReturnType<typeof numbersOf>>,
): Promise<Buffer> {
  const width = weight.shape.at(-1) as number;
  const size = width * bytesOf(weight);
  const bytes = await bytesAt(file, weight.offset + from * size, count * size, weight.name);
  if (!added) return bytes;
  const { a, b, scale, rank } = added;
  const rows = toNumbers(bytes, weight.dtype);
  const sum = new Float64Array(width);
  for (let row = 0; row < count; row++) {
    sum.fill(0);
    for (let j = 0; j < rank; j++) {
      const factor = scale * (b[(from + row) * rank + j] as number);
      for (let i = 0; i < width; i++) sum[i] = (sum[i] as number) + factor * (a[j * width + i] as number);
    }
    for (let i = 0; i < width; i++)
      rows[row * width + i] = (rows[row * width + i] as number) + (sum[i] as number);
  }
  return toBytes(rows, weight.dtype);
}

/** Blocks of so many rows each, a row of each in turns. */
function inTurns(blocks: readonly Buffer[], count: number): Buffer {
  const [one] = blocks as [Buffer];
  if (blocks.length === 1) return one;
  const size = one.length / count;
  const all = Buffer.alloc(one.length * blocks.length);
  for (let row = 0; row < count; row++)
    for (const [i, block] of blocks.entries())
      block.copy(all, (row * blocks.length + i) * size, row * size, (row + 1) * size);
  return all;
}

async function numbersOf(file: FileHandle, { a, b, scale }: Delta) {
  const read = async ({ offset, length, name, dtype }: StoredTensor) =>
    toNumbers(await bytesAt(file, offset, length, name), dtype);
  return { a: await read(a), b: await read(b), scale, rank: a.shape[0] as number };
}

/** @throws RredcotError (exit 65) where the file ends before */
async function bytesAt(file: FileHandle, position: number, length: number, name: string): Promise<Buffer> {
  const bytes = Buffer.alloc(length);
  for (let at = 0; at < length; ) {
    const { bytesRead } = await file.read(bytes, at, length - at, position + at);
    if (bytesRead === 0) throw dataError(`tensor ${name}: its file has become shorter meanwhile`, AGAIN);
    at += bytesRead;
  }
  return bytes;
}

function toNumbers({ buffer, byteOffset, byteLength }: Buffer, dtype: Dtype): Float32Array {
  const bytes = buffer.slice(byteOffset, byteOffset + byteLength);
  if (dtype === 'f32') return new Float32Array(bytes);
  const halves = new Uint16Array(bytes);
  if (dtype === 'bf16') return new Float32Array(Uint32Array.from(halves, (half) => half << 16).buffer);
  const numbers = new Float32Array(halves.length);
  fromFloat16(halves, numbers);
  return numbers;
}

/** To nearest, ties to even. */
function toBytes(numbers: Float32Array, dtype: Dtype): Buffer {
  if (dtype === 'f16') return Buffer.from(toFloat16(numbers).buffer);
  if (dtype === 'f32') return Buffer.from(numbers.buffer);
  const bits = new Uint32Array(numbers.buffer);
  return Buffer.from(Uint16Array.from(bits, (x) => (x + 0x7fff + ((x >>> 16) & 1)) >>> 16).buffer);
}
