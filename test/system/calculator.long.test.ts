// The policy that calls a tool: what completions in turns find of each state, against the exact values.
import { expect, it } from 'vitest';
import { CALCULATOR, comparedOf, type Played, play, within } from '../support/calculator.js';
import { openScene } from '../support/scene.js';

const scene = await openScene();
const { done, rows, write } = scene;

it('values by completions in turns follow the exact ones', async () => {
  const played = await play(scene);
  await write(
    'few.jsonl',
    played.filter((_, n) => n % 12 === 0),
  );
  await done(
    `score few.jsonl --policy policy --estimator mc --mc-samples 8 --environment ${CALCULATOR} -o mc.jsonl`,
  );
  const traces = comparedOf(await rows<Played>('mc.jsonl'), played);
  expect(traces.length).toBeGreaterThan(12);
  expect(within(traces)).toBeGreaterThan(0.4);
});
