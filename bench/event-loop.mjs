// How long the main thread is ever kept from its work while the policy runs: node bench/event-loop.mjs [tokens] [runs]
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';
import { openPolicyFolder } from '../dist/model/onnx/folder.js';
import { ModelSession } from '../dist/model/onnx/session.js';
import { tokensOf, traceOf } from './checkpoint.mjs';

const [tokens = 2000, runs = 10] = process.argv.slice(2).map(Number);
const policy = await openPolicyFolder(fileURLToPath(new URL('../models/embedded', import.meta.url)));
const session = await ModelSession.open(policy);
const trace = traceOf(tokens, tokensOf(10, 1));
const run = () => session.run([trace]);
await run();

// the histogram counts the whole time between two ticks of its timer, of which `resolution` is none of our doing
const resolution = 1;
const delay = monitorEventLoopDelay({ resolution });
delay.enable();
const start = performance.now();
for (let n = 0; n < runs; n++) await run();
const perRun = (performance.now() - start) / runs;
delay.disable();
await session.close();
const ms = (ns) => (ns / 1e6 - resolution).toFixed(1);
console.log(
  `event-loop lag over ${runs} runs of ${tokens} tokens and 40 branches, ${perRun.toFixed(0)} ms each: ` +
    `at most ${ms(delay.max)} ms, p99 ${ms(delay.percentile(99))} ms (reach: 50 ms)`,
);
