// A folder in which the tests of a file play: files are written and read there by name, and the program is called by the line that a user types.
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { expect } from 'vitest';
import { rredcotHere } from './in-process.js';
import { FIXTURES, type FixtureRow, type Run, readJsonl, readScored, type ScoredRow } from './program.js';
import { temporaryFolder } from './temporary-folder.js';

/** What a command came to; `said` is all that it printed. */
export interface Said extends Run {
  readonly code: number;
  /** stdout, of a format that is no text */
  readonly bytes: Buffer;
  readonly said: string;
}

/** The arguments of a command line, in which quotes hold words together; a list is taken as it is. */
export type Line = string | readonly string[];

const wordsOf = (line: string) =>
  (line.match(/(?:'[^']*'|"[^"]*"|[^\s'"])+/g) ?? []).map((word) =>
    word.replace(/'([^']*)'|"([^"]*)"/g, (_, single, double) => single ?? double),
  );

export const jsonLines = (rows: readonly object[]) => rows.map((row) => `${JSON.stringify(row)}\n`).join('');

/** Rows of the fixtures. */
export const fixtureRows = async (from: number, to: number): Promise<FixtureRow[]> =>
  (await readJsonl<FixtureRow>(FIXTURES)).slice(from, to);

/** Of rows that bring values and segments no policy is run: what is looked at of a scored file costs a fraction so. */
export const GIVEN = '--estimator given --segmenter given';
/** A fixture with a value at the start, in the middle of the thought, and at its end. */
export function valued({ completion, prompt_ids: _, completion_ids: __, ...rest }: FixtureRow) {
  const end = completion.indexOf('</think>');
  return { ...rest, completion, segment_char_ends: [Math.floor(end / 2), end], values: [0.5, 0.25, 0.75] };
}

export type Scene = Awaited<ReturnType<typeof openScene>>;

export async function openScene() {
  const folder = await temporaryFolder();
  const at = (name: string) => resolve(folder, name);
  const text = (name: string) => readFile(at(name), 'utf8');
  const json = async (name: string) => JSON.parse(await text(name));

  async function run(line: Line, stdin?: string | Buffer): Promise<Said> {
    const args = typeof line === 'string' ? wordsOf(line) : line;
    const found = await rredcotHere(args, { cwd: folder, ...(stdin !== undefined && { stdin }) });
    return { ...found, said: `${found.stdout}${found.stderr}` };
  }
  /** The same of a command that has to go well. */
  async function done(line: Line, stdin?: string | Buffer): Promise<Said> {
    const found = await run(line, stdin);
    expect(found.code, `${line}\n${found.said}`).toBe(0);
    return found;
  }
  /** The same of one that has to end with another code, and to say why. */
  async function fails(line: Line, code: number, why: string | RegExp, stdin?: string | Buffer) {
    const found = await run(line, stdin);
    const words = typeof why === 'string' ? expect.stringContaining(why) : expect.stringMatching(why);
    expect([found.code, found.said], `${line}`).toEqual([code, words]);
    return found;
  }
  /** Two files have the same bytes; a failure does not print them. */
  async function expectSame(made: string, fresh: string): Promise<void> {
    const [a, b] = await Promise.all([made, fresh].map((name) => readFile(at(name))));
    expect(a?.equals(b as Buffer), `${made} has the bytes of ${fresh}`).toBe(true);
  }
  return {
    ...{ folder, at, text, json, run, done, fails, expectSame },
    /** Writes a text, or rows as lines. */
    write: (name: string, content: string | Uint8Array | readonly object[]) =>
      writeFile(at(name), Array.isArray(content) ? jsonLines(content) : (content as string | Uint8Array)),
    /** The parts of a run as one file of lines. */
    joinParts: async (out: string, name: string): Promise<void> => {
      const parts = (await readdir(at(out))).filter((each) => each.startsWith('part-')).sort();
      const texts = await Promise.all(parts.map((part) => text(`${out}/${part}`)));
      await writeFile(at(name), texts.join(''));
    },
    /** The rows of a Parquet file, or of JSON lines. */
    rows: <T = ScoredRow>(name: string): Promise<T[]> =>
      name.endsWith('.parquet')
        ? (readScored(at(name)) as Promise<unknown[]> as Promise<T[]>)
        : readJsonl<T>(at(name)),
    /** The configuration that the summary beside an output has. */
    config: async (name: string): Promise<Record<string, unknown>> =>
      (await json(`${name}.summary.json`)).config,
  };
}

/** Changes a JSON file, such as the summary beside an output. */
export async function editJson(
  path: string,
  edit: (value: Record<string, unknown>) => unknown,
): Promise<void> {
  const value = JSON.parse(await readFile(path, 'utf8')) as Record<string, unknown>;
  edit(value);
  await writeFile(path, JSON.stringify(value));
}
