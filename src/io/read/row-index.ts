// Where the rows of JSON lines begin, so that a part of them is read by its bytes alone.
import type { RowIndex } from '../../rows.js';

/** Rows whose places are kept at most, 2 MiB: of more every second one, every fourth, and so on. */
const MOST_PLACES = 2 ** 18;

/** Gathers places while the inputs are read from end to end. */
export class RowPlaces {
  private stride = 1;
  private places: (number | null)[] = [];
  private readonly firsts: number[] = [];
  private readonly starts: (number | null)[] = [];

  /** @param most places that are kept */
  constructor(private readonly most = MOST_PLACES) {}

  /** The next input begins. @param first number of its first row */
  begin(first: number): void {
    this.firsts.push(first);
    this.starts.push(null);
  }

  /** A row of lines begins. */
  add(ordinal: number, offset: number): void {
    const n = this.starts.length - 1;
    if (ordinal === this.firsts[n]) this.starts[n] = offset;
    if (ordinal % this.stride !== 0) return;
    const at = ordinal / this.stride;
    // rows of inputs that have no lines
    while (this.places.length < at) this.places.push(null);
    this.places.push(offset);
    if (this.places.length <= this.most) return;
    this.places = this.places.filter((_, k) => k % 2 === 0);
    this.stride *= 2;
  }

  /** @param rows of all inputs; @returns undefined where none of them has lines */
  finish(rows: number): RowIndex | undefined {
    const { stride, places, firsts, starts } = this;
    const hasLines = starts.some((start) => start !== null);
    return hasLines ? { stride, places, firsts: [...firsts, rows], starts } : undefined;
  }
}
