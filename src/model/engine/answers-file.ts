// Files of answers as an engine: found by id, in whatever order they stand there.
import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, open, stat } from 'node:fs/promises';
import { usageError } from '../../errors.js';
import { failed } from '../../io/files/files.js';
import { NEWLINE, readJsonRows } from '../../io/read/jsonl.js';
import { shellWord } from '../../printable.js';
import { isBad } from '../../rows.js';
import type { Engine, LogprobAnswer, LogprobQuestion, SampleQuestion } from './engine.js';
import {
  checkedLogprobs,
  checkedSamples,
  FRESH,
  idOf,
  parseAnswer,
  unanswered,
  type WireAnswer,
  type WireQuestion,
} from './wire.js';

/** Questions without an answer after which, where there was none with one, the answers are of something else. */
const ENOUGH = 32;

export class AnswersFile implements Engine {
  readonly width = 16;
  noise: number | undefined;
  private readonly counts = { asked: 0, found: 0 };

  private constructor(
    readonly name: string,
    readonly config: Engine['config'],
    private readonly files: readonly { readonly path: string; readonly handle: FileHandle }[],
    private readonly places: ReadonlyMap<number, number>,
    private readonly vocab: number,
  ) {}

  /**
   * Reads the files once, to know where each answer lies; of one that is there twice the last counts.
   * @throws RredcotError: exit 2 for a file that cannot be read or has no answer in it
   */
  static async open(paths: readonly string[], vocab: number): Promise<AnswersFile> {
    const { places, hashes, who, fresh } = await indexed(paths);
    if (places.size === 0)
      throw usageError(
        `--answers ${paths.join()}: has no line with an id`,
        'what an engine has said to the lines of rredcot requests (docs/engines.md)',
      );
    const answerer = [...who].join('; ');
    const config = { answers: hashes, ...(answerer !== '' && { answerer }) };
    const opened = paths.map(async (path) => ({
      path,
      handle: await open(path).catch(failed(path, 'read')),
    }));
    const file = new AnswersFile(answerer || paths.join(), config, await Promise.all(opened), places, vocab);
    file.noise = await file.noiseOf(fresh);
    return file;
  }

  async logprobs(questions: readonly LogprobQuestion[]): Promise<readonly LogprobAnswer[]> {
    return Promise.all(
      questions.map(async (question) => {
        const found = await this.findLogprobs(question);
        if (typeof found === 'string') throw unanswered(this.name, question.name, found);
        return found;
      }),
    );
  }

  async samples(questions: readonly SampleQuestion[]): Promise<readonly (readonly Int32Array[])[]> {
    return Promise.all(
      questions.map(async (question) => {
        const found = await this.findSamples(question);
        if (typeof found === 'string') throw unanswered(this.name, question.name, found);
        return found;
      }),
    );
  }

  /** @returns why there is none, as half a sentence, where there is no answer that can be one */
  async findLogprobs(question: LogprobQuestion): Promise<LogprobAnswer | string> {
    const found = await this.find(question);
    return typeof found === 'string' ? found : checkedLogprobs(found, question, this.vocab);
  }

  async findSamples(question: SampleQuestion): Promise<readonly Int32Array[] | string> {
    const found = await this.find(question);
    return typeof found === 'string' ? found : checkedSamples(found, question, this.vocab);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { handle } of this.files) await handle.close();
  }

  /** @throws RredcotError (exit 2) where nothing that was asked so far has an answer */
  private async find(question: WireQuestion): Promise<WireAnswer | string> {
    const id = idOf(question);
    const found = await this.read(id);
    if (found !== undefined) this.counts.found++;
    if (++this.counts.asked >= ENOUGH && this.counts.found === 0)
      throw usageError(
        `--answers ${this.files.map(({ path }) => path).join()}: answers none of the first ${ENOUGH} questions of this run, such as ${id}: they are of other traces, another policy or other flags`,
        'rredcot requests with the flags of this command writes what is to be answered',
      );
    return (
      found ??
      'has no answer: rredcot requests with --answers <these files> writes what is left to be answered'
    );
  }

  /** @returns undefined where there is no such line; what is wrong with it where it is no answer */
  private async read(id: string): Promise<WireAnswer | string | undefined> {
    const place = this.places.get(keyOf(id));
    if (place === undefined) return undefined;
    const { path, handle } = this.files[place % FILES] as { path: string; handle: FileHandle };
    const offset = Math.floor(place / FILES);
    const line = await lineAt(handle, offset).catch(failed(path, 'read'));
    const where = `${shellWord(path)}, byte ${offset}`;
    try {
      const found = parseAnswer(JSON.parse(line));
      if (typeof found === 'string') return `${where}: ${found}`;
      // another id with the same hash
      return found.id === id ? found : undefined;
    } catch (error) {
      return `${where}: is not JSON: ${(error as Error).message}`;
    }
  }

  /** How far answers are off that were computed twice, once anew: the largest difference of a sum. @param fresh ids of these */
  private async noiseOf(fresh: readonly string[]): Promise<number | undefined> {
    let largest: number | undefined;
    for (const id of fresh) {
      const pair = [await this.read(id), await this.read(id.slice(0, -FRESH.length))];
      const [anew, before] = pair.map((each) =>
        typeof each === 'object' ? each.logprobs?.reduce((sum, lp) => sum + lp, 0) : undefined,
      );
      if (anew === undefined || before === undefined) continue;
      largest = Math.max(largest ?? 0, Math.abs(anew - before));
    }
    return largest;
  }
}

/** Where answers lie, by what is found of their ids; and what else the files say. */
async function indexed(paths: readonly string[]) {
  const found = {
    places: new Map<number, number>(),
    hashes: [] as string[],
    who: new Set<string>(),
    fresh: [] as string[],
  };
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
      const { id } = row.columns;
      const header = answererOf(row.columns);
      if (header !== undefined) found.who.add(header);
      if (typeof id !== 'string') continue;
      found.places.set(keyOf(id), (row.byteOffset as number) * FILES + file);
      if (id.endsWith(FRESH)) found.fresh.push(id);
    }
    found.hashes.push(hash.digest('hex'));
  }
  return found;
}

/** Who has answered, by a file's header. */
function answererOf({
  rredcot,
  engine,
  model,
  dtype,
}: Readonly<Record<string, unknown>>): string | undefined {
  const told = [engine, model, dtype].filter((each) => typeof each === 'string');
  return rredcot === 'answers' && told.length > 0 ? told.join(', ') : undefined;
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

const CHUNK = 2 ** 16;
/** Files of answers, at most. */
const FILES = 64;

/** 52 bits, since millions of strings would not fit into memory: what is found is compared with the id. */
function keyOf(id: string): number {
  return Number.parseInt(createHash('sha256').update(id).digest('hex').slice(0, 13), 16);
}
