// What it saves that logits never leave the graph: time and peak memory of a pass whose logits JavaScript reduces.
import { execFileSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { Graph, serialiseModel } from '../dist/model/graph/onnx.js';
import { readSafetensorsHeader } from '../dist/model/graph/safetensors.js';
import { openPolicyFolder } from '../dist/model/onnx/folder.js';
import { ModelSession } from '../dist/model/onnx/session.js';
import { randomPolicy, SMALL, tokensOf } from './checkpoint.mjs';
import { median } from './measure.mjs';

const T = 4096;
const SHAPE = { ...SMALL, vocab_size: 151_936 };
const folder = join(tmpdir(), 'rredcot-bench-wide');
const tokens = tokensOf(SHAPE.vocab_size, 3);
const ids = tokens(T);

const [mode, rounds] = [process.argv[2], Number(process.argv[3])];
if (mode === 'all') {
  await randomPolicy(folder, SHAPE);
  const child = (name) =>
    JSON.parse(
      execFileSync(process.execPath, [fileURLToPath(import.meta.url), name, String(rounds)], {
        encoding: 'utf8',
      }),
    );
  const [ours, trunk, logits] = ['ours', 'trunk', 'logits'].map(child);
  console.log(
    JSON.stringify([
      {
        name: 'logits reduced in JavaScript / in the graph, time, T=4096, V=151,936',
        value: (trunk.ms + logits.ms) / ours.ms,
        unit: '×',
        reach: '>=8',
      },
      {
        name: 'logits reduced in JavaScript / in the graph, peak RSS, T=4096, V=151,936',
        value: logits.rss / ours.rss,
        unit: '×',
        reach: '>=6',
      },
      { name: 'peak RSS, in the graph, T=4096, V=151,936', value: ours.rss / 2 ** 20, unit: 'MiB' },
    ]),
  );
} else {
  const run = mode === 'logits' ? await logitsRun() : await policyRun(mode === 'trunk' ? T - 1 : 1);
  const times = [];
  for (let i = 0; i <= rounds; i++) {
    const start = performance.now();
    await run();
    if (i > 0) times.push(performance.now() - start);
  }
  console.log(JSON.stringify({ ms: median(times), rss: process.resourceUsage().maxRSS * 1024 }));
  process.exit(0);
}

/** A pass of the shipped graph that reads out tokens promptLength.. (all but the first, or the last alone). */
async function policyRun(promptLength) {
  const session = await ModelSession.open(await openPolicyFolder(folder));
  return () => session.run([{ ids, promptLength, branches: [] }]);
}

/** The head alone, its logits [T,V] handed to JavaScript, which takes entropy and log-probability from them. */
async function logitsRun() {
  const { hidden_size: d, vocab_size: V } = SHAPE;
  const g = new Graph('logits');
  const x = g.input('x', 'f32', ['T', d]);
  const { offset, length } = (await readSafetensorsHeader(join(folder, 'model.safetensors'))).get(
    'model.embed_tokens.weight',
  );
  const matrix = g.weight('W', 'f32', [V, d], { location: 'model.safetensors', offset, length });
  g.output('z', g.node('Gemm', [x, matrix], { transB: 1 }), 'f32', ['T', V]);
  await writeFile(join(folder, 'logits.onnx'), serialiseModel(g));
  const session = await InferenceSession.create(join(folder, 'logits.onnx'), { intraOpNumThreads: 2 });
  const h = new Tensor(
    'float32',
    Float32Array.from(tokens(T * d), (n) => n / V - 0.5),
    [T, d],
  );
  return async () => {
    const { z } = await session.run({ x: h });
    const [entropies, logprobs] = [new Float32Array(T), new Float32Array(T)];
    for (let t = 0; t < T; t++) {
      const row = z.data.subarray(t * V, (t + 1) * V);
      let largest = Number.NEGATIVE_INFINITY;
      for (let v = 0; v < V; v++) if (row[v] > largest) largest = row[v];
      let [mass, weighted] = [0, 0];
      for (let v = 0; v < V; v++) {
        const e = Math.exp(row[v] - largest);
        mass += e;
        weighted += e * row[v];
      }
      const log = largest + Math.log(mass);
      entropies[t] = log - weighted / mass;
      logprobs[t] = row[ids[(t + 1) % T]] - log;
    }
    return [entropies, logprobs];
  };
}
