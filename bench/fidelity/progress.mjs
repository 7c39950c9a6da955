// Chunks of Monte Carlo runs that are done in, how far they are and what time is left out.
import { existsSync, readdirSync } from 'node:fs';

/** How many chunks of a run folder are done, in any order. */
function doneChunks(folder) {
  if (!existsSync(`${folder}/chunks`)) return [];
  const names = readdirSync(`${folder}/chunks`, { recursive: true, encoding: 'utf8' });
  return names.flatMap((name) => /(\d+)\.jsonl$/.exec(name)?.slice(1).map(Number) ?? []);
}

const clock = (seconds) =>
  `${Math.floor(seconds / 3600)} h ${String(Math.floor(seconds / 60) % 60).padStart(2, '0')} min`;

/**
 * @param runs of prepare.mjs, the first of them under way
 * @returns called now and then: says how much is done and left, where that has changed
 */
export function progress(runs) {
  const sum = (numbers) => numbers.reduce((all, n) => all + n, 0);
  const done = () => sum(runs.map(({ at, chunks }) => sum(doneChunks(at('mc')).map((c) => chunks[c] ?? 0))));
  const all = sum(runs.flatMap(({ chunks }) => chunks));
  const started = performance.now();
  const before = done();
  let last = before;
  return () => {
    const now = done();
    if (now === last) return;
    last = now;
    const rate = (now - before) / ((performance.now() - started) / 1000);
    const left = clock((all - now) / rate);
    console.error(
      `${runs[0].policy.name}: ${((100 * now) / all).toFixed(1)} % of all completions, ${left} to go`,
    );
  };
}
