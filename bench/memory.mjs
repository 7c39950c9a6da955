// Peak memory of `rredcot score` over more and more rows: it must not grow.
import { readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PROGRAM, ran } from './measure.mjs';

const counts = process.argv[2].split(',').map(Number);
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
  const { mib: peak } = ran(PROGRAM, 'score', input, '-o', `${input}.parquet`, '--quiet', '--overwrite');
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
