// What the tests of the whole program share: running the command line, the fixtures, reading what it wrote.
import { spawn } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { queryDuckdb } from './io-helpers.js';

export { temporaryFolder } from './temporary-folder.js';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));
export const FIXTURES = join(ROOT, 'fixtures/chains.jsonl');
export const EMBEDDED = join(ROOT, 'models/embedded');
/** a checkpoint, of which no policy folder is built */
export const PROVER = join(ROOT, 'models/prover');
/** real traces beside the checkout; not part of the project */
export const SHARED_DATA = join(ROOT, '../shared/data');

export type Run = { readonly code: number | null; readonly stdout: string; readonly stderr: string };

export interface End extends Run {
  readonly signal: NodeJS.Signals | null;
}

/** A process of `rredcot`, and what is told when it has ended. @param opts.plan what test/torture/fs-hook.mjs does in it */
export function start(args: readonly string[], opts: { cwd?: string; plan?: object | undefined } = {}) {
  const hook = opts.plan ? ['--import', join(ROOT, 'test/torture/fs-hook.mjs')] : [];
  const child = spawn(process.execPath, [...hook, join(ROOT, 'bin/rredcot.js'), ...args], {
    cwd: opts.cwd ?? ROOT,
    env: { ...process.env, ...(opts.plan && { RREDCOT_FS_PLAN: JSON.stringify(opts.plan) }) },
  });
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => out.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => err.push(chunk));
  child.stdin.on('error', () => {}); // a command that ends without reading its input
  const end = new Promise<End>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => {
      const [stdout, stderr] = [out, err].map((all) => Buffer.concat(all).toString()) as [string, string];
      resolve({ code, signal, stdout, stderr });
    });
  });
  return { child, end };
}

/** Runs `rredcot` as a user would. */
export function rredcot(
  args: readonly string[],
  { stdin = '', ...opts }: { cwd?: string; stdin?: string | Buffer } = {},
): Promise<End> {
  const { child, end } = start(args, opts);
  child.stdin.end(stdin);
  return end;
}

export type FixtureRow = Readonly<
  Record<'id' | 'group' | 'prompt' | 'completion' | 'answer' | 'solution', string> &
    Record<'prompt_ids' | 'completion_ids', number[]> & { reward: number }
>;

export async function readJsonl<T>(path: string): Promise<T[]> {
  const text = await readFile(path, 'utf8');
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as T);
}

export type ScoredSegment = Readonly<
  Record<'start' | 'end' | 'char_start' | 'char_end' | 'value', number | null> &
    Record<'entropy' | 'delta' | 'sigma', number> & { kind: 'thought' | 'answer' | 'shown' }
>;

/** A row of `rredcot score`'s output. */
export type ScoredRow = Readonly<
  Record<'id' | 'prompt' | 'completion' | 'status', string> &
    Record<'prompt_ids' | 'completion_ids' | 'reference_tokens' | 'reference_utilities', number[]> &
    Record<'logprobs' | 'entropies' | 'sigma', number[]> &
    Record<'value_start' | 'sigma_ess' | 'sigma_max_weight', number> &
    Record<'reward' | 'baseline', number | null> & {
      group: string | null;
      segments: ScoredSegment[];
      reference_logprobs: number[][];
      source_row: bigint;
    }
>;

/** The rows of a Parquet file, read by DuckDB. */
export async function readScored(path: string): Promise<ScoredRow[]> {
  return (await queryDuckdb(`select * from '${path}'`)) as unknown as ScoredRow[];
}

/** v̂(s_0..K) as stored. */
export function storedValues(row: ScoredRow): number[] {
  return [row.value_start, ...row.segments.filter((s) => s.kind === 'thought').map((s) => s.value as number)];
}

/** A prompt of the embedded policy and a right completion of it. */
export const PROMPT = 'start 3: a+4 b*2 top?\n';
export const CHAIN = '<think>\na: 3+4=7 top 7\nb: 7*2=4 top 7\n</think>\nanswer: 7\n';

/** The line of a trace that can be scored, with other fields where `more` has them. */
export const goodLine = (more: Record<string, unknown> = {}) =>
  `${JSON.stringify({ prompt: PROMPT, completion: CHAIN, answer: '7', reward: 1, ...more })}\n`;

/** A line that is no JSON. */
export const BROKEN = '{"prompt": broken';

/** Writes the first `count` fixture traces, and bad lines at the given places of the result. */
export async function writeFixtures(path: string, count: number, bad: Record<number, string> = {}) {
  const lines = (await readFile(FIXTURES, 'utf8')).split('\n').slice(0, count);
  for (const [at, line] of Object.entries(bad)) lines.splice(Number(at), 0, line);
  await writeFile(path, `${lines.join('\n')}\n`);
}
