// `npm run bench [-- --quick] [--only <case>]`: runs every case in a process of its own, prints the table, writes bench/results.json.
// With `--device <name>` it measures that device alone (device.mjs).
import { execFileSync, spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { availableParallelism, cpus } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

/** In the order in which they are told; the last two take minutes. */
const CASES = ['start', 'open', 'exits', 'long', 'head', 'whole', 'siblings', 'prompts', 'merge', 'lag'];
const LONG = ['memory', 'io', 'pytorch'];
const FLAGS = {
  quick: { type: 'boolean' },
  only: { type: 'string' },
  device: { type: 'string' },
};

const { quick, only, device } = flags();
const run = (script, ...args) => [
  fileURLToPath(new URL(script, import.meta.url)),
  ...args,
  ...(quick ? ['--quick'] : []),
];
if (device !== undefined)
  process.exit(spawnSync(process.execPath, run('device.mjs', device), { stdio: 'inherit' }).status ?? 1);

console.log(
  `${cpus()[0].model}, ${availableParallelism()} cores, Node ${process.version}${quick ? ', quick' : ''}`,
);
const results = [];
for (const name of only === undefined ? [...CASES, ...LONG] : [only]) {
  const printed = execFileSync(process.execPath, run('cases.mjs', name), {
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
    const { values } = parseArgs({ options: FLAGS });
    const { only: name } = values;
    if (name !== undefined && ![...CASES, ...LONG].includes(name))
      throw new Error(`--only ${name}: no such case`);
    return values;
  } catch (error) {
    process.stderr.write(
      `${error.message}\nfix it: npm run bench -- [--quick] [--device auto|cpu|cuda[:n]] [--only ${[...CASES, ...LONG].join('|')}]\n`,
    );
    process.exit(2);
  }
}

function reached(value, reach) {
  const bound = Number(reach.slice(2));
  return reach.startsWith('<=') ? value <= bound : value >= bound;
}
