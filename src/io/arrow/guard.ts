// Keeps arrow-js from believing the lengths that damaged metadata names: it would make lists of billions of entries.

import { ByteBuffer } from 'flatbuffers';

const vectorLength = ByteBuffer.prototype.__vector_len;

// every list in a message's metadata gets its length here, and no list has more entries than the metadata has bytes
ByteBuffer.prototype.__vector_len = function guarded(this: ByteBuffer, offset: number): number {
  const length = vectorLength.call(this, offset);
  if (length < 0 || length > this.capacity())
    throw new Error(`a list of ${length} entries in ${this.capacity()} bytes of metadata`);
  return length;
};
