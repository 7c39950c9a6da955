// What opening a policy costs whose weights are stored in bfloat16 and widened at load, beside the same shape in float32: processor
// time and peak memory of a process that opens it and asks the canary.
import { execFileSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { HALF_B, randomPolicy } from './checkpoint.mjs';

const rounds = Number(process.argv[2]);

if (process.argv[3] !== undefined) {
  const { openPolicyFolder } = await import('../dist/model/onnx/folder.js');
  const { ModelSession } = await import('../dist/model/onnx/session.js');
  const before = process.cpuUsage();
  const session = await ModelSession.open(await openPolicyFolder(process.argv[3]));
  const { user, system } = process.cpuUsage(before);
  console.log(JSON.stringify({ seconds: (user + system) / 1e6, memory: process.resourceUsage().maxRSS }));
  await session.close();
  process.exit(0);
}

const least = {};
for (const dtype of ['F32', 'BF16'])
  await randomPolicy(join(tmpdir(), `rredcot-bench-open-${dtype}`), HALF_B, dtype);
for (let round = 0; round < rounds; round++)
  for (const dtype of ['F32', 'BF16']) {
    const args = [fileURLToPath(import.meta.url), '0', join(tmpdir(), `rredcot-bench-open-${dtype}`)];
    const found = JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' }));
    if (found.seconds < (least[dtype]?.seconds ?? Number.POSITIVE_INFINITY)) least[dtype] = found;
  }
const name = 'opening a policy of the shape of Qwen2.5-0.5B: bfloat16 / float32';
console.log(
  JSON.stringify([
    { name, value: least.BF16.seconds / least.F32.seconds, unit: 'x', reach: '<=1.5' },
    { name: '… peak memory', value: least.BF16.memory / least.F32.memory, unit: 'x' },
  ]),
);
