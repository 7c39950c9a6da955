// Reads a Parquet file's footer as the tree that it is, for files that are put together.

import { EXIT, RredcotError, usageError } from '../../errors.js';
import { openFile } from '../files/opened.js';
import { MAGIC } from './part.js';
import { readThrift, type ThriftStruct } from './thrift.js';

const TAIL_BYTES = 8;
/** More than the largest footer seen; a damaged length must not cost that much memory. */
const MAX_FOOTER_BYTES = 2 ** 30;

/** Reads a footer as the tree that it is. @throws RredcotError (exit 65) where it is missing or damaged */
export async function readFooter<T>(
  path: string,
  parse: (file: ThriftStruct, size: number) => T,
): Promise<T> {
  await using file = await openFile(path);
  const { size } = await file.stat();
  const tail = Buffer.alloc(TAIL_BYTES);
  if (size >= MAGIC.length + TAIL_BYTES) await file.read(tail, 0, TAIL_BYTES, size - TAIL_BYTES);
  const length = tail.readUInt32LE(0);
  const hint = 'write or fetch the file again';
  if (tail.toString('latin1', 4) === 'PARE')
    throw usageError(`${path}: is an encrypted Parquet file`, 'decrypt it first');
  if (
    !tail.subarray(4).equals(MAGIC) ||
    length > Math.min(size - MAGIC.length - TAIL_BYTES, MAX_FOOTER_BYTES)
  ) {
    const { buffer } = await file.read(Buffer.alloc(MAGIC.length), 0, MAGIC.length, 0);
    const found = buffer.equals(MAGIC)
      ? `begins as a Parquet file of ${size} bytes but has no footer at its end: it was cut off`
      : 'is no Parquet file';
    throw new RredcotError(`${path}: ${found}`, { exitCode: EXIT.data, hint });
  }
  const bytes = Buffer.alloc(length);
  await file.read(bytes, 0, length, size - TAIL_BYTES - length);
  try {
    return parse(readThrift(bytes), size);
  } catch (error) {
    if (error instanceof RredcotError) throw error;
    throw new RredcotError(`${path}: its footer is damaged: ${(error as Error).message}`, {
      exitCode: EXIT.data,
      hint,
      cause: error,
    });
  }
}
