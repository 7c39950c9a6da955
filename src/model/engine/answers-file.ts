// Files of answers as an engine: found by id, in whatever order they stand there.
import { createHash, type Hash } from 'node:crypto';
import { sum } from '../../credit/rules.js';
import { usageError } from '../../errors.js';
import { jsonOf } from '../../io/arrow/json.js';
import { failed, fileBytes, type OpenFile, openFile } from '../../io/files/files.js';
import { fingerprintOf } from '../../io/read/input-file.js';
import { NEWLINE, readJsonRows } from '../../io/read/jsonl.js';
import { shellWord } from '../../printable.js';
import { isBad } from '../../rows.js';
import { type Engine, type EngineQuestion, type Said, saidOn } from './engine.js';
import { answerNoise } from './noise.js';
import { FRESH, idOf } from './wire.js';

/** Questions without an answer after which, where there was none with one, the answers are of something else. */
const ENOUGH = 32;

/** Answers of few tokens are the most: 4 KiB are read three times as fast as 64. */
const CHUNK = 2 ** 12;

const NONE =
  'has no answer: rredcot requests with --answers <these files> writes what is left to be answered';

export type AnswersFile = Awaited<ReturnType<typeof openAnswers>>;

/** Reads the files once, to know where answers lie; of one that is there twice the last counts. @throws RredcotError: exit 2 where there is none */
export async function openAnswers(paths: readonly string[]) {
  const files = await Promise.all(paths.map(indexed));
  if (files.every(({ places }) => places.size === 0))
    throw usageError(
      `--answers ${paths.join()}: has no line with an id`,
      'what an engine has said to the lines of rredcot requests, not packed (docs/engines.md)',
    );
  const who = new Set(files.flatMap((each) => each.who));
  const read = async (id: string): Promise<Said> => {
    const key = keyOf(id);
    const { path = '', file, places } = files.findLast((each) => each.places.has(key)) ?? {};
    const offset = places?.get(key);
    if (file === undefined || offset === undefined) return NONE;
    const line = jsonOf(await lineAt(file, offset).catch(failed(path, 'read')));
    const { id: own, said } = saidOn(line);
    if (typeof said === 'string') return `${shellWord(path)}, byte ${offset}: ${said}`;
    // another id may have the same hash
    return own === id ? said : NONE;
  };
  /** What is said to a question, whatever else is not answered. */
  const find = (question: EngineQuestion) => read(idOf(question));
  const answerer = [...who].join('; ');
  if (who.size > 1)
    throw usageError(
      `--answers ${paths.join()}: are of several: ${answerer}`,
      'those of one engine and model',
    );
  let [asked, found] = [0, 0];
  const engine: Engine = {
    name: answerer || paths.join(),
    config: { answers: files.map(({ sha256 }) => sha256), ...(answerer !== '' && { answerer }) },
    width: 16,
    prints: files.map(({ print }) => print),
    noise: await noiseOf(
      files.flatMap(({ fresh }) => fresh),
      read,
    ),
    async answer(questions) {
      const said = await Promise.all(questions.map(find));
      found += said.filter((each) => each !== NONE).length;
      asked += said.length;
      if (asked < ENOUGH || found > 0) return said;
      throw usageError(
        `--answers ${paths.join()}: answers none of the first ${ENOUGH} questions of this run, such as ${questions.map(idOf)[0]}: they are of other traces, another policy or other flags`,
        'rredcot requests with the flags of this command writes what is to be answered',
      );
    },
    async [Symbol.asyncDispose]() {
      for (const { file } of files) await file.close();
    },
  };
  return { ...engine, find };
}

/** Where answers lie in a file, by what is found of their ids; and what else it says. A line that is no JSON answers nothing. */
async function indexed(path: string) {
  const file = await openFile(path).catch(failed(path, 'read'));
  const { print } = await fingerprintOf(file, path);
  const places = new Map<number, number>();
  const [who, fresh, hash]: [string[], string[], Hash] = [[], [], createHash('sha256')];
  for await (const row of readJsonRows(hashed(path, hash), { file: path, stem: path })) {
    if (isBad(row)) continue;
    const { id, rredcot, engine, model, dtype } = row.columns;
    const told = [engine, model, dtype].filter((each) => typeof each === 'string');
    if (rredcot === 'requests')
      throw usageError(`--answers ${path}: has questions`, 'what an engine says to them (docs/engines.md)');
    if (rredcot === 'answers' && told.length > 0) who.push(told.join(', '));
    if (typeof id !== 'string') continue;
    places.set(keyOf(id), row.byteOffset as number);
    if (id.endsWith(FRESH)) fresh.push(id);
  }
  return { path, file, print, places, who, fresh, sha256: hash.digest('hex') };
}

async function* hashed(path: string, hash: Hash) {
  for await (const chunk of fileBytes(path)) {
    hash.update(chunk);
    yield chunk;
  }
}

/** The line that begins at a place. */
async function lineAt(file: OpenFile, offset: number): Promise<string> {
  const parts: Buffer[] = [];
  for (let [at, end] = [offset, -1]; end < 0; ) {
    const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(CHUNK), 0, CHUNK, at);
    end = bytesRead === 0 ? 0 : buffer.subarray(0, bytesRead).indexOf(NEWLINE);
    parts.push(buffer.subarray(0, end < 0 ? bytesRead : end));
    at += bytesRead;
  }
  return Buffer.concat(parts).toString('utf8');
}

/** 52 bits, since millions of strings would not fit into memory: what is found is compared with the id. */
function keyOf(id: string): number {
  return Number.parseInt(createHash('sha256').update(id).digest('hex').slice(0, 13), 16);
}

/** By answers that were computed twice, once anew. @param fresh ids of these */
async function noiseOf(fresh: readonly string[], read: (id: string) => Promise<Said>) {
  const compared: [anew: number, before: number][] = [];
  for (const id of fresh) {
    const pair = [await read(id), await read(id.slice(0, -FRESH.length))];
    const [anew, before] = pair.map((each) => (typeof each === 'string' ? undefined : each.logprobs));
    if (anew !== undefined && before !== undefined) compared.push([sum(anew), sum(before)]);
  }
  return compared.length === 0 ? undefined : answerNoise(compared);
}
