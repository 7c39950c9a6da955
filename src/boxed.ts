// Finds the final answer that a solution's text marks with a box.

/** What opens a box; `\boxed 7` without braces is the next word. */
const BOX = /\\(?:boxed|fbox)(?![a-zA-Z])\s*(\{?)/g;

/**
 * The content of the text's last `\boxed{…}` or `\fbox{…}`, braces balanced; a box around a box is opened too.
 * @returns null for a last box that is not closed (the text was cut inside the answer), undefined without any box
 */
export function lastBoxed(text: string): string | null | undefined {
  const last = [...text.matchAll(BOX)].at(-1);
  if (last === undefined) return undefined;
  const start = last.index + last[0].length;
  if (last[1] === '') return /^[^\s$\\]+/.exec(text.slice(start))?.[0].replace(/[.,;]$/, '') ?? null;
  const end = closingBrace(text, start);
  return end < 0 ? null : text.slice(start, end).trim();
}

/** Index of the brace that closes the one before `start`; −1 where none does. `\{` and `\}` are no braces. */
export function closingBrace(text: string, start: number): number {
  let depth = 1;
  for (let i = start; i < text.length; i++) {
    if (text[i] === '\\') i++;
    else if (text[i] === '{') depth++;
    else if (text[i] === '}' && --depth === 0) return i;
  }
  return -1;
}

/** Answer of a solution that marks it: its last box, else the line behind its last `####`; undefined without either. */
export function markedAnswer(solution: string): string | undefined {
  const boxed = lastBoxed(solution);
  if (boxed !== undefined) return boxed || undefined;
  const at = solution.lastIndexOf('####');
  if (at < 0) return undefined;
  return (solution.slice(at + 4).split('\n', 1)[0] as string).trim() || undefined;
}
