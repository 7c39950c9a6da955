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
import { answerNoise } from './noise.js';
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

const NONE =
  'has no answer: rredcot requests with --answers <these files> writes what is left to be answered';

/** The answer to a question out of a line; what is wrong with it, as half a sentence, where it cannot be one. */
type AnswerCheck<Q, A> = (found: WireAnswer, question: Q, vocab: number) => A | string;

export class AnswersFile implements Engine {
  readonly width = 16;
  noise: number | undefined;
  private asked = 0;
  private found = 0;

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

  logprobs(questions: readonly LogprobQuestion[]): Promise<readonly LogprobAnswer[]> {
    return this.answered(questions, checkedLogprobs);
  }

  samples(questions: readonly SampleQuestion[]): Promise<readonly (readonly Int32Array[])[]> {
    return this.answered(questions, checkedSamples);
  }

  /** @returns why there is none, as half a sentence, where there is no answer that can be one */
  async find<Q extends WireQuestion, A>(question: Q, check: AnswerCheck<Q, A>): Promise<A | string> {
    const found = await this.read(idOf(question));
    return typeof found === 'string' ? found : check(found, question, this.vocab);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { handle } of this.files) await handle.close();
  }

  /** @throws TraceRejected for a question without; RredcotError (exit 2) where nothing that was asked so far has an answer */
  private answered<Q extends WireQuestion, A>(
    questions: readonly Q[],
    check: AnswerCheck<Q, A>,
  ): Promise<A[]> {
    const all = questions.map(async (question) => {
      const found = await this.find(question, check);
      this.found += typeof found === 'string' ? 0 : 1;
      if (++this.asked >= ENOUGH && this.found === 0)
        throw usageError(
          `--answers ${this.files.map(({ path }) => path).join()}: answers none of the first ${ENOUGH} questions of this run, such as ${idOf(question)}: they are of other traces, another policy or other flags`,
          'rredcot requests with the flags of this command writes what is to be answered',
        );
      if (typeof found === 'string') throw unanswered(this.name, question.name, found);
      return found;
    });
    return Promise.all(all);
  }

  /** @returns what is wrong with it, as half a sentence, where there is none */
  private async read(id: string): Promise<WireAnswer | string> {
    const place = this.places.get(keyOf(id)) ?? Number.NaN;
    const { path, handle } = this.files[place % FILES] ?? {};
    if (path === undefined || handle === undefined) return NONE;
    const offset = Math.floor(place / FILES);
    const line = await lineAt(handle, offset).catch(failed(path, 'read'));
    try {
      const found = parseAnswer(JSON.parse(line));
      if (typeof found === 'string') return `${shellWord(path)}, byte ${offset}: ${found}`;
      // another id with the same hash
      return found.id === id ? found : NONE;
    } catch (error) {
      return `${shellWord(path)}, byte ${offset}: is not JSON: ${(error as Error).message}`;
    }
  }

  /** By answers that were computed twice, once anew. @param fresh ids of these */
  private async noiseOf(fresh: readonly string[]): Promise<number | undefined> {
    const compared: [anew: number, before: number][] = [];
    for (const id of fresh) {
      const pair = [await this.read(id), await this.read(id.slice(0, -FRESH.length))];
      const [anew, before] = pair.map((each) =>
        typeof each === 'object' ? each.logprobs?.reduce((sum, lp) => sum + lp, 0) : undefined,
      );
      if (anew !== undefined && before !== undefined) compared.push([anew, before]);
    }
    return compared.length === 0 ? undefined : answerNoise(compared);
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
