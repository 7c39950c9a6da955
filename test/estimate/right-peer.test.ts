// `posterior --hint peer`: what becomes of a trace that has no right completion in its group.
import { beforeAll, describe, expect, it } from 'vitest';
import { type ScoredRow, storedValues } from '../support/program.js';
import { fixtureRows, openScene } from '../support/scene.js';

const { done, rows, write } = await openScene();
type Row = ScoredRow & { readonly hint_logprobs: number[] };

describe('a file of it', () => {
  const score = 'score bare.jsonl --estimator posterior --hint peer --hint-template peer.json';
  beforeAll(async () => {
    const [wrong, right, ...others] = (await fixtureRows(7, 11)).reverse();
    // one group of two, both right; a wrong trace whose peer is wrong; a trace without a group
    const all = [
      ...others.map((row, n) => ({ ...row, group: `g${n}` })),
      ...[right, wrong].map((row) => ({ ...row, prompt_ids: right?.prompt_ids, group: 'pair', reward: 1 })),
      { ...right, id: 'alone', group: undefined },
    ];
    await write('peer.json', '{"text": "hint {peer}\\n"}');
    await write(
      'bare.jsonl',
      all.map(({ answer: _, solution: __, ...row }) => row),
    );
    await done(`${score} -o peers.jsonl`);
  });

  it('says of a trace without a right peer that it has none, and shares its reward out evenly', async () => {
    const all = await rows<Row>('peers.jsonl');
    expect(all.map(({ status }) => status)).toEqual([
      ...['hint:no-peer;uniform:flat-values', 'hint:no-peer;uniform:flat-values', 'uniform:small-return'],
      ...['uniform:small-return', 'hint:no-peer;uniform:no-baseline'],
    ]);
    for (const row of all.filter(({ status }) => status.includes('hint:no-peer'))) {
      expect(storedValues(row)).toEqual(storedValues(row).map(() => 0.5));
      expect(row.hint_logprobs).toEqual(row.logprobs);
    }
    await done('redistribute peers.jsonl --estimator surprise -o surprise.jsonl');
    expect((await rows('surprise.jsonl')).some(({ status }) => status.includes('hint:'))).toBe(false);
  });
});
