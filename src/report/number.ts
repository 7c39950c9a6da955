// How a number of a trace is written, wherever it stands: web/page.js has the same rule, and a test holds them together.

/** Three digits, one from 100 on, with a true minus. */
export function shortNumber(value: number): string {
  const text = Math.abs(value) >= 100 ? value.toFixed(1) : value.toFixed(3);
  return text.replace('-', '−');
}

/** The same with its sign. */
export function signed(value: number): string {
  return `${value < 0 ? '−' : '+'}${shortNumber(Math.abs(value))}`;
}
