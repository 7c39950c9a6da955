// MB/s of `rredcot segment --no-policy` to Arrow, Parquet and JSONL, with one worker and with two, beside a loop that only splits
// and parses the file. `node bench/io.mjs [MB] [rounds]`; memory is measured at a tenth of the size too, and has to stay the same.
import { createWriteStream } from 'node:fs';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { interleaved, PROGRAM, ran } from './measure.mjs';

const megabytes = Number(process.argv[2] ?? 100);
const rounds = Number(process.argv[3] ?? 3);
const folder = await mkdtemp(join(tmpdir(), 'rredcot-bench-io-'));
const FORMATS = ['arrow', 'parquet', 'jsonl'];

/** Rows as trainers dump them: 4 KB of reasoning, 1,000 token ids, some labels. */
async function writeRows(path, bytes) {
  const file = createWriteStream(path);
  let written = 0;
  for (let row = 0; written < bytes; row++) {
    const steps = Array.from(
      { length: 40 },
      (_, n) =>
        `Step ${n + 1}: we know that x${(row * 7 + n) % 90} + ${n * 13} = ${row + n * n}, so the sum of the two is ${row * n}.`,
    );
    const line = `${JSON.stringify({
      id: `row-${row}`,
      prompt: `Solve problem ${row}: what is the sum?`,
      completion: `<think>\n${steps.join('\n')}\nWait, let me check.\n</think>\nThe answer is ${row}.`,
      token_ids: Array.from({ length: 1000 }, (_, n) => (row * 31 + n * 7919) % 150000),
      reward: row % 2,
      metadata: { source: 'bench', level: row % 5, tags: ['a', `t${row % 11}`] },
    })}\n`;
    written += line.length;
    if (!file.write(line)) await new Promise((resolve) => file.once('drain', resolve));
  }
  await new Promise((resolve) => file.end(resolve));
}

/** What anything that reads JSONL must do at least. In a process of its own, like the program. */
const BARE = `
  const { createReadStream } = require('node:fs');
  (async () => {
    let rest = Buffer.alloc(0), rows = 0;
    for await (const chunk of createReadStream(process.argv[1], { highWaterMark: 2 ** 20 })) {
      const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      let from = 0;
      for (let to = bytes.indexOf(10); to >= 0; to = bytes.indexOf(10, from)) {
        if (JSON.parse(bytes.toString('utf8', from, to)).reward !== undefined) rows++;
        from = to + 1;
      }
      rest = bytes.subarray(from);
    }
    if (rows === 0) throw new Error('no rows');
  })();`;

const segment = (input, format, ...more) =>
  ran(
    PROGRAM,
    'segment',
    '--no-policy',
    '--overwrite',
    '--quiet',
    input,
    '-o',
    join(folder, `out.${format}`),
    ...more,
  ).mib;

try {
  const input = join(folder, 'rows.jsonl');
  const small = join(folder, 'small.jsonl');
  await writeRows(input, megabytes * 1e6);
  await writeRows(small, megabytes * 1e5);
  const { size } = await stat(input);
  const memory = {};
  const times = await interleaved(
    {
      bare: () => ran('-e', BARE, input),
      ...Object.fromEntries(
        FORMATS.flatMap((format) => [
          [
            format,
            () => {
              memory[format] = segment(input, format);
            },
          ],
        ]),
      ),
    },
    rounds,
  );
  const results = [];
  const speed = (name) => size / 1e6 / (times[name] / 1000);
  results.push({ name: 'split and parse JSONL, nothing else', value: speed('bare'), unit: 'MB/s' });
  for (const format of FORMATS) {
    results.push({ name: `segment --no-policy to ${format}`, value: speed(format), unit: 'MB/s' });
  }
  for (const format of ['arrow', 'parquet']) {
    const before = segment(small, format);
    results.push({ name: `memory, ${megabytes} MB to ${format}`, value: memory[format], unit: 'MiB' });
    results.push({
      name: `memory, ${megabytes} MB to ${format}, against a tenth of it`,
      value: memory[format] / before,
      unit: '×',
      reach: '<=1.5',
    });
  }
  console.log(JSON.stringify(results));
} finally {
  await rm(folder, { recursive: true });
}
