// Where the rows of JSON lines begin, so that a part of them is read by its bytes alone.
import { dataError } from '../../errors.js';
import type { RowIndex } from '../../rows.js';
import type { ByteRange } from '../files/file-bytes.js';

/** Rows whose places are kept at most, 2 MiB: of more every second one, every fourth, and so on. */
const MOST_PLACES = 2 ** 18;

/** Rows that follow each other in one file. */
export interface RowPart {
  /** rows over all inputs: those that are wanted, from the first to before the last, and those that lie in the bytes */
  readonly wanted: readonly [from: number, to: number];
  readonly rows: readonly [from: number, to: number];
  /** bytes of the file; undefined: to its end */
  readonly bytes: ByteRange;
}

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

/**
 * The parts of an input in which all rows are wanted.
 * @param wanted asked once for every row, in order
 * @returns undefined where it is not known where its rows are
 */
export function rowParts(
  { stride, places, firsts, starts }: RowIndex,
  input: number,
  wanted: (ordinal: number) => boolean,
): Generator<RowPart> | undefined {
  const [first, end, start] = [firsts[input], firsts[input + 1], starts[input]];
  if (first === undefined || end === undefined || typeof start !== 'number') return undefined;
  const part = (from: number, to: number): RowPart => {
    const before = Math.floor(from / stride) * stride;
    const after = Math.ceil(to / stride) * stride;
    const rows = [Math.max(first, before), Math.min(end, after)] as const;
    const begin = before < first ? start : (places[before / stride] as number);
    return {
      wanted: [from, to],
      rows,
      bytes: [begin, after < end ? (places[after / stride] as number) : undefined],
    };
  };
  return (function* () {
    for (let from = first; from < end; from++) {
      if (!wanted(from)) continue;
      let to = from + 1;
      while (to < end && wanted(to)) to++;
      yield part(from, to);
      from = to;
    }
  })();
}

/** @throws RredcotError (exit 65) where the bytes of a part hold other rows than when its places were found */
export function assertPart(path: string, { rows: [from, to] }: RowPart, found: number | undefined): void {
  if (found === to - from) return;
  throw dataError(
    `${path}: rows ${from} to ${to - 1} of the inputs are no longer where the run's first process has found them`,
    'the file was changed: the same command with --overwrite',
  );
}
