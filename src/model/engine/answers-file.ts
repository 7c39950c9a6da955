// Files of answers as an engine: found by id, in whatever order they stand there.
import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, open, stat } from 'node:fs/promises';
import { z } from 'zod';
import { usageError } from '../../errors.js';
import { failed } from '../../io/files/files.js';
import { NEWLINE, readJsonRows } from '../../io/read/jsonl.js';
import { shellWord } from '../../printable.js';
import { isBad } from '../../rows.js';
import type { Engine, EngineQuestion, Said } from './engine.js';
import { answerNoise } from './noise.js';
import { FRESH, idOf } from './wire.js';

/** Questions without an answer after which, where there was none with one, the answers are of something else. */
const ENOUGH = 32;

const NONE =
  'has no answer: rredcot requests with --answers <these files> writes what is left to be answered';

const Numbers = z.array(z.number());
const LineSchema = z.object({
  id: z.string(),
  logprobs: Numbers.exactOptional(),
  entropies: Numbers.exactOptional(),
  top: z.array(Numbers.min(1)).exactOptional(),
  ids: z.array(z.array(z.int().min(0))).exactOptional(),
  error: z.string().exactOptional(),
});

export interface AnswersFile extends Engine {
  /** What is said to a question, whatever else is not answered. */
  find(question: EngineQuestion): Promise<Said>;
}

/**
 * Reads the files once, to know where each answer lies; of one that is there twice the last counts.
 * @throws RredcotError: exit 2 for a file that cannot be read or has no answer in it
 */
export async function openAnswers(paths: readonly string[]): Promise<AnswersFile> {
  const { places, hashes, who, fresh } = await indexed(paths);
  if (places.size === 0)
    throw usageError(
      `--answers ${paths.join()}: has no line with an id`,
      'what an engine has said to the lines of rredcot requests (docs/engines.md)',
    );
  const handles = await Promise.all(paths.map((path) => open(path).catch(failed(path, 'read'))));
  const read = async (id: string): Promise<Said> => {
    const place = places.get(keyOf(id)) ?? Number.NaN;
    const [path, handle, offset] = [paths[place % FILES], handles[place % FILES], Math.floor(place / FILES)];
    if (path === undefined || handle === undefined) return NONE;
    const said = saidBy(await lineAt(handle, offset).catch(failed(path, 'read')));
    if (typeof said === 'string') return `${shellWord(path)}, byte ${offset}: ${said}`;
    // another id may have the same hash
    return said.id === id ? said : NONE;
  };
  const answerer = [...who].join('; ');
  let [asked, found] = [0, 0];
  return {
    name: answerer || paths.join(),
    config: { answers: hashes, ...(answerer !== '' && { answerer }) },
    width: 16,
    noise: await noiseOf(fresh, read),
    find: (question) => read(idOf(question)),
    async answer(questions) {
      const said = await Promise.all(questions.map((question) => read(idOf(question))));
      found += said.filter((each) => each !== NONE).length;
      asked += said.length;
      if (asked < ENOUGH || found > 0) return said;
      throw usageError(
        `--answers ${paths.join()}: answers none of the first ${ENOUGH} questions of this run, such as ${questions.map(idOf)[0]}: they are of other traces, another policy or other flags`,
        'rredcot requests with the flags of this command writes what is to be answered',
      );
    },
    async [Symbol.asyncDispose]() {
      for (const handle of handles) await handle.close();
    },
  };
}

/** Where answers lie, by what is found of their ids; and what else the files say. */
async function indexed(paths: readonly string[]) {
  const places = new Map<number, number>();
  const [who, fresh, hashes]: [Set<string>, string[], string[]] = [new Set(), [], []];
  for (const [file, path] of paths.entries()) {
    if (!(await stat(path).catch(failed(path, 'read'))).isFile())
      throw usageError(
        `--answers ${path}: is no regular file`,
        'a file, in which answers are found by their places',
      );
    const hash = createHash('sha256');
    for await (const row of readJsonRows(hashed(path, hash), { file: path, stem: path })) {
      // a line that is cut off answers nothing
      if (isBad(row)) continue;
      const { id, rredcot, engine, model, dtype } = row.columns;
      const told = [engine, model, dtype].filter((each) => typeof each === 'string');
      if (rredcot === 'answers' && told.length > 0) who.add(told.join(', '));
      if (typeof id !== 'string') continue;
      places.set(keyOf(id), (row.byteOffset as number) * FILES + file);
      if (id.endsWith(FRESH)) fresh.push(id);
    }
    hashes.push(hash.digest('hex'));
  }
  return { places, hashes, who, fresh };
}

/** The bytes of a file, which a hash sees as they go by. */
async function* hashed(path: string, hash: Hash): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: 2 ** 20 })) {
      hash.update(chunk as Buffer);
      yield chunk as Buffer;
    }
  } catch (error) {
    failed(path, 'read')(error);
  }
}

/** The line that begins at a place. */
async function lineAt(handle: FileHandle, offset: number): Promise<string> {
  const parts: Buffer[] = [];
  for (let [at, end] = [offset, -1]; end < 0; ) {
    const { buffer, bytesRead } = await handle.read(Buffer.allocUnsafe(CHUNK), 0, CHUNK, at);
    end = bytesRead === 0 ? 0 : buffer.subarray(0, bytesRead).indexOf(NEWLINE);
    parts.push(buffer.subarray(0, end < 0 ? bytesRead : end));
    at += bytesRead;
  }
  return Buffer.concat(parts).toString('utf8');
}

/** Answers of few tokens are the most: 4 KiB are read three times as fast as 64. */
const CHUNK = 2 ** 12;
/** Files of answers, at most. */
const FILES = 64;

/** 52 bits, since millions of strings would not fit into memory: what is found is compared with the id. */
function keyOf(id: string): number {
  return Number.parseInt(createHash('sha256').update(id).digest('hex').slice(0, 13), 16);
}

function saidBy(line: string): z.infer<typeof LineSchema> | string {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (error) {
    return `is not JSON: ${(error as Error).message}`;
  }
  const { data, error } = LineSchema.safeParse(value);
  if (data !== undefined) return data.error === undefined ? data : `says: ${data.error}`;
  const [issue] = error?.issues ?? [];
  return `${issue?.path.join('.') || 'it'}: ${issue?.message}`;
}

/** By answers that were computed twice, once anew. @param fresh ids of these */
async function noiseOf(
  fresh: readonly string[],
  read: (id: string) => Promise<Said>,
): Promise<number | undefined> {
  const compared: [anew: number, before: number][] = [];
  for (const id of fresh) {
    const pair = [await read(id), await read(id.slice(0, -FRESH.length))];
    const [anew, before] = pair.map((each) =>
      typeof each === 'string' ? undefined : each.logprobs?.reduce((sum, lp) => sum + lp, 0),
    );
    if (anew !== undefined && before !== undefined) compared.push([anew, before]);
  }
  return compared.length === 0 ? undefined : answerNoise(compared);
}
