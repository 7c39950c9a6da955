// A run folder of many small chunks, as a run of 10^8 traces leaves it: time of `status` and of one shard's restart, memory of
// `merge` and `verify`. `node bench/scale.mjs [chunks] [shards]`; memory is measured at a hundredth of the chunks too.
//
// The program itself does one shard, one row a chunk; the chunks of the other shards are that shard's, with other names.
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PROGRAM, ran } from './measure.mjs';

const chunks = Number(process.argv[2] ?? 200_000);
const shards = Number(process.argv[3] ?? 1000);
const work = mkdtempSync(join(tmpdir(), 'rredcot-bench-scale-'));
process.on('exit', () => rmSync(work, { recursive: true, force: true }));
const run = (...args) => ran(PROGRAM, ...args);

const digits = (n, width) => String(n).padStart(width, '0');
const shardName = (i, n) => `${digits(i, 5)}-of-${digits(n, 5)}`;

function makeRun(name, count, n) {
  const input = join(work, `${name}.jsonl`);
  const row = (c) => `{"id":"trace-${digits(c, 7)}","prompt":"p","completion":"one.\\ntwo."}\n`;
  writeFileSync(input, Array.from({ length: count }, (_, c) => row(c)).join(''));
  const out = join(work, name);
  const how = ['--no-policy', '--format', 'jsonl', '--rows-per-chunk', '1', '--quiet'];
  const flags = [input, '-o', `${out}/`, ...how];
  const shard = (i) => ['segment', ...flags, '--shard', `${i}/${n}`];
  run(...shard(0));
  const own = shardName(0, n);
  const text = readFileSync(join(out, `chunks/${own}/000000.jsonl`), 'utf8');
  const record = JSON.parse(readFileSync(join(out, `done/${own}/000000.json`), 'utf8'));
  const done = JSON.parse(readFileSync(join(out, `done/${own}.json`), 'utf8'));
  for (let i = 1; i < n; i++) {
    const folder = shardName(i, n);
    for (const kind of ['chunks', 'rejects', 'done']) mkdirSync(join(out, kind, folder), { recursive: true });
    const records = [];
    for (let c = i; c < count; c += n) {
      const bytes = text
        .replaceAll('trace-0000000', `trace-${digits(c, 7)}`)
        .replace('"source_row":0', `"source_row":${c}`);
      writeFileSync(join(out, 'chunks', folder, `${digits(c, 6)}.jsonl`), bytes);
      const sha256 = createHash('sha256').update(bytes).digest('hex');
      records.push({ ...record, chunk: c, sha256 });
      writeFileSync(join(out, 'done', folder, `${digits(c, 6)}.json`), JSON.stringify(records.at(-1)));
    }
    const sums = { rows: records.length, traces: records.length };
    writeFileSync(
      join(out, 'done', `${folder}.json`),
      JSON.stringify({ ...done, ...sums, shard: i, chunks: records }),
    );
  }
  writeFileSync(join(out, '_SUCCESS'), JSON.stringify({ shards: n }));
  return { out, shard };
}

const results = [];
const add = (name, value, unit, reach) => results.push({ name, value, unit, ...(reach && { reach }) });
const few = Math.max(shards, Math.round(chunks / 100));
const peaks = { merge: [], verify: [] };
for (const count of [few, chunks]) {
  const { out, shard } = makeRun(`run-${count}`, count, shards);
  for (const command of ['merge', 'verify']) {
    const { seconds, mib } = run(command, out, ...(command === 'merge' ? ['-o', `${out}-merged.jsonl`] : []));
    peaks[command].push(mib);
    add(`${command} of ${count} chunks`, seconds, 's');
    add(`${command} of ${count} chunks, peak RSS`, mib, 'MiB');
  }
  if (count < chunks) continue;
  add(`status of ${count} chunks, ${shards} shards, all done`, run('status', out).seconds, 's', '<=10');
  // one shard lost its last chunk; and nothing but the records of chunks tells of the others
  const lost = shardName(7, shards);
  const last = 7 + shards * (Math.ceil((count - 7) / shards) - 1);
  for (let i = 0; i < shards; i++) rmSync(join(out, `done/${shardName(i, shards)}.json`));
  rmSync(join(out, '_SUCCESS'));
  rmSync(join(out, `done/${lost}/${digits(last, 6)}.json`));
  rmSync(join(out, `chunks/${lost}/${digits(last, 6)}.jsonl`));
  add(`status of ${count} chunks, ${shards} shards, none done`, run('status', out).seconds, 's', '<=10');
  add('restart of one shard that lacks a chunk', run(...shard(7)).seconds, 's', '<=2');
}
for (const [command, [less, more]] of Object.entries(peaks))
  add(`${command}, peak RSS: ${chunks} chunks / ${few} chunks`, more / less, '×', '<=1.5');
console.log(JSON.stringify(results));
