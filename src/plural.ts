// Numbers as people write them: 1 chunk is, 1,200 chunks are, 0.123, 45.0 %, 7 min.

/** 1234567 → 1,234,567 */
export function count(n: number): string {
  // `toLocaleString` loads all languages first, 20 ms
  return String(n).replace(/\B(?=(\d{3})+$)/g, ',');
}

/** The number with its noun. @param others the noun where there is not one */
export function plural(n: number, one: string, others = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : others}`;
}

/** The verb of {@link plural}. */
export function are(n: number): 'is' | 'are' {
  return n === 1 ? 'is' : 'are';
}

/** How a number of a trace is written, wherever it stands (web/page.js has the same rule): three digits, one from 100 on, a true minus. */
export function shortNumber(value: number): string {
  const text = Math.abs(value) >= 100 ? value.toFixed(1) : value.toFixed(3);
  return text.replace('-', '−');
}

/** 0.45 → 45.0 % */
export function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}

/** Seconds as people say them: 0.4 s, 42 s, 7 min, 3 h 20 min. */
export function duration(seconds: number): string {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
