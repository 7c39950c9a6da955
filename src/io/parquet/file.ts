// Opens a Parquet file for parquet-wasm, which reads what looks like a Blob: the magic at both ends is checked first.
import { isUtf8 } from 'node:buffer';
import { deserializeTCompactProtocol } from 'hyparquet/src/thrift.js';
import type { ParquetFile } from 'parquet-wasm/node';
import { dataError } from '../../errors.js';
import { type OpenFile, readWhole } from '../files/files.js';

const MAGIC = 'PAR1';
/** The footer's length and the magic, at the end. */
const TAIL_BYTES = 8;
/** More than the largest footer seen; a damaged length must not cost that much memory. */
const MAX_FOOTER_BYTES = 2 ** 30;
/** Writers of Arrow keep its schema in the footer under this key. */
const ARROW_SCHEMA = 'ARROW:schema';

/**
 * @param onFailure told why a read failed: parquet-wasm only panics
 * @param hidesArrowSchema the types are those of Parquet: parquet-wasm crashes on the dictionaries that polars declares, and on words that are no text
 * @throws RredcotError (exit 65) where the footer is missing, Error of parquet-wasm where it is damaged
 */
export async function openParquetFile(
  { ParquetFile: Wasm }: { readonly ParquetFile: typeof ParquetFile },
  file: OpenFile,
  path: string,
  onFailure: (error: unknown) => void,
  hidesArrowSchema = false,
): Promise<ParquetFile> {
  const { size } = await file.stat();
  const footerAt = await findFooter(file, path, size);

  const slice = (from: number, to: number) => ({
    async arrayBuffer(): Promise<ArrayBuffer> {
      try {
        const bytes = await readWhole(file, Buffer.alloc(to - from), from);
        if (hidesArrowSchema && from === footerAt) hideWords(bytes);
        return bytes.buffer as ArrayBuffer;
      } catch (error) {
        onFailure(error);
        throw error;
      }
    },
  });
  return Wasm.fromFile({ size, slice } as unknown as Blob);
}

/** Makes a key that nobody looks for of that of the Arrow schema, and ASCII of what is no text: parquet-wasm would refuse the file. */
function hideWords(footer: Buffer): void {
  const view = new DataView(footer.buffer, footer.byteOffset, footer.length);
  const { field_5: words = [] } = deserializeTCompactProtocol({ view, offset: 0 });
  for (const word of words.flatMap(Object.values) as Uint8Array[])
    if (!isUtf8(word)) word.set(word.map((byte) => (byte > 127 ? 63 : byte)));
    else if (Buffer.from(word).equals(Buffer.from(ARROW_SCHEMA))) word[0] = 45;
}

/** @returns where the footer begins */
async function findFooter(file: OpenFile, path: string, size: number): Promise<number> {
  const tail = Buffer.alloc(TAIL_BYTES);
  const least = MAGIC.length + TAIL_BYTES;
  if (size >= least) await readWhole(file, tail, size - TAIL_BYTES);
  const length = tail.readUInt32LE(0);
  const magic = tail.toString('latin1', 4);
  if (magic === MAGIC && length <= Math.min(size - least, MAX_FOOTER_BYTES))
    return size - TAIL_BYTES - length;
  const { buffer } = await file.read(Buffer.alloc(MAGIC.length), 0, MAGIC.length, 0);
  const found =
    buffer.toString('latin1') === MAGIC
      ? `begins as a Parquet file of ${size} bytes but has no footer at its end: it was cut off`
      : 'is no Parquet file';
  throw dataError(`${path}: ${found}`, 'write or fetch the file again');
}

/** What a footer says of itself, without the Arrow schema. */
export function metadataOf(parquet: ParquetFile): Map<string, string> {
  const found: Map<string, string> = parquet.metadata().fileMetadata().keyValueMetadata();
  return new Map([...found].filter(([key]) => !key.endsWith(ARROW_SCHEMA.slice(1))));
}
