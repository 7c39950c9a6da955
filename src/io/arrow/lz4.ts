// Unpacks LZ4 frames, in which some Arrow files hold their bodies.

const LZ4_MAGIC = 0x184d2204;
const MIN_MATCH = 4;
/** A frame may say how much it holds; a false size must not cost more memory than its data can make. */
const MAX_RATIO = 255;

/**
 * Decodes one or more LZ4 frames. Checksums are passed over: what uses this checks lengths.
 * @throws Error where the data is cut off or points outside itself
 */
export function decompressLz4(packed: Uint8Array): Uint8Array {
  const view = new DataView(packed.buffer, packed.byteOffset, packed.byteLength);
  let output = new Uint8Array(Math.max(64, packed.length * 4));
  let length = 0;

  function reserve(more: number): void {
    if (length + more <= output.length) return;
    const larger = new Uint8Array(Math.max(length + more, output.length * 2));
    larger.set(output.subarray(0, length));
    output = larger;
  }
  let at = 0;
  while (at < packed.length) {
    const frame = readHeader(view, at);
    at = frame.next;
    if (frame.contentBytes !== null && frame.contentBytes <= packed.length * MAX_RATIO)
      reserve(frame.contentBytes);
    const start = length; // matches reach back to here, over the frame's blocks
    for (;;) {
      const word = uint32(view, at);
      at += 4;
      if (word === 0) break;
      const size = word & 0x7fffffff;
      const block = slice(packed, at, size);
      at += size + (frame.hasBlockChecksums ? 4 : 0);
      if (word >>> 31 === 1) {
        reserve(size);
        output.set(block, length);
        length += size;
      } else {
        reserve(frame.blockBytes);
        length = decodeBlock(block, output, length, start);
      }
    }
    if (frame.hasContentChecksum) at += 4;
    if (frame.contentBytes !== null && length - start !== frame.contentBytes)
      throw new Error(`lz4 frame holds ${length - start} bytes, its header says ${frame.contentBytes}`);
  }
  return output.subarray(0, length);
}

// the frame format's first bytes: magic, flags, block size, sizes by flag, a checksum byte
function readHeader(view: DataView, start: number) {
  if (uint32(view, start) !== LZ4_MAGIC) throw new Error('no lz4 frame');
  if (start + 7 > view.byteLength) throw new Error('lz4 frame is cut off');
  const flags = view.getUint8(start + 4);
  const sizeCode = (view.getUint8(start + 5) >> 4) & 7;
  if (flags >> 6 !== 1 || sizeCode < 4 || (flags & 1) === 1)
    throw new Error(
      `lz4 frame has flags ${flags} and block size ${sizeCode}, expected version 1 without a dictionary`,
    );
  const hasContentSize = (flags & 8) !== 0;
  if (hasContentSize && start + 15 > view.byteLength) throw new Error('lz4 frame is cut off');
  return {
    next: start + 6 + (hasContentSize ? 8 : 0) + 1,
    blockBytes: 2 ** (8 + 2 * sizeCode),
    contentBytes: hasContentSize ? Number(view.getBigUint64(start + 6, true)) : null,
    hasBlockChecksums: (flags & 16) !== 0,
    hasContentChecksum: (flags & 4) !== 0,
  };
}

// sequences of literals and a match each; the last has literals only
function decodeBlock(block: Uint8Array, output: Uint8Array, from: number, start: number): number {
  let to = from;
  let at = 0;
  while (at < block.length) {
    const token = block[at++] as number;
    let literals = token >> 4;
    if (literals === 15) {
      let more: number;
      do {
        more = byteAt(block, at++);
        literals += more;
      } while (more === 255);
    }
    if (at + literals > block.length || to + literals > output.length)
      throw new Error('lz4 block is cut off');
    if (literals < 16) for (let i = 0; i < literals; i++) output[to + i] = block[at + i] as number;
    else output.set(block.subarray(at, at + literals), to);
    at += literals;
    to += literals;
    if (at === block.length) return to;

    const distance = byteAt(block, at) | (byteAt(block, at + 1) << 8);
    at += 2;
    let length = (token & 15) + MIN_MATCH;
    if (length === 15 + MIN_MATCH) {
      let more: number;
      do {
        more = byteAt(block, at++);
        length += more;
      } while (more === 255);
    }
    const source = to - distance;
    if (distance === 0 || source < start || to + length > output.length)
      throw new Error('lz4 block points outside its frame');
    // a match may run into the bytes it makes: then it is copied byte by byte
    if (distance >= length && length > 32) output.copyWithin(to, source, source + length);
    else for (let i = 0; i < length; i++) output[to + i] = output[source + i] as number;
    to += length;
  }
  return to;
}

function byteAt(bytes: Uint8Array, at: number): number {
  if (at >= bytes.length) throw new Error('lz4 block is cut off');
  return bytes[at] as number;
}

function uint32(view: DataView, at: number): number {
  if (at + 4 > view.byteLength) throw new Error('lz4 frame is cut off');
  return view.getUint32(at, true);
}

function slice(bytes: Uint8Array, at: number, length: number): Uint8Array {
  if (at + length > bytes.length) throw new Error('lz4 frame is cut off');
  return bytes.subarray(at, at + length);
}
