// `npm run bench [-- --quick]`: runs every measurement, prints the table, writes bench/results.json. With `--device <name>` it
// measures that device alone (device.mjs).
import { execFileSync, spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { availableParallelism, cpus } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const { quick, device } = flags();
if (device !== undefined) {
  const path = fileURLToPath(new URL('device.mjs', import.meta.url));
  const args = [path, device, ...(quick ? ['--quick'] : [])];
  process.exit(spawnSync(process.execPath, args, { stdio: 'inherit' }).status ?? 1);
}
const measurements = [
  ['start.mjs', quick ? '3' : '10'],
  ...(quick ? [] : [['open.mjs', '3']]),
  ['exits.mjs', quick ? '2048,4096' : '2048,4096,8192,16384', quick ? '1' : '7'],
  ...(quick ? [] : [['long.mjs']]),
  ['head.mjs', 'all', quick ? '1' : '3'],
  ['whole.mjs', quick ? '1' : '7'],
  ['siblings.mjs', '2048', quick ? '1' : '5'],
  ['prompts.mjs', quick ? '1' : '7'],
  ['merge.mjs'],
  ['memory.mjs', quick ? '100,1000' : '100,1000,10000'],
  ['io.mjs', quick ? '20' : '1000', quick ? '1' : '2'],
  ...(quick ? [] : [['pytorch.mjs'], ['decode.mjs']]),
];

console.log(
  `${cpus()[0].model}, ${availableParallelism()} cores, Node ${process.version}${quick ? ', quick' : ''}`,
);
const results = [];
for (const [script, ...args] of measurements) {
  const path = fileURLToPath(new URL(script, import.meta.url));
  const printed = execFileSync(process.execPath, [path, ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  for (const result of JSON.parse(printed.trim().split('\n').at(-1))) {
    const ok = result.reach === undefined ? undefined : reached(result.value, result.reach);
    results.push({ ...result, ok });
    const verdict = ok === undefined ? '' : `${result.reach.padEnd(8)} ${ok ? 'ok' : 'MISSED'}`;
    console.log(
      `${result.value.toFixed(result.value < 100 ? 3 : 0).padStart(9)} ${result.unit.padEnd(9)} ${verdict.padEnd(16)} ${result.name}`,
    );
  }
}
await writeFile(new URL('results.json', import.meta.url), `${JSON.stringify(results, null, 2)}\n`);

/** A flag that is not known would else be minutes of another measurement. */
function flags() {
  try {
    return parseArgs({ options: { quick: { type: 'boolean' }, device: { type: 'string' } } }).values;
  } catch (error) {
    process.stderr.write(
      `${error.message}\nfix it: npm run bench -- [--quick] [--device auto|cpu|cuda[:n]]\n`,
    );
    process.exit(2);
  }
}

function reached(value, reach) {
  const bound = Number(reach.slice(2));
  return reach.startsWith('<=') ? value <= bound : value >= bound;
}
