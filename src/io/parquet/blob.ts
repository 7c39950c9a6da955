// Gives parquet-wasm what it asks of a Blob from an open file: its size, and the bytes of a range.
//
// node:fs has openAsBlob, which fails without a reason where another process removes or replaces the file: an open file
// stays what it was.
import type { FileHandle } from 'node:fs/promises';
import { readWhole } from '../files/exact-bytes.js';

/** Bytes that are asked for by their place. */
export interface BlobBytes {
  readonly size: number;
  read(from: number, to: number): Promise<ArrayBuffer>;
}

/**
 * What `ParquetFile.fromFile` takes for a Blob.
 * @param onFailure told why a read failed: parquet-wasm only panics
 */
export function blobOf({ size, read }: BlobBytes, onFailure: (error: unknown) => void): Blob {
  const arrayBuffer = async (from: number, to: number): Promise<ArrayBuffer> => {
    try {
      return await read(from, to);
    } catch (error) {
      onFailure(error);
      throw error;
    }
  };
  const slice = (from: number, to: number) => ({ arrayBuffer: () => arrayBuffer(from, to) });
  return { size, slice, arrayBuffer: () => arrayBuffer(0, size) } as unknown as Blob;
}

/** A whole file, which the caller closes. @param onFailure as of `blobOf` */
export async function blobOfFile(file: FileHandle, onFailure: (error: unknown) => void): Promise<Blob> {
  const { size } = await file.stat();
  const read = async (from: number, to: number): Promise<ArrayBuffer> => {
    const bytes = await readWhole(file, new Uint8Array(to - from), from);
    return bytes.buffer;
  };
  return blobOf({ size, read }, onFailure);
}
