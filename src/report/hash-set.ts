// Remembers which texts were seen before, in 16 to 32 bytes each.

/** Texts by 64 bits of a hash: 100 million of them take 2 GB, and two are taken for one with odds of 1 to 4,000. */
export class HashSet {
  #slots = new Uint32Array(2 * 1024);
  #size = 0;

  /** @returns whether it was not there */
  add(text: string): boolean {
    if (4 * this.#size >= this.#slots.length) this.#grow();
    const [high, low] = hash64(text);
    const at = this.#find(high, low);
    if (this.#slots[at] !== 0 || this.#slots[at + 1] !== 0) return false;
    this.#slots[at] = high;
    this.#slots[at + 1] = low;
    this.#size++;
    return true;
  }

  /** Where a hash is, or goes. */
  #find(high: number, low: number): number {
    const mask = this.#slots.length - 1;
    for (let at = (2 * low) & mask; ; at = (at + 2) & mask) {
      const isFree = this.#slots[at] === 0 && this.#slots[at + 1] === 0;
      if (isFree || (this.#slots[at] === high && this.#slots[at + 1] === low)) return at;
    }
  }

  #grow(): void {
    const before = this.#slots;
    this.#slots = new Uint32Array(2 * before.length);
    for (let n = 0; n < before.length; n += 2) {
      const [high, low] = [before[n] as number, before[n + 1] as number];
      if (high === 0 && low === 0) continue;
      this.#slots.set([high, low], this.#find(high, low));
    }
  }
}

/** Two 32-bit hashes of a text's code units (multiply and mix, as MurmurHash's last steps do); never both 0. */
function hash64(text: string): readonly [number, number] {
  let a = 0x9e3779b9;
  let b = 0x85ebca6b;
  for (let n = 0; n < text.length; n++) {
    const unit = text.charCodeAt(n);
    a = Math.imul(a ^ unit, 0x9e3779b1);
    b = Math.imul(b ^ unit, 0x5f356495);
    a ^= a >>> 15;
    b ^= b >>> 13;
  }
  a = Math.imul(a ^ (a >>> 16) ^ text.length, 0x85ebca6b) ^ (b >>> 13);
  b = Math.imul(b ^ (b >>> 16), 0xc2b2ae35) ^ (a >>> 16);
  return [a >>> 0, b >>> 0 || 1];
}
