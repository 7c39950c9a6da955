// Reads the header of a safetensors file (https://github.com/huggingface/safetensors#format); the weights stay on disk.
import { open } from 'node:fs/promises';
import { z } from 'zod';
import { usageError } from '../../errors.js';
import { fromJson, inOneLine } from '../text/checked-json.js';
import type { Dtype, ExternalData } from './onnx.js';

/** A tensor and its place in its file. */
export interface StoredTensor extends Omit<ExternalData, 'location'> {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
}

export const product = (shape: readonly number[]): number => shape.reduce((all, n) => all * n, 1);
/** of a number */
export const bytesOf = ({ length, shape }: StoredTensor): number => length / product(shape);

/** what mends a damaged checkpoint */
export const AGAIN = 'copy or download the checkpoint again';

const DTYPES = {
  F32: { dtype: 'f32', bytes: 4 },
  F16: { dtype: 'f16', bytes: 2 },
  BF16: { dtype: 'bf16', bytes: 2 },
} as const satisfies Record<string, { dtype: Dtype; bytes: number }>;

const Header = z.record(z.string(), z.unknown());
const sizes = z.array(z.number().int().nonnegative());
const Entry = z.object({
  dtype: z.enum(['F32', 'F16', 'BF16'], {
    error: ({ input }) => `has dtype ${JSON.stringify(input)}, expected F32, F16 or BF16`,
  }),
  shape: sizes,
  data_offsets: z.tuple([sizes.element, sizes.element]),
});

// the limit of the reference implementation: a larger header is an attack or a damaged length field
const MAX_HEADER_BYTES = 100_000_000;

/** The name of a tensor, of a model that also sees as of one that only reads. */
export function textName(stored: string): string {
  return stored
    .replace(/(^|\.)(model\.language_model|language_model\.model)\./, '$1model.')
    .replace(/^language_model\.lm_head\./, 'lm_head.');
}

/** The tensors of a safetensors file by name, as {@link textName} has it. @throws RredcotError (exit 2) where the header does not describe the file: every range is checked */
export async function readSafetensorsHeader(path: string): Promise<Map<string, StoredTensor>> {
  const fail = (found: string): never => {
    throw usageError(`${path}: not a sound safetensors file: ${found}`, AGAIN);
  };
  await using file = await open(path).catch((cause: unknown) => {
    throw usageError(`${path}: weights cannot be read`, undefined, cause);
  });
  const { size: fileBytes } = await file.stat();
  if (fileBytes < 8) fail(`${fileBytes} bytes long, expected at least 8`);
  const lengthField = Buffer.alloc(8);
  await file.read(lengthField, 0, 8, 0);
  const headerBytes = lengthField.readBigUInt64LE();
  if (headerBytes > BigInt(Math.min(MAX_HEADER_BYTES, fileBytes - 8)))
    fail(`its header claims ${headerBytes} bytes, the file has ${fileBytes}`);
  const header = Buffer.alloc(Number(headerBytes));
  await file.read(header, 0, header.length, 8);
  const entries = fromJson(Header, header.toString('utf8'), path, AGAIN);
  // of the first tensor in the file, and bytes behind it
  const base = 8 + header.length;
  const dataBytes = fileBytes - base;

  const tensors = new Map<string, StoredTensor>();
  for (const [stored, value] of Object.entries(entries)) {
    if (stored === '__metadata__') continue;
    const name = textName(stored);
    if (tensors.has(name)) fail(`tensor ${name} is there twice, once as ${stored}`);
    const entry = Entry.safeParse(value);
    if (!entry.success) return fail(`tensor ${name} ${inOneLine(z.prettifyError(entry.error))}`);
    const { shape, data_offsets } = entry.data;
    const [begin, end] = data_offsets;
    const { dtype, bytes } = DTYPES[entry.data.dtype];
    if (begin > end || end > dataBytes)
      fail(`tensor ${name} lies at ${begin}..${end}, the data has ${dataBytes} bytes`);
    const expected = bytes * product(shape);
    if (expected !== end - begin)
      fail(`tensor ${name} has ${end - begin} bytes, its shape [${shape.join(', ')}] needs ${expected}`);
    tensors.set(name, { name, dtype, shape, offset: base + begin, length: end - begin });
  }
  // one after the other, with nothing between or behind: as the reference implementation demands it
  let end = base;
  const inOrder = [...tensors.values()].sort((a, b) => a.offset - b.offset || a.length - b.length);
  for (const { name, offset, length } of inOrder) {
    if (offset !== end)
      fail(`tensor ${name} begins at byte ${offset - base} of the data, expected ${end - base}`);
    end += length;
  }
  if (end !== base + dataBytes)
    fail(`its tensors end at byte ${end - base} of the data, which has ${dataBytes}`);
  return tensors;
}

/** The header of a file of tensors, one after the other, and where each lies in that. */
export function safetensorsHeader(tensors: readonly StoredTensor[], location: string) {
  const entries: Record<string, object> = {};
  let end = 0;
  const placed = tensors.map((tensor) => {
    const { name, dtype, shape, length } = tensor;
    end += length;
    entries[name] = { dtype: dtype.toUpperCase(), shape, data_offsets: [end - length, end] };
    return { ...tensor, location, offset: end - length };
  });
  const text = JSON.stringify(entries);
  const header = Buffer.alloc(8 + Math.ceil(Buffer.byteLength(text) / 8) * 8, ' ');
  header.writeBigUInt64LE(BigInt(header.length - 8));
  header.write(text, 8);
  const weights = placed.map(
    (each) => [each.name, { ...each, offset: header.length + each.offset }] as const,
  );
  return { header, weights: new Map(weights) };
}

/** That tensors have the shapes that `source`, a file of `folder`, expects. @throws RredcotError (exit 2) where one is missing or has another */
export function assertShapes(
  folder: string,
  source: string,
  shapes: Iterable<readonly [name: string, shape: readonly number[]]>,
  tensors: ReadonlyMap<string, StoredTensor>,
): void {
  for (const [name, shape] of shapes) {
    const tensor = tensors.get(name);
    if (tensor?.shape.join() === shape.join()) continue;
    const found = tensor === undefined ? 'is missing' : `has shape [${tensor.shape.join(', ')}]`;
    throw usageError(
      `${folder}: tensor ${name} ${found}, ${source} expects [${shape.join(', ')}]`,
      `${source} and the weights must be of the same checkpoint`,
    );
  }
}
