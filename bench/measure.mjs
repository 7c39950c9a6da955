// Times alternatives in turn and compares medians: what else the machine does then falls on all of them alike; and runs the program.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const PROGRAM = fileURLToPath(new URL('../bin/rredcot.js', import.meta.url));
const HOOK =
  "data:text/javascript,process.on('exit',()=>process._rawDebug('RSS',process.resourceUsage().maxRSS))";

/** Runs Node to its end, which prints its own peak memory then. @returns seconds, MiB */
export function ran(...args) {
  const started = performance.now();
  const options = { encoding: 'utf8', maxBuffer: 2 ** 28 };
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--import', HOOK, ...args], options);
  const seconds = (performance.now() - started) / 1000;
  if (status !== 0) throw new Error(`${args.join(' ')}: exit ${status}\n${stdout.slice(0, 2000)}${stderr}`);
  return { seconds, mib: Number([...stderr.matchAll(/RSS (\d+)/g)].at(-1)[1]) / 1024 };
}

/** Milliseconds that this process has computed, on all of its threads: other processes' work is not in them. */
export function processorTime() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** Mean seconds of user and system time of a Node process and its threads; the kernel counts in hundredths of a second (proc(5): cutime, cstime). */
export function childTime(args, rounds) {
  const used = () => {
    const fields = readFileSync('/proc/self/stat', 'utf8').split(') ')[1].split(' ');
    return (Number(fields[13]) + Number(fields[14])) / 100;
  };
  const before = used();
  for (let round = 0; round < rounds; round++) {
    const { status } = spawnSync(process.execPath, args, { stdio: 'ignore' });
    if (status !== 0) throw new Error(`${args.join(' ')}: exit ${status}`);
  }
  return (used() - before) / rounds;
}

/** Runs every alternative once to warm up, then `rounds` times in turn. @returns median milliseconds of each */
export async function interleaved(alternatives, rounds, now = () => performance.now()) {
  const times = Object.fromEntries(Object.keys(alternatives).map((name) => [name, []]));
  for (const run of Object.values(alternatives)) await run();
  for (let round = 0; round < rounds; round++)
    for (const [name, run] of Object.entries(alternatives)) {
      const start = now();
      await run();
      times[name].push(now() - start);
    }
  return Object.fromEntries(Object.entries(times).map(([name, list]) => [name, median(list)]));
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/**
 * FLOP of the matrix products that scoring a trace cannot do without: projections and MLP of all rows, attention below the
 * diagonal, the head of the rows that are read out.
 * @param job T tokens, of them `prompt` of the prompt; K branches of A tokens, of which the last `scored` are read out
 */
export function products(shape, { T, prompt, K, A, scored }) {
  const { hidden_size: d, num_attention_heads: H, num_key_value_heads: KV, intermediate_size: m } = shape;
  const rows = T + K * A;
  const layer = 2 * rows * (2 * d * d + 2 * d * ((d / H) * KV) + 3 * d * m);
  const attention = 4 * d * ((T * T) / 2 + K * A * ((T + prompt) / 2));
  const head = 2 * (T - prompt + K * scored) * d * shape.vocab_size;
  return shape.num_hidden_layers * (layer + attention) + head;
}
