// Arrow streams that follow each other on one pipe, as `score --stream` reads and writes them.
import { Schema } from 'apache-arrow';
import { dataError } from '../../errors.js';
import type { ByteSink } from '../files/stdout.js';
import { openArrowBatches } from './writer.js';

const CONTINUATION = 0xffffffff;

/** Each of them whole, from its schema to its end. @throws RredcotError (exit 65) for bytes that are none */
export async function* arrowStreams(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const bytes = exactly(chunks);
  for (let parts: Buffer[] = []; ; ) {
    const head = await bytes(8, parts.length === 0);
    if (head === undefined) return;
    const length = head.readInt32LE(4);
    if (head.readUInt32LE(0) !== CONTINUATION || length < 0) throw noStream('begins no message of one');
    parts.push(head);
    if (length === 0) {
      yield Buffer.concat(parts);
      parts = [];
      continue;
    }
    const metadata = (await bytes(length)) as Buffer;
    parts.push(metadata, (await bytes(bodyLength(metadata))) as Buffer);
  }
}

/** The bytes behind a message: the field 3 of its flatbuffer (Message.fbs), 0 where it is not written. */
function bodyLength(metadata: Buffer): number {
  try {
    const table = metadata.readUInt32LE(0);
    const fields = table - metadata.readInt32LE(table);
    const isWritten = metadata.readUInt16LE(fields) >= 12;
    const place = isWritten ? metadata.readUInt16LE(fields + 10) : 0;
    return place === 0 ? 0 : Number(metadata.readBigInt64LE(table + place));
  } catch {
    throw noStream('has a message that cannot be read');
  }
}

/** Takes so many bytes at a time. @returns undefined at the end, where it may be */
function exactly(chunks: AsyncIterable<Buffer>) {
  const rest = chunks[Symbol.asyncIterator]();
  let held: Buffer[] = [];
  let size = 0;
  return async (wanted: number, mayEnd = false): Promise<Buffer | undefined> => {
    while (size < wanted) {
      const { done, value } = await rest.next();
      if (done && size === 0 && mayEnd) return undefined;
      if (done) throw noStream('was cut off');
      held.push(value);
      size += value.length;
    }
    const all = Buffer.concat(held);
    held = [all.subarray(wanted)];
    size -= wanted;
    return all.subarray(0, wanted);
  };
}

function noStream(why: string): Error {
  return dataError(`stdin: expected Arrow streams one behind the other, and what came ${why}`);
}

/** A stream without rows, whose schema carries a text or two. */
export async function toldStream(sink: ByteSink, metadata: Readonly<Record<string, string>>): Promise<void> {
  await openArrowBatches(sink, new Schema([], new Map(Object.entries(metadata))), 'stream').close();
}
