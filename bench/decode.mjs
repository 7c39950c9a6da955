// Sampling by our decoder and by PyTorch with a key/value cache, in turn: tokens a second of both, of two policies; and what a block of tokens saves.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { continueTraces } from '../dist/model/decode/continue.js';
import { rowKey } from '../dist/model/decode/sampling.js';
import { openPolicyFolder } from '../dist/model/onnx/folder.js';
import { ModelSession } from '../dist/model/onnx/session.js';
import { randomPolicy, SMALL, tokensOf } from './checkpoint.mjs';
import { median } from './measure.mjs';
import { pythonWithTorch } from './python.mjs';

const PYTHON = pythonWithTorch();
const ROUNDS = Number(process.env.ROUNDS ?? 5);
// two threads are not always faster than one: the better of them counts
const THREADS = (process.env.THREADS ?? '1,2').split(',');
const which = process.argv[2];
const EMBEDDED = fileURLToPath(new URL('../models/embedded', import.meta.url));
const SCRIPT = fileURLToPath(new URL('decode.py', import.meta.url));

/** A process that answers a line with a line. */
function converse(args) {
  const child = spawn(PYTHON, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout });
  return {
    async ask(line) {
      child.stdin.write(`${line}\n`);
      return JSON.parse((await once(lines, 'line'))[0]);
    },
    close: () => child.stdin.end(),
  };
}

/** Prompts of one length, so that PyTorch needs no padding; no stop token, so that both write as many tokens. */
async function compare(name, folder, vocab, { prompts: P, samples, prompt: T, tokens }) {
  const random = tokensOf(vocab, 3);
  const prompts = Array.from({ length: P }, () => [...random(T)]);
  const jobFile = join(tmpdir(), 'rredcot-bench-decode.json');
  await writeFile(jobFile, JSON.stringify({ prompts, samples, tokens }));
  const session = await ModelSession.open(await openPolicyFolder(folder));
  await session.openDecoder();
  const traces = (seed) =>
    prompts.map((ids, p) => ({
      ids: Int32Array.from(ids),
      starts: Array.from({ length: samples }, (_, m) => ({ exit: T, key: rowKey(seed, p, m), most: tokens })),
    }));
  const plain = { temperature: 1, topP: 1, stops: [], batch: P * samples };
  const theirs = PYTHON ? THREADS.map((threads) => converse([SCRIPT, folder, jobFile, threads])) : [];
  const times = { ours: [], theirs: theirs.map(() => []) };
  const spent = { ours: [], theirs: theirs.map(() => []) };
  const greedy = await continueTraces(session, traces(0), { ...plain, temperature: 0 });
  for (const other of theirs) {
    const expected = await other.ask('check');
    if (expected.join() !== greedy[0][0].ids.join())
      process.stderr.write(`${name}: greedy tokens differ from PyTorch's\n`);
    await other.ask('warm');
  }
  for (let round = 0; round < ROUNDS; round++) {
    const [start, before] = [performance.now(), process.cpuUsage()];
    await continueTraces(session, traces(round), plain);
    times.ours.push((performance.now() - start) / 1000);
    const used = process.cpuUsage(before);
    spent.ours.push((used.user + used.system) / 1e6);
    for (const [i, other] of theirs.entries()) {
      const { seconds, cpu } = await other.ask('go');
      times.theirs[i].push(seconds);
      spent.theirs[i].push(cpu);
    }
  }
  await session.close();
  for (const other of theirs) other.close();
  const count = P * samples * tokens;
  const ours = count / median(times.ours);
  const what = `${name}, ${P} prompts of ${T} tokens × ${samples}, ${tokens} new ones`;
  const best = Math.max(...times.theirs.map((list) => count / median(list)));
  const least = Math.min(...spent.theirs.map(median));
  return [
    { name: `sampling, ${what}`, value: Math.round(ours), unit: 'tokens/s' },
    ...(PYTHON
      ? [
          { name: `the same by PyTorch with a cache`, value: Math.round(best), unit: 'tokens/s' },
          { name: `ours / PyTorch's, ${name}`, value: ours / best, unit: '×', reach: '>=1' },
          { name: `processor time, ours / PyTorch's, ${name}`, value: median(spent.ours) / least, unit: '×' },
        ]
      : []),
  ];
}

const small = await randomPolicy(join(tmpdir(), 'rredcot-bench-small'), SMALL);
const cases = {
  bundled: ['bundled policy', EMBEDDED, 259, { prompts: 8, samples: 8, prompt: 40, tokens: 160 }],
  long: ['bundled policy, long states', EMBEDDED, 259, { prompts: 4, samples: 16, prompt: 512, tokens: 96 }],
  wide: [
    '4 layers of 256, V = 32,000',
    small,
    SMALL.vocab_size,
    { prompts: 8, samples: 8, prompt: 128, tokens: 64 },
  ],
};
const results = [];
for (const [key, args] of Object.entries(cases))
  if (which === undefined || which === key) results.push(...(await compare(...args)));
console.log(JSON.stringify(results));
