// Zstandard's frame headers as they pass by: a frame whose window would take gigabytes is refused before it is unpacked.
// (https://datatracker.ietf.org/doc/html/rfc8878#section-3.1)

/** What zstd itself unpacks unless told otherwise (windowLog 27), and so what its own levels make. */
const MOST_WINDOW_BYTES = 128 * 2 ** 20;
const MAGIC = 0xfd2fb528;
/** magic, descriptor, window, dictionary, content size */
const LONGEST_HEADER = 18;

/** A frame asks for a larger window than we give. */
export class WindowError extends Error {}

/** Follows the bytes of a file, however they are cut. */
export class ZstdWindows {
  /** the beginning of a header */
  private held = Buffer.alloc(0);
  /** bytes until the next header */
  private ahead = 0;
  private next: 'frame' | 'block' = 'frame';
  private hasChecksum = false;

  /** @throws WindowError; whatever else is wrong the unpacker finds */
  follow(bytes: Buffer): void {
    let rest = this.held.length === 0 ? bytes : Buffer.concat([this.held, bytes]);
    for (;;) {
      const passed = Math.min(this.ahead, rest.length);
      this.ahead -= passed;
      rest = rest.subarray(passed);
      const header = this.next === 'frame' ? this.frameHeader(rest) : this.blockHeader(rest);
      if (header === 0) break;
      rest = rest.subarray(header);
    }
    // of what is no frame nothing is kept
    this.held = rest.length > LONGEST_HEADER ? Buffer.alloc(0) : Buffer.from(rest);
  }

  /** @returns bytes of the header; 0 where it is not whole */
  private frameHeader(bytes: Buffer): number {
    if (bytes.length < 8) return 0;
    const magic = bytes.readUInt32LE(0);
    if (magic >>> 4 === 0x184d2a5) {
      this.ahead = bytes.readUInt32LE(4);
      return 8;
    }
    if (magic !== MAGIC) return 0;
    const descriptor = bytes[4] as number;
    const isSingle = (descriptor & 0x20) !== 0;
    const dictionary = [0, 1, 2, 4][descriptor & 3] as number;
    const sizeCode = descriptor >> 6;
    const sizeBytes = sizeCode === 0 ? Number(isSingle) : 2 ** sizeCode;
    const length = 5 + Number(!isSingle) + dictionary + sizeBytes;
    if (bytes.length < length) return 0;
    const window = isSingle
      ? contentSize(bytes.subarray(length - sizeBytes, length))
      : windowSize(bytes[5] as number);
    if (window > MOST_WINDOW_BYTES)
      throw new WindowError(
        `a zstd frame needs ${window} bytes to be unpacked, expected at most ${MOST_WINDOW_BYTES}`,
      );
    this.hasChecksum = (descriptor & 4) !== 0;
    this.next = 'block';
    return length;
  }

  private blockHeader(bytes: Buffer): number {
    if (bytes.length < 3) return 0;
    const header = bytes.readUIntLE(0, 3);
    const isRun = ((header >> 1) & 3) === 1; // one byte, repeated
    const isLast = (header & 1) === 1;
    this.ahead = (isRun ? 1 : header >> 3) + (isLast && this.hasChecksum ? 4 : 0);
    if (isLast) this.next = 'frame';
    return 3;
  }
}

function windowSize(byte: number): number {
  const base = 2 ** (10 + (byte >> 3));
  return base + (base / 8) * (byte & 7);
}

function contentSize(bytes: Buffer): number {
  if (bytes.length === 8) return Number(bytes.readBigUInt64LE());
  return bytes.length === 2 ? bytes.readUInt16LE() + 256 : bytes.readUIntLE(0, bytes.length);
}
