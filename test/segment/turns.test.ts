/** Segments of several turns: they lie in what the policy wrote, whatever it was shown, and each turn is cut by itself. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { cutPieces, mergeSegments, type SegmentOptions, segmentRows } from '../../dist/segment/segment.js';
import { SEGMENTERS } from '../../dist/segment/segmenters.js';
import { mergePieces } from '../../dist/segment/split.js';
import { compact, ownBefore, scattered, turnsIn } from '../../dist/trace.js';
import { letters } from '../support/tokens.js';

const OPTIONS: Omit<SegmentOptions, 'segmenter'> = { fixedLength: 3, adaptiveLimit: 2, maxSegments: 4 };
const SHOWN = '</think>\nanswer: 9\nWait, so. The answer is 7.\n';

/** A text of turns, each followed by what the policy was shown. */
function conversation(turns: readonly string[], shown: readonly string[], lead = '') {
  const parts = [lead, ...turns.flatMap((turn, n) => [turn, shown[n] ?? ''])];
  const own = Uint8Array.from(parts.flatMap((part, n) => Array(part.length).fill(n % 2)));
  return { tokens: { ...letters(parts.join('')), own }, own };
}

/** Its segments, as `kind start-end`; entropies are those of the policy's tokens. */
function cut({ tokens, own }: ReturnType<typeof conversation>, segmenter: (typeof SEGMENTERS)[number]) {
  const before = ownBefore(own);
  // a figure for each own token, whatever lies between them
  const entropies = Float32Array.from(own, (m, t) => (m ? ((before[t] as number) * 7) % 5 : 0));
  const given = Int32Array.from(turnsIn(own), ([, to]) => to);
  const pieces = cutPieces(tokens, { segmenter, ...OPTIONS }, given);
  const figures = { entropies, logprobs: entropies.map((h) => -h) };
  const segmentation = mergeSegments(pieces, figures);
  return { segmentation, rows: segmentRows({ segmentation, chars: tokens.units, own }) };
}

const TEXT = fc
  .array(fc.constantFrom('a', 'b', ' ', '\n', '. ', 'Wait, ', 'So ', '####'), { minLength: 1, maxLength: 12 })
  .map((parts) => `x${parts.join('')}`);
const CONVERSATION = fc
  .tuple(
    fc.array(TEXT, { minLength: 1, maxLength: 4 }),
    fc.array(fc.constantFrom('[ok]', SHOWN), { maxLength: 4 }),
  )
  .filter(([turns, shown]) => shown.length >= turns.length - 1);

