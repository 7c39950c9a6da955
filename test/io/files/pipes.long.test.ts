// Interruptions that come while a reader waits: at a pipe without a writer or whose writer says nothing, and inside a packed line of gigabytes.
import { execFileSync, spawn } from 'node:child_process';
import { createWriteStream, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { ROOT } from '../../support/program.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

const folder = await temporaryFolder();
const PROGRAM = join(ROOT, 'bin/rredcot.js');
const LINE = `${JSON.stringify({ prompt: 'p', completion: 'a\nb', answer: '4' })}\n`;

function pipe(name: string): string {
  const path = join(folder, name);
  execFileSync('mkfifo', [path]);
  return path;
}

/** Runs `segment`, and sends a signal after a while. */
async function segment(input: string, flags: readonly string[] = [], signal?: NodeJS.Signals) {
  const args = [PROGRAM, 'segment', input, '--no-policy', '-o', '-', '--format', 'jsonl', ...flags];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'], timeout: 60_000 });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (bytes) => (stdout += bytes));
  child.stderr.on('data', (bytes) => (stderr += bytes));
  if (signal) setTimeout(() => child.kill(signal), 3000);
  const code = await new Promise((done) => child.on('close', done));
  return { code, stdout, stderr };
}

describe.skipIf(process.platform !== 'linux')('a pipe', () => {
  it.each([
    ['that nobody opens hears a signal', undefined, [], 'SIGTERM'],
    ['that nobody opens hears --time-limit', undefined, ['--time-limit', '2s'], undefined],
    ['whose writer says nothing more hears --time-limit', LINE, ['--time-limit', '3s'], undefined],
  ] as const)('%s: exit 75', async (name, line, flags, signal) => {
    const path = pipe(`${name}.jsonl`);
    const writer = line === undefined ? undefined : createWriteStream(path);
    writer?.write(line);
    const { code, stderr } = await segment(path, flags, signal);
    writer?.destroy();
    expect([code, stderr]).toEqual([75, expect.stringContaining('interrupted')]);
  });

  it('is read to its end, whoever comes first', async () => {
    for (const isEarly of [true, false]) {
      const path = pipe(`early-${isEarly}.jsonl`);
      const write = () => spawn('sh', ['-c', `cat > '${path}'`]).stdin.end(LINE.repeat(3));
      if (isEarly) write();
      else setTimeout(write, 2000);
      const { code, stdout } = await segment(path);
      expect([code, stdout.trim().split('\n').length]).toEqual([0, 3]);
    }
  });
});

it('a packed line of gigabytes hears --time-limit: exit 75', async () => {
  // a gigabyte of a line, packed in members
  const member = gzipSync(Buffer.alloc(2 ** 26, 'a'));
  const path = join(folder, 'long.jsonl.gz');
  writeFileSync(path, Buffer.concat([gzipSync(LINE), gzipSync('{"a":"'), ...Array(96).fill(member)]));
  const begun = performance.now();
  const { code } = await segment(path, ['--time-limit', '1s']);
  expect(code).toBe(75);
  expect(performance.now() - begun).toBeLessThan(15_000);
});
