// Groups of traces as fits know them: by a hash, in folds, and by their rewards.
import { createHash } from 'node:crypto';
import type { Trace } from '../../trace.js';

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

/** What a trace is left out of a fit with: its group, or itself. */
export function groupPlace({ group, id }: Pick<Trace, 'group' | 'id'>): GroupPlace {
  const hash = createHash('sha256')
    .update(group ?? id)
    .digest();
  return { fold: hash.readUInt32BE(0) % FOLDS, mark: hash.readUInt32BE(4) };
}

/** The groups of a fit: none is forgotten, and of others 1 in 16,000 at most is taken for one of them. */
export class KnownGroups {
  /** sum and number of the rewards of each */
  readonly #rewards = new Map<number, { sum: number; count: number }>();
  #isFull = false;

  add({ mark }: Pick<GroupPlace, 'mark'>, reward = 0): void {
    const own = this.#rewards.get(mark) ?? { sum: 0, count: 0 };
    if (own.count === 0 && this.size === MAX_KNOWN) this.#isFull = true;
    else this.#rewards.set(mark, { sum: own.sum + reward, count: own.count + 1 });
  }

  has({ mark }: GroupPlace): boolean {
    return this.#isFull || this.#rewards.has(mark);
  }

  /** How many there are; at least so many where they are too many. */
  get size(): number {
    return this.#rewards.size;
  }

  /** The mean reward of a trace's peers, with a constant in the place of its own; undefined for a group that is not kept. */
  peersMean({ mark }: GroupPlace, reward: number, constant: number): number | undefined {
    const peers = this.#rewards.get(mark);
    return peers && (peers.sum - reward + constant) / peers.count;
  }

  /** As text: the sorted marks, 4 bytes each (little endian) in base64; null where there are too many. */
  toText(): string | null {
    if (this.#isFull) return null;
    const bytes = Buffer.alloc(4 * this.size);
    for (const [n, mark] of Uint32Array.from(this.#rewards.keys()).sort().entries())
      bytes.writeUInt32LE(mark, 4 * n);
    return bytes.toString('base64');
  }

  /** What {@link toText} has written. */
  static ofText(text: string | null): KnownGroups {
    const known = new KnownGroups();
    if (text === null) known.#isFull = true;
    const bytes = Buffer.from(text ?? '', 'base64');
    for (let at = 0; at + 4 <= bytes.length; at += 4) known.add({ mark: bytes.readUInt32LE(at) });
    return known;
  }
}
