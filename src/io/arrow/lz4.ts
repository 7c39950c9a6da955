// Unpacks LZ4 frames, in which some Arrow files hold their bodies.

const LZ4_MAGIC = 0x184d2204;
const MIN_MATCH = 4;
/** A frame may say how much it holds; a false size must not cost more memory than its data can make. */
const MAX_RATIO = 255;

/** Decodes LZ4 frames. Checksums are not looked at: the caller checks lengths. @throws Error where the data is cut off or points outside itself */
export function decompressLz4(packed: Uint8Array): Uint8Array {
  const view = new DataView(packed.buffer, packed.byteOffset, packed.length);
  let output = new Uint8Array(Math.max(64, packed.length * 4));
  let length = 0;

  function reserve(more: number): void {
    if (length + more <= output.length) return;
    const larger = new Uint8Array(Math.max(length + more, output.length * 2));
    larger.set(output.subarray(0, length));
    output = larger;
  }
  for (let at = 0; at < packed.length; ) {
    if (view.getUint32(at, true) !== LZ4_MAGIC) throw new Error('no lz4 frame');
    const flags = view.getUint8(at + 4);
    const sizeCode = (view.getUint8(at + 5) >> 4) & 7;
    if (flags >> 6 !== 1 || sizeCode < 4 || (flags & 1) === 1)
      throw new Error(
        `lz4 frame has flags ${flags} and block size ${sizeCode}, expected version 1 without a dictionary`,
      );
    const contentBytes = (flags & 8) === 0 ? null : Number(view.getBigUint64(at + 6, true));
    if (contentBytes !== null && contentBytes <= packed.length * MAX_RATIO) reserve(contentBytes);
    at += contentBytes === null ? 7 : 15;
    const start = length; // matches reach back to here, over the frame's blocks
    for (let word = view.getUint32(at, true); word !== 0; word = view.getUint32(at, true)) {
      const size = word & 0x7fffffff;
      const block = packed.subarray(at + 4, at + 4 + size);
      if (block.length < size) throw new Error('lz4 frame is cut off');
      const isRaw = word >>> 31 === 1;
      reserve(isRaw ? size : 2 ** (8 + 2 * sizeCode));
      if (isRaw) output.set(block, length);
      length = isRaw ? length + size : decodeBlock(block, output, length, start);
      at += 4 + size + ((flags & 16) === 0 ? 0 : 4);
    }
    at += (flags & 4) === 0 ? 4 : 8;
    if (contentBytes !== null && length - start !== contentBytes)
      throw new Error(`lz4 frame holds ${length - start} bytes, its header says ${contentBytes}`);
  }
  return output.subarray(0, length);
}

// sequences of literals and a match each; the last has literals only
function decodeBlock(block: Uint8Array, output: Uint8Array, from: number, start: number): number {
  const view = new DataView(block.buffer, block.byteOffset, block.length);
  let to = from;
  let at = 0;
  function extended(nibble: number): number {
    let length = nibble;
    if (nibble === 15) for (let more = 255; more === 255; length += more) more = view.getUint8(at++);
    return length;
  }
  while (at < block.length) {
    const token = view.getUint8(at++);
    const literals = extended(token >> 4);
    if (at + literals > block.length || to + literals > output.length)
      throw new Error('lz4 block is cut off');
    if (literals < 16) for (let i = 0; i < literals; i++) output[to + i] = block[at + i] as number;
    else output.set(block.subarray(at, at + literals), to);
    at += literals;
    to += literals;
    if (at === block.length) return to;

    const distance = view.getUint16(at, true);
    at += 2;
    const length = extended(token & 15) + MIN_MATCH;
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
