// Logs of training runs: what each was started with, its looks at held-out problems, its steps, what the tool warned of.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { ROOT } from '../fidelity/program.mjs';

export const LOGS = join(ROOT, 'examples/grpo/logs');

/** The runs of one sweep: a folder of compressed logs. */
export function runsOf(sweep) {
  const files = readdirSync(join(LOGS, sweep)).filter((file) => file.endsWith('.jsonl.gz'));
  return files
    .sort()
    .map((file) => readLog(gunzipSync(readFileSync(join(LOGS, sweep, file))).toString('utf8')));
}

export function readLog(text) {
  const records = text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
  return {
    arguments: records[0].arguments,
    looks: records.filter((record) => 'held_out' in record),
    steps: records.filter((record) => 'reward' in record),
    warnings: records.find((record) => 'warnings' in record)?.warnings ?? [],
  };
}
