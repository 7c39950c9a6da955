// Runs the program for fidelity: what it takes is counted also where it was interrupted, and files that are the same stay.
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';

export const ROOT = resolve(import.meta.dirname, '../..');
const PROGRAM = join(ROOT, 'bin/rredcot.js');

const shown = (args) => `rredcot ${args.map((arg) => basename(arg)).join(' ')}`;

/** Runs a command to its end; its own progress goes to the terminal unless it is told to be quiet. */
export function rredcot(...args) {
  console.error(`$ ${shown(args)}`);
  execFileSync(process.execPath, [PROGRAM, ...args], { stdio: ['ignore', 'ignore', 'inherit'] });
}

/** What a command prints, as JSON. */
export function toldBy(...args) {
  console.error(`$ ${shown(args)}`);
  const stdio = ['ignore', 'pipe', 'inherit'];
  return JSON.parse(
    execFileSync(process.execPath, [PROGRAM, ...args], { encoding: 'utf8', maxBuffer: 2 ** 28, stdio }),
  );
}

/** How often the seconds of a long run are noted, and its progress is told. */
const NOTED_EVERY = 15_000;

/**
 * Runs a command that may be interrupted and taken up again.
 * @param times file that sums its seconds, start included, over all attempts
 * @param told called now and then
 * @returns seconds
 */
export async function longRun(times, told, ...args) {
  console.error(`$ ${shown(args)}`);
  const before = existsSync(times) ? JSON.parse(readFileSync(times, 'utf8')) : { seconds: 0, isDone: false };
  const started = performance.now();
  const note = (isDone) => {
    // a start of what is done already takes a second and does nothing
    const own = before.isDone ? 0 : (performance.now() - started) / 1000;
    const sum = { seconds: before.seconds + own, isDone };
    writeFileSync(times, JSON.stringify(sum));
    return sum.seconds;
  };
  const child = spawn(process.execPath, [PROGRAM, ...args], { stdio: ['ignore', 'ignore', 'inherit'] });
  const timer = setInterval(() => {
    note(before.isDone);
    told();
  }, NOTED_EVERY);
  const code = await new Promise((ended, failed) => child.on('close', ended).on('error', failed));
  clearInterval(timer);
  if (code !== 0)
    throw new Error(
      `${shown(args)} ended with ${code}: started again it goes on from its last chunk, without its folder it begins anew`,
    );
  return note(true);
}

export const readLines = (path) =>
  readFileSync(path, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));

/** A file that is the same already is left alone: a run goes on only where its input is what it was. */
export function writeLines(path, rows) {
  const text = rows.map((row) => `${JSON.stringify(row)}\n`).join('');
  if (!existsSync(path) || readFileSync(path, 'utf8') !== text) writeFileSync(path, text);
}

/** Rows of a finished JSONL run, in their order, a chunk in memory at a time. */
export function* rowsOf(folder) {
  const names = readdirSync(join(folder, 'chunks'), { recursive: true, encoding: 'utf8' });
  const chunks = names.filter((name) => name.endsWith('.jsonl'));
  for (const name of chunks.sort((a, b) => (basename(a) < basename(b) ? -1 : 1)))
    yield* readLines(join(folder, 'chunks', name));
}
