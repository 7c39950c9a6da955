// `node bench/fidelity/noise.mjs <policy> <mc>.jsonl`: of the completions of a run with --keep-samples, how far a value of fewer of them strays and the ceiling of its differences, at some exits of each trace; lines of docs/fidelity/choices.csv.
// Longer chains, in models/recipe: `prompts.py --seed longer-1 --problems 6 --operations 7 > longer.jsonl`, `rredcot sample longer.jsonl -n 2 --seed 1 -o traces.jsonl`,
// `rredcot score traces.jsonl -o mc.jsonl --estimator mc --mc-samples 40 --seed 1 --keep-samples --segmenter fixed --fixed-length 3 --max-segments 60`.
import { readLines } from './program.mjs';
import { bootstrapDeviation, ceilingOf, compactSamples, spread } from './samples.mjs';

const [policy, path] = process.argv.slice(2);
const traces = readLines(path).map(compactSamples);
for (const count of [5, 10, 20, 40])
  for (const M of [1, 5, 20]) {
    const exits = (E) => spread(E, count);
    const line = (figure, value) =>
      console.log(
        `noise,${policy},${traces.length},"${count} exits at most, ${M} completions",${figure},${value.toFixed(3)},,`,
      );
    line('sd', bootstrapDeviation(traces, M, exits));
    line('ceiling', ceilingOf(traces, M, exits));
  }