describe('segments of several turns', () => {
  test.each(SEGMENTERS)(
    '%s: tile the tokens, lie in one turn each, and exits stand where a turn begins or in it',
    (segmenter) => {
      fc.assert(
        fc.property(CONVERSATION, fc.constantFrom('', 'shown first: '), ([turns, shown], lead) => {
          const said = conversation(turns, shown.slice(0, turns.length), lead);
          const { own } = said;
          const { segmentation, rows } = cut(said, segmenter);
          const ends = rows.filter(({ kind }) => kind !== 'shown').map(({ end }) => end);
          const isWrong = ({ start, end, kind }: (typeof rows)[number], k: number) =>
            start !== (rows[k - 1]?.end ?? 0) ||
            own.subarray(start as number, end as number).some((m) => m !== (kind === 'shown' ? 0 : 1));
          expect({
            end: rows.at(-1)?.end,
            wrong: rows.filter(isWrong),
            exitsInside: segmentation.exits.filter((exit) => own[exit - 1] === 0 && own[exit] === 0),
            openTurns: turnsIn(own).filter(([, to]) => !ends.includes(to)),
          }).toEqual({ end: own.length, wrong: [], exitsInside: new Int32Array(0), openTurns: [] });
          expect(rows.filter(({ kind }) => kind === 'thought')).toHaveLength(segmentation.thoughtEnds.length);
        }),
      );
    },
  );

  test.each(SEGMENTERS)('%s: other words in what was shown change no segment', (segmenter) => {
    fc.assert(
      fc.property(CONVERSATION, ([turns, shown]) => {
        const ofOwn = (texts: readonly string[]) => {
          const said = conversation(turns, texts);
          const before = ownBefore(said.own);
          const own = cut(said, segmenter).rows.filter(({ kind }) => kind !== 'shown');
          return own.map(({ start, end, kind }) => [before[start as number], before[end as number], kind]);
        };
        const some = shown.slice(0, turns.length);
        expect(ofOwn(some.map(() => 'line\nShown: \\boxed{3}\n'))).toEqual(ofOwn(some));
      }),
    );
  });

  test('a worked example: a tag in each turn, words of an answer in what was shown, the answer in the last turn', () => {
    const said = conversation(
      ['<think>\nadd\n</think>\ncall(2+2)', 'so four\n#### 4'],
      ['\n[tool: #### 9]\n', '\n'],
    );
    const { segmentation, rows } = cut(said, 'newline');
    const { text } = said.tokens;
    expect(rows.map(({ kind, start, end }) => [kind, text.slice(start as number, end as number)])).toEqual([
      ['thought', '<think>\nadd\n'],
      ['thought', '</think>\ncall(2+2)'],
      ['shown', '\n[tool: #### 9]\n'],
      ['thought', 'so four\n'],
      ['answer', '#### 4'],
      ['shown', '\n'],
    ]);
    // behind the call the policy goes on where it has read what the tool said
    const begin = Array.from(segmentation.exits, (exit) => text.slice(exit).split('\n')[0]);
    expect(begin).toEqual(['add', '</think>', 'so four', '#### 4']);
  });

  test.each(SEGMENTERS)(
    '%s: a later turn that thinks is asked behind its opening tag, and no exit stands behind a closed thought',
    (segmenter) => {
      const opened = '<think>\nnow. Wait\nit is\n</think>\nSo. Wait\ncall(1)';
      const said = conversation(
        [opened, opened, '<think>', 'and\n</think>\n\\boxed{4}'],
        ['[1]', '[2]', '[3]'],
      );
      const { segmentation, rows } = cut(said, segmenter);
      const { text } = said.tokens;
      // whether an exit stands in a thought that its turn has opened, or the template, and not closed
      const places = Array.from(segmentation.exits, (exit) =>
        text.slice(text.lastIndexOf(']', exit) + 1, exit),
      );
      expect(places.filter((before) => before.includes('</think>'))).toEqual([]);
      expect(places.filter((before) => before === '<think>\n')).toHaveLength(2);
      expect(places).not.toContain('<thi');
      const calls = rows.filter(({ start, end }) =>
        text.slice(start as number, end as number).includes('call'),
      );
      const closed = '</think>\nSo. Wait\ncall(1)';
      expect(calls.map(({ start, end }) => text.slice(start as number, end as number))).toEqual([
        closed,
        closed,
      ]);
      expect(segmentation.answered).toBe(true);
    },
  );

  test('pieces on either side of a border are never merged, though more are left than may be', () => {
    const weights = Float64Array.of(1, 1, 1, 1, 1, 1);
    const ends = Int32Array.of(1, 2, 3, 4, 5, 6);
    expect([...mergePieces(ends, weights, 1, undefined, new Set([2, 3]))]).toEqual([2, 3, 6]);
    expect([...mergePieces(ends, weights, 9, 100, new Set([4]))]).toEqual([4, 6]);
  });

  test('lists without what was shown, and with it again', () => {
    const own = Uint8Array.of(0, 1, 1, 0, 1);
    expect(compact(Float32Array.of(1, 2, 3, 4, 5), own)).toEqual(Float32Array.of(2, 3, 5));
    expect(scattered(Float32Array.of(2, 3, 5), own)).toEqual(Float32Array.of(0, 2, 3, 0, 5));
    expect(turnsIn(own)).toEqual([
      [1, 3],
      [4, 5],
    ]);
  });
});
