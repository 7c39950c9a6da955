// Arrow streams that follow each other on one pipe, as `score --stream` reads them.
import { dataError } from '../../errors.js';

const CONTINUATION = 0xffffffff;

/** Each of them whole, from its schema to its end. @throws RredcotError (exit 65) for bytes that are none */
export async function* arrowStreams(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const take = exactly(chunks);
  for (let parts: Buffer[] = []; ; ) {
    const head = await take(8);
    if (head.length === 0 && parts.length === 0) return;
    const isMessage = head.length === 8 && head.readUInt32LE(0) === CONTINUATION;
    const metadata = isMessage ? await take(head.readInt32LE(4)) : undefined;
    const body = metadata && (metadata.length === 0 ? 0 : bodyLength(metadata));
    if (metadata === undefined || body === undefined)
      throw dataError(
        'stdin: expected Arrow streams, one behind the other',
        'pyarrow.ipc.new_stream writes one',
      );
    parts.push(head, metadata, await take(body));
    if (metadata.length > 0) continue;
    yield Buffer.concat(parts);
    parts = [];
  }
}

/** The bytes behind a message: field 3 of its flatbuffer (Message.fbs), which is not written where it is 0; undefined where it is none. */
function bodyLength(metadata: Buffer): number | undefined {
  try {
    const table = metadata.readUInt32LE(0);
    const fields = table - metadata.readInt32LE(table);
    const place = metadata.readUInt16LE(fields) >= 12 ? metadata.readUInt16LE(fields + 10) : 0;
    return place === 0 ? 0 : Number(metadata.readBigInt64LE(table + place));
  } catch {
    return undefined;
  }
}

/** Takes so many bytes at a time: fewer at the end. */
function exactly(chunks: AsyncIterable<Buffer>) {
  const rest = chunks[Symbol.asyncIterator]();
  let held: Buffer[] = [];
  return async (wanted: number): Promise<Buffer> => {
    for (let size = held[0]?.length ?? 0; size < wanted; ) {
      const { done, value } = await rest.next();
      if (done) break;
      size += held.push(value) && value.length;
    }
    const all = held.length === 1 ? (held[0] as Buffer) : Buffer.concat(held);
    held = [all.subarray(wanted)];
    return all.subarray(0, wanted);
  };
}
