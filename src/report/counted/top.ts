// Keeps the few largest of many things.

/** Holds `size` things at most, those of the largest keys; of equal keys the first that came. */
export class Top<T> {
  private readonly kept: { readonly key: number; readonly thing: T }[] = [];

  constructor(private readonly size: number) {}

  add(key: number, thing: T): void {
    const { kept, size } = this;
    if (size === 0 || Number.isNaN(key)) return;
    if (kept.length === size && key <= (kept[size - 1]?.key as number)) return;
    let at = kept.length;
    while (at > 0 && (kept[at - 1]?.key as number) < key) at--;
    kept.splice(at, 0, { key, thing });
    if (kept.length > size) kept.pop();
  }

  /** from the largest on */
  get things(): readonly T[] {
    return this.kept.map(({ thing }) => thing);
  }
}
