// What a start costs: processor time of `rredcot --help` and of `rredcot score` of one trace, beside a Node that does nothing.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { PROGRAM } from './measure.mjs';

const rounds = Number(process.argv[2]);
const fixtures = fileURLToPath(new URL('../fixtures/chains.jsonl', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'rredcot-bench-'));
const one = join(folder, 'one.jsonl');
writeFileSync(one, `${readFileSync(fixtures, 'utf8').split('\n')[0]}\n`);
const nothing = processorTime(['-e', '0']);
const help = processorTime([PROGRAM, '--help']);
const flags = ['-o', join(folder, 'scored.jsonl'), '--overwrite', '--quiet'];
const score = processorTime([PROGRAM, 'score', one, ...flags]);
rmSync(folder, { recursive: true });
console.log(
  JSON.stringify([
    { name: 'rredcot --help / node -e 0, processor time', value: help / nothing, unit: 'x', reach: '<=1.4' },
    { name: 'rredcot score of one trace / node -e 0, processor time', value: score / nothing, unit: 'x' },
    { name: 'rredcot score of one trace, processor time', value: score, unit: 's', reach: '<=0.9' },
  ]),
);

/** Mean seconds of user and system time, of the processes and their threads. */
function processorTime(args) {
  const before = childrenTime();
  for (let round = 0; round < rounds; round++) {
    const { status } = spawnSync(process.execPath, args, { stdio: 'ignore' });
    if (status !== 0) throw new Error(`${args.join(' ')}: exit ${status}`);
  }
  return (childrenTime() - before) / rounds;
}

/** What the children of this process have used; the kernel counts in hundredths of a second (proc(5): cutime, cstime). */
function childrenTime() {
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ')[1].split(' ');
  return (Number(fields[13]) + Number(fields[14])) / 100;
}
