// The largest trace that must fit: T = 25,000, 40 exit points, a vocabulary of 151,936, by peak memory.
import { openRandom, SMALL, tokensOf, traceOf } from './checkpoint.mjs';

const shape = { ...SMALL, vocab_size: 151_936 };
const session = await openRandom('wide', shape);
const trace = traceOf(25_000, tokensOf(shape.vocab_size, 13));
const start = performance.now();
await session.run([trace]);
const seconds = (performance.now() - start) / 1000;
await session.close();
const what = 'T=25,000, 40 exits, V=151,936';
const peak = process.resourceUsage().maxRSS / 1024;
console.log(
  JSON.stringify([
    { name: `peak RSS, ${what}`, value: peak, unit: 'MiB', reach: '<=1500' },
    { name: `time, ${what}`, value: seconds, unit: 's' },
  ]),
);
