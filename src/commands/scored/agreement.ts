// Says what several scored files agree on about how they were made, and where they differ.
import { isDeepStrictEqual } from 'node:util';

/** One thing that files say, or leave unsaid. */
export class Agreement<T> {
  private first: T | undefined;
  /** the first file that leaves it unsaid */
  private silent: string | undefined;
  private isMixed = false;

  /**
   * @param what the thing, as in "does not say which policy scored it"
   * @param other as in "was scored by another policy"
   */
  constructor(
    private readonly what: string,
    private readonly other: string,
  ) {}

  /**
   * @param own null where the file does not say it
   * @returns what is to be told: of a file that differs from the first, or of one that is silent where others are not
   */
  add(own: T | null, path: string): string | undefined {
    if (own === null) {
      const isTold = this.first !== undefined && this.silent === undefined;
      this.silent ??= path;
      return isTold ? this.unsaid(path) : undefined;
    }
    if (this.first === undefined) {
      this.first = own;
      return this.silent === undefined ? undefined : this.unsaid(this.silent);
    }
    if (isDeepStrictEqual(this.first, own)) return undefined;
    this.isMixed = true;
    return `${path}: was scored ${this.other} than the files before it`;
  }

  /** null where files differ, or one says nothing */
  get common(): T | null {
    return this.isMixed || this.silent !== undefined ? null : (this.first ?? null);
  }

  private unsaid(path: string): string {
    return `${path}: does not say ${this.what}, as other files do: nobody can tell whether it is the same`;
  }
}
