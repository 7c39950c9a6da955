// Peak memory of `rredcot score` over more and more rows: it must not grow.
import { spawnSync } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const counts = process.argv[2].split(',').map(Number);
const bin = fileURLToPath(new URL('../bin/rredcot.js', import.meta.url));
const rows = (await readFile(new URL('../fixtures/chains.jsonl', import.meta.url), 'utf8'))
  .trim()
  .split('\n');
const results = [];
const peaks = [];
for (const count of counts) {
  const input = join(tmpdir(), `rredcot-bench-${count}.jsonl`);
  const lines = Array.from({ length: count }, (_, i) =>
    JSON.stringify({ ...JSON.parse(rows[i % rows.length]), group: `g${Math.floor(i / 8)}` }),
  );
  await writeFile(input, `${lines.join('\n')}\n`);
  // the child prints its own peak as it ends
  const hook = join(tmpdir(), 'rredcot-bench-rss.mjs');
  await writeFile(
    hook,
    "process.on('exit', () => process._rawDebug('RSS', process.resourceUsage().maxRSS));\n",
  );
  const run = spawnSync(
    process.execPath,
    ['--import', hook, bin, 'score', input, '-o', `${input}.parquet`, '--quiet'],
    { encoding: 'utf8' },
  );
  if (run.status !== 0) throw new Error(run.stderr);
  const peak = Number(/RSS (\d+)/.exec(run.stderr)[1]) / 1024;
  peaks.push(peak);
  results.push({ name: `peak RSS of score, ${count} rows`, value: peak, unit: 'MiB' });
}
results.push({
  name: `peak RSS, ${counts.at(-1)} rows / ${counts.at(-2)} rows`,
  value: peaks.at(-1) / peaks.at(-2),
  unit: '×',
  reach: '<=1.1',
});
console.log(JSON.stringify(results));
