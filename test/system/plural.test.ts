// Counts in messages: the noun and the verb fit the number.
import { expect, it } from 'vitest';
import { are, plural } from '../../dist/plural.js';
import { openScene } from '../support/scene.js';

it.each([
  [0, '0 traces', 'are'],
  [1, '1 trace', 'is'],
  [2, '2 traces', 'are'],
  [1234567, '1,234,567 traces', 'are'],
])('%i', (n, text, verb) => {
  expect([plural(n, 'trace'), are(n)]).toEqual([text, verb]);
});

it('a noun of its own form', () => {
  expect([plural(1, 'entry', 'entries'), plural(3, 'entry', 'entries')]).toEqual(['1 entry', '3 entries']);
});

it('a run of one trace and one reject, and what is told of it later', async () => {
  const { done, write } = await openScene();
  await write('in.jsonl', '{"completion": "a b"}\n{\n');
  const segment = 'segment in.jsonl --no-policy -o out/';
  const texts: string[] = [];
  for (const line of [segment, segment]) texts.push((await done(line)).stderr);
  expect(texts).toEqual([
    expect.stringMatching(/^1 trace in /m),
    expect.stringContaining('already done: 1 trace, 1 reject\n'),
  ]);
});
