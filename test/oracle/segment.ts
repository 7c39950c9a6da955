/** Cuts a completion into thought segments and the answer by the naive form of METHOD 2. */

/** Code units [start, end) of the completion's text that a token covers. */
export type Span = readonly [start: number, end: number];

export const TRANSITION_WORDS = [
  ...['Wait', 'Alternatively', 'Hmm', 'But', 'However', 'So', 'Therefore', 'Thus', 'Now', 'First', 'Next'],
  ...['Then', 'Finally', 'Let me', "Let's", 'Actually', 'Maybe'],
];
const RE_TRANSITION = new RegExp(
  `(?<=^|\\n|[.!?]\\s+)(?:${TRANSITION_WORDS.join('|')})(?![\\p{L}\\p{N}_])`,
  'gu',
);
const RE_SENTENCE_END = /[.!?]\s+/g;
/** The last of the first of these that there is. */
const RE_ANSWERS = [
  /\\(?:boxed|fbox)(?![A-Za-z])|\bThe final answer is(?=[^\n]*\. I hope it is correct)/g,
  /####|# Answer *(?![^\r\n])|\b(?:Answer:|The answer is|The final answer is)/g,
  /(?<=^|\n|[\w|]>)[*_> \t]*A:/g,
];
const LONG_PIECE = 256; // tokens

export interface Thought {
  exit0: number; // tokens of the completion that belong to s_0: a leading <think> and its newline token
  thoughtEnd: number; // token index, exclusive; the answer segment is [thoughtEnd, |o|), empty if none
}

/** Index of the token that holds the code unit at `position`; the number of tokens if none does. */
function tokenHolding(spans: readonly Span[], position: number): number {
  const index = spans.findIndex(([, end]) => end > position);
  return index < 0 ? spans.length : index;
}

export function findThought(text: string, spans: readonly Span[]): Thought {
  let exit0 = 0;
  const tag = /^\s*<think>/.exec(text);
  if (tag) {
    exit0 = tokenHolding(spans, tag[0].length - 1) + 1;
    const next = spans[exit0];
    if (next && /^[\r\n]+$/.test(text.slice(...next))) exit0++;
  }
  let thoughtEnd = spans.length;
  const endTag = text.indexOf('</think>');
  if (endTag >= 0) {
    thoughtEnd = tokenHolding(spans, endTag);
  } else {
    const last = RE_ANSWERS.map((marks) => [...text.matchAll(marks)].at(-1)).find((found) => found);
    // the line of the last pattern
    if (last) thoughtEnd = tokenHolding(spans, text.slice(0, last.index).lastIndexOf('\n') + 1);
  }
  return { exit0, thoughtEnd: Math.max(exit0, thoughtEnd) };
}

/** Ends (token index, exclusive) of the pieces of tokens [from, to). */
export function splitPieces(text: string, spans: readonly Span[], from: number, to: number): number[] {
  if (from >= to) return [];
  const cuts = new Set<number>();
  for (let t = from; t < to; t++) {
    if (text.slice(...(spans[t] as Span)).includes('\n')) cuts.add(t + 1);
  }
  for (const word of text.matchAll(RE_TRANSITION)) cuts.add(tokenHolding(spans, word.index));
  const ends = withoutBlankPieces(inside(cuts, from, to), text, spans, from);

  // a piece still over 256 tokens holds neither a newline nor a word: cut it where white space after [.!?] is over
  let begin = from;
  const finer = new Set(ends);
  for (const end of ends) {
    if (end - begin > LONG_PIECE) {
      for (const stop of text.matchAll(RE_SENTENCE_END)) {
        const cut = tokenHolding(spans, stop.index + stop[0].length);
        if (cut > begin && cut < end) finer.add(cut);
      }
    }
    begin = end;
  }
  return inside(finer, from, to);
}

/** Drops every cut that has nothing but ASCII white space up to the next one, and a first piece that is all white space. */
function withoutBlankPieces(
  ends: readonly number[],
  text: string,
  spans: readonly Span[],
  from: number,
): number[] {
  const blank = (a: number, b: number) =>
    spans.slice(a, b).every((span) => !/[^ \t\r\n\v\f]/.test(text.slice(...span)));
  return ends.filter((end, j) => {
    const next = ends[j + 1];
    return next === undefined || !(blank(end, next) || blank(from, end));
  });
}

function inside(cuts: Set<number>, from: number, to: number): number[] {
  return [...new Set([...cuts, to])].filter((cut) => cut > from && cut <= to).sort((a, b) => a - b);
}

/** Σ of entropies over each piece; the first piece starts at token 0. */
export function pieceEntropies(ends: readonly number[], entropies: ArrayLike<number>): number[] {
  return ends.map((end, j) => {
    let sum = 0;
    for (let t = ends[j - 1] ?? 0; t < end; t++) sum += entropies[t] as number;
    return sum;
  });
}

/** METHOD 2's loop as it stands there: merge the neighbours of least total entropy, leftmost on ties. */
export function mergePieces(ends: readonly number[], sums: readonly number[], maxSegments: number) {
  const segments = ends.map((end, j) => ({ end, entropy: sums[j] as number }));
  while (segments.length > maxSegments) {
    let best = 0;
    let least = Number.POSITIVE_INFINITY;
    for (let j = 0; j + 1 < segments.length; j++) {
      const pair = (segments[j]?.entropy as number) + (segments[j + 1]?.entropy as number);
      if (pair < least) {
        least = pair;
        best = j;
      }
    }
    segments.splice(best, 2, { end: segments[best + 1]?.end as number, entropy: least });
  }
  return segments;
}

/** Thought segments' ends: split after exit 0, join the leading tag to the first piece, merge. */
export function hybridSegments(
  text: string,
  spans: readonly Span[],
  entropies: ArrayLike<number>, // (|o|)
  maxSegments: number,
): Thought & { pieceEnds: number[]; segmentEnds: number[] } {
  const thought = findThought(text, spans);
  const pieceEnds = splitPieces(text, spans, thought.exit0, thought.thoughtEnd);
  // a thought of the tag alone is one segment without a step: its exit is exit 0
  if (pieceEnds.length === 0 && thought.thoughtEnd > 0) pieceEnds.push(thought.thoughtEnd);
  const merged = mergePieces(pieceEnds, pieceEntropies(pieceEnds, entropies), maxSegments);
  return { ...thought, pieceEnds, segmentEnds: merged.map(({ end }) => end) };
}
