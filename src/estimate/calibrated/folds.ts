// Which fold a group belongs to, by its hash, and which groups a fit has seen.
import { createHash } from 'node:crypto';

/** Parts that the groups fall into: a trace's value is fitted on the other four. */
export const FOLDS = 5;
/** Groups that a fit keeps in mind; with more of them every group is taken for one of the fit's, in its own fold. */
const MAX_KNOWN = 2 ** 18;

/** A group by its hash. */
export interface GroupPlace {
  readonly fold: number;
  /** 32 further bits, by which it is known again */
  readonly mark: number;
}

/** @param key the trace's group, or its id where it has none */
export function groupPlace(key: string): GroupPlace {
  const hash = createHash('sha256').update(key).digest();
  return { fold: hash.readUInt32BE(0) % FOLDS, mark: hash.readUInt32BE(4) };
}

/** The groups of a fit: none is forgotten, and of others 1 in 16,000 at most is taken for one of them. */
export class KnownGroups {
  readonly #marks = new Set<number>();
  #isFull = false;

  add({ mark }: GroupPlace): void {
    if (this.#marks.size < MAX_KNOWN) this.#marks.add(mark);
    else if (!this.#marks.has(mark)) this.#isFull = true;
  }

  has({ mark }: GroupPlace): boolean {
    return this.#isFull || this.#marks.has(mark);
  }

  /** How many there are; with `isFull` at least so many. */
  get size(): number {
    return this.#marks.size;
  }

  get isFull(): boolean {
    return this.#isFull;
  }

  /** As text: the sorted marks, 4 bytes each (little endian) in base64; null where there are too many. */
  toText(): string | null {
    if (this.#isFull) return null;
    const bytes = Buffer.alloc(4 * this.#marks.size);
    for (const [n, mark] of Uint32Array.from(this.#marks).sort().entries()) bytes.writeUInt32LE(mark, 4 * n);
    return bytes.toString('base64');
  }

  /** What {@link toText} has written. */
  static ofText(text: string | null): KnownGroups {
    const known = new KnownGroups();
    if (text === null) known.#isFull = true;
    const bytes = Buffer.from(text ?? '', 'base64');
    for (let at = 0; at + 4 <= bytes.length; at += 4) known.#marks.add(bytes.readUInt32LE(at));
    return known;
  }
}
