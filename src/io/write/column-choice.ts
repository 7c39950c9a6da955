// `--keep` and `--drop`: which columns of the input are written.

/** Names of input columns; at most one of the lists is there. */
export interface ColumnChoice {
  readonly keep?: readonly string[] | undefined;
  readonly drop?: readonly string[] | undefined;
}

/** Whether an input column is written. */
export function isWritten({ keep, drop }: ColumnChoice, name: string): boolean {
  return keep === undefined ? !drop?.includes(name) : keep.includes(name);
}
