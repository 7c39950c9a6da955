// Writes the weights of a policy anew, a few rows at a time: experts stacked, and what an adapter adds merged: W + s·B A.
import { type FileHandle, open, rm } from 'node:fs/promises';
import { dataError } from '../../errors.js';
import { fromFloat16, toFloat16 } from '../onnx/float16.js';
import { type Checkpoint, SINGLE } from './checkpoint.js';
import type { Rows } from './experts.js';
import type { Dtype } from './onnx.js';
import type { Weight } from './operators.js';
import { AGAIN, type StoredTensor, safetensorsHeader } from './safetensors.js';

/** The two matrices that are added to one, and what their product is multiplied by. */
export interface Delta {
  /** [r,in] */
  readonly a: StoredTensor;
  /** [out,r] */
  readonly b: StoredTensor;
  readonly scale: number;
}
export interface Adapter {
  readonly file: string;
  /** by the name of the weight that each changes */
  readonly deltas: ReadonlyMap<string, Delta>;
  /** whose it is, in words */
  readonly about: string;
}

/**
 * Weights that are to be written, each of the type that it has in the checkpoint.
 * @returns weights: where each will lie; write: writes them all, and replaces what has the name, whatever that is linked to
 */
export function writtenWeights({ weights: base, files, made }: Checkpoint, adapter?: Adapter) {
  const all = made.map(({ name, shape, parts }) => {
    const { dtype, ...one } = base.get(parts[0]?.[0]?.name ?? '') as Weight;
    const length = (one.length / product(one.shape)) * product(shape);
    return [name, { name, dtype, shape, offset: 0, length }] as const;
  });
  const { header, tensors } = safetensorsHeader(new Map<string, StoredTensor>(all));
  const weights = new Map(Array.from(tensors, ([name, each]) => [name, { ...each, location: SINGLE }]));
  return {
    weights,
    async write(to: string): Promise<void> {
      // a link to the base would hand on what is written
      await rm(to, { force: true });
      await using out = await open(to, 'wx');
      await using own = adapter && (await open(adapter.file));
      await writeAll(out, header);
      const opened = new Map<string, FileHandle>();
      /** of a tensor, with what is added to it */
      const rowsOf = ({ name, first, count }: Rows) => {
        const weight = base.get(name) as Weight;
        const delta = adapter?.deltas.get(name);
        const added = own && delta && { own, delta };
        return rows(opened.get(weight.location) as FileHandle, weight, first, count, added);
      };
      try {
        for (const { name, path } of files) opened.set(name, await open(path));
        for (const { name, shape, parts } of made) {
          const { length } = weights.get(name) as Weight;
          const bytesOfRow = (length / product(shape)) * (shape.at(-1) as number);
          for (const group of parts)
            for await (const bytes of inTurns(group.map(rowsOf), bytesOfRow)) await writeAll(out, bytes);
        }
      } finally {
        for (const each of opened.values()) await each.close();
      }
    },
  };
}

const product = (shape: readonly number[]): number => shape.reduce((all, n) => all * n, 1);

/** Numbers that are read at once. */
const BLOCK = 2 ** 22;

/** Some rows of a tensor, with what is added to them, in blocks that depend on their width alone. */
async function* rows(
  from: FileHandle,
  { name, dtype, offset, length, shape }: Weight,
  firstOfAll: number,
  count: number,
  added?: { readonly own: FileHandle; readonly delta: Delta },
): AsyncGenerator<Buffer> {
  const width = shape.at(-1) as number;
  const bytesOfRow = (length / product(shape)) * width;
  const [a, b] = added
    ? [await numbersOf(added.own, added.delta.a), await numbersOf(added.own, added.delta.b)]
    : [];
  const rank = added?.delta.a.shape[0] ?? 0;
  const step = Math.max(1, Math.floor(BLOCK / width));
  for (let done = 0; done < count; done += step) {
    const first = firstOfAll + done;
    const bytes = Buffer.alloc(Math.min(step, count - done) * bytesOfRow);
    await readAll(from, bytes, offset + first * bytesOfRow, name);
    if (!a || !b || !added) {
      yield bytes;
      continue;
    }
    const block = toNumbers(bytes, dtype);
    const sum = new Float64Array(width);
    for (let row = 0; row * width < block.length; row++) {
      sum.fill(0);
      for (let j = 0; j < rank; j++) {
        const factor = added.delta.scale * (b[(first + row) * rank + j] as number);
        for (let i = 0; i < width; i++) sum[i] = (sum[i] as number) + factor * (a[j * width + i] as number);
      }
      for (let i = 0; i < width; i++)
        block[row * width + i] = (block[row * width + i] as number) + (sum[i] as number);
    }
    yield toBytes(block, dtype);
  }
}

/** The rows of several parts of one width and count in turns: one of each, and so on. */
async function* inTurns(
  parts: readonly AsyncGenerator<Buffer>[],
  bytesOfRow: number,
): AsyncGenerator<Buffer> {
  const [one, ...others] = parts;
  if (one === undefined) return;
  for await (const block of one) {
    const blocks = [block];
    for (const other of others) blocks.push((await other.next()).value as Buffer);
    yield others.length === 0 ? block : turns(blocks, bytesOfRow);
  }
}

function turns(blocks: readonly Buffer[], bytesOfRow: number): Buffer {
  const length = (blocks[0] as Buffer).length;
  const all = Buffer.alloc(length * blocks.length);
  for (let at = 0; at < length; at += bytesOfRow)
    for (const [i, block] of blocks.entries())
      block.copy(all, at * blocks.length + i * bytesOfRow, at, at + bytesOfRow);
  return all;
}

/** @throws RredcotError (exit 65) where the file ends before */
async function readAll(file: FileHandle, into: Buffer, position: number, name: string): Promise<void> {
  for (let read = 0; read < into.length; ) {
    const { bytesRead } = await file.read(into, read, into.length - read, position + read);
    if (bytesRead === 0) throw dataError(`tensor ${name}: its file has become shorter meanwhile`, AGAIN);
    read += bytesRead;
  }
}

async function writeAll(file: FileHandle, bytes: Buffer): Promise<void> {
  for (let written = 0; written < bytes.length; )
    written += (await file.write(bytes, written, bytes.length - written)).bytesWritten;
}

async function numbersOf(file: FileHandle, tensor: StoredTensor): Promise<Float32Array> {
  const bytes = Buffer.alloc(tensor.length);
  await readAll(file, bytes, tensor.offset, tensor.name);
  return toNumbers(bytes, tensor.dtype);
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
