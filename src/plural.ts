// Counted things as people write them: 1 chunk is, 1,200 chunks are.

/** The number with its noun. @param others the noun where there is not one */
export function plural(n: number, one: string, others = `${one}s`): string {
  return `${n.toLocaleString('en-US')} ${n === 1 ? one : others}`;
}

/** The verb of {@link plural}. */
export function are(n: number): 'is' | 'are' {
  return n === 1 ? 'is' : 'are';
}
