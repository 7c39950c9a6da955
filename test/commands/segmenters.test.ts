/** Every segmenter through the whole program: what is written holds together, and follows from its figures. */
import { beforeAll, describe, expect, it } from 'vitest';
import { cutpoints, entropyShareCuts, piecesBetween } from '../oracle/segmenters.js';
import type { ScoredRow } from '../support/program.js';
import { fixtureRows, openScene } from '../support/scene.js';

const { done, fails, rows: rowsOf, write } = await openScene();
beforeAll(async () => write('two.jsonl', await fixtureRows(0, 2)));

const thoughtEnds = ({ segments }: ScoredRow) =>
  segments.flatMap(({ kind, end }) => (kind === 'thought' ? [end as number] : []));

async function scored(name: string, segmenter: string): Promise<ScoredRow[]> {
  await done(`score two.jsonl -o ${name}.jsonl --quiet --segmenter ${segmenter}`);
  return rowsOf(`${name}.jsonl`);
}
const CUTPOINT = 'cutpoint --cutpoint-every 2 --cutpoint-probability 0.95';

/** The bundled policy's tokens: a character each, but for its two tags and an end token without text. */
function thoughtOf({ completion, completion_ids: ids }: ScoredRow) {
  const tokens = [...(completion.match(/<\/?think>|./gs) ?? []), ''];
  expect(tokens).toHaveLength(ids.length);
  return { tokens, thought: { start: 2, end: tokens.indexOf('</think>'), textEnd: tokens.length - 1 } };
}

describe('score', () => {
  it('cutpoint: cuts where the oracle does by the figures in the file', async () => {
    const rows = await scored('cutpoint', CUTPOINT);
    await done('verify cutpoint.jsonl --quiet');
    let made = 0;
    for (const row of rows) {
      const { tokens, thought } = thoughtOf(row);
      const cuts = cutpoints(row.logprobs, thought, 0.95, 2);
      made += cuts.length;
      expect(thoughtEnds(row)).toEqual(piecesBetween(cuts, tokens, thought));
    }
    expect(made).toBeGreaterThan(4);
  });

  it('entropy: cuts where the oracle does, and is merged by --max-segments', async () => {
    const rows = await scored('entropy', 'entropy --entropy-share 0.1');
    for (const row of rows) {
      const { tokens, thought } = thoughtOf(row);
      const cuts = entropyShareCuts(row.entropies, thought, 0.1);
      expect(cuts.length).toBeGreaterThan(5);
      expect(thoughtEnds(row)).toEqual(piecesBetween(cuts, tokens, thought));
    }
    const three = await scored('three', 'entropy --max-segments 3');
    for (const [n, row] of three.entries()) {
      expect(thoughtEnds(row)).toHaveLength(3);
      expect(thoughtEnds(rows[n] as ScoredRow)).toEqual(expect.arrayContaining(thoughtEnds(row)));
    }
  });

  it('adaptive, sentence and keyword', async () => {
    const fine = await scored('adaptive', 'adaptive --adaptive-limit 1');
    const coarse = await scored('coarse', 'adaptive --adaptive-limit 4');
    for (const [n, row] of coarse.entries())
      expect(thoughtEnds(row).length).toBeLessThan(thoughtEnds(fine[n] as ScoredRow).length);
    const lines = await scored('sentence', 'sentence');
    for (const row of lines) {
      const { tokens, thought } = thoughtOf(row);
      // the fixtures have a sentence a line
      const cuts = tokens.flatMap((token, t) => (token === '\n' ? [t + 1] : []));
      expect(thoughtEnds(row)).toEqual(piecesBetween(cuts, tokens, thought));
    }
    const letters = await scored('keyword', 'keyword --keywords b,d');
    for (const row of letters) {
      const { tokens, thought } = thoughtOf(row);
      const cuts = tokens.flatMap((token, t) => (/[bd]/.test(token) && tokens[t - 1] === '\n' ? [t] : []));
      expect(thoughtEnds(row).filter((end) => end < thought.end)).toEqual(
        cuts.filter((t) => !/[a-z]/i.test(tokens[t + 1] ?? '') && t > 2 && t < thought.end),
      );
    }
  });
});

describe('segment', () => {
  it('cuts by the policy in one run, and refuses late segmenters without one', async () => {
    await done(`segment two.jsonl -o cut.jsonl --quiet --segmenter ${CUTPOINT}`);
    const rows = await rowsOf('cut.jsonl');
    for (const row of rows) {
      const { tokens, thought } = thoughtOf(row);
      expect(thoughtEnds(row)).toEqual(
        piecesBetween(cutpoints(row.logprobs, thought, 0.95, 2), tokens, thought),
      );
    }
    await fails(
      `segment two.jsonl --no-policy --segmenter ${CUTPOINT}`,
      2,
      /--segmenter cutpoint cuts by what a policy says.*\n {2}try: leave out --no-policy/s,
    );
  });
});
