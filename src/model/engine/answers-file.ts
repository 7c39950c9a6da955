// Files of answers as an engine: found by id in any order, at 20 bytes of memory an answer.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { usageError } from '../../errors.js';
import { failed } from '../../io/files/files.js';
import { shellWord } from '../../printable.js';
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

/** Where a line lies. */
interface Line {
  readonly file: number;
  readonly offset: number;
  readonly length: number;
}

/** Questions without an answer after which, where there was none with one, the answers are of something else. */
const ENOUGH = 32;

export class AnswersFile implements Engine {
  readonly width = 16;
  readonly noise: number | undefined;
  private readonly counts = { asked: 0, found: 0 };

  private constructor(
    readonly name: string,
    readonly config: Engine['config'],
    private readonly files: readonly { readonly path: string; readonly handle: FileHandle }[],
    private readonly places: Places,
    private readonly vocab: number,
    noise: number | undefined,
  ) {
    this.noise = noise;
  }

  /**
   * Reads the files once, to know where each answer lies; of one that is there twice the last counts.
   * @throws RredcotError: exit 2 for a file that cannot be read or has no answer in it
   */
  static async open(paths: readonly string[], vocab: number): Promise<AnswersFile> {
    const places = new Places();
    const files: { path: string; handle: FileHandle }[] = [];
    const hashes: string[] = [];
    const fresh: string[] = [];
    const who = new Set<string>();
    let first: string | undefined;
    for (const [file, path] of paths.entries()) {
      files.push({ path, handle: await open(path, 'r').catch(failed(path, 'read')) });
      const hash = createHash('sha256');
      for await (const { line, offset } of linesOf(path, hash)) {
        const id = idIn(line);
        if (id === undefined) {
          const header = answererIn(line);
          if (header !== undefined) who.add(header);
          continue;
        }
        first ??= id;
        places.set(id, { file, offset, length: line.length });
        if (id.endsWith(FRESH)) fresh.push(id);
      }
      hashes.push(hash.digest('hex'));
    }
    if (first === undefined)
      throw usageError(
        `--answers ${paths.join()}: has no line with an id`,
        'what an engine has said to the lines of rredcot requests (docs/engines.md)',
      );
    const config = { answers: hashes, ...(who.size > 0 && { answerer: [...who].join('; ') }) };
    const name = [...who].join('; ') || paths.join();
    const unproved = new AnswersFile(name, config, files, places, vocab, undefined);
    const noise = await unproved.noiseOf(fresh);
    return new AnswersFile(name, config, files, places, vocab, noise);
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
    const place = this.places.get(id);
    if (place === undefined) return undefined;
    const { path, handle } = this.files[place.file] as { path: string; handle: FileHandle };
    const bytes = Buffer.alloc(place.length);
    await handle.read(bytes, 0, place.length, place.offset).catch(failed(path, 'read'));
    const where = `${shellWord(path)}, byte ${place.offset}`;
    try {
      const found = parseAnswer(JSON.parse(bytes.toString('utf8')));
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

/** The lines of a file that are not blank, and where they lie. @param hash of all bytes */
async function* linesOf(path: string, hash: { update(bytes: Buffer): unknown }) {
  let rest: Buffer[] = [];
  let [offset, held] = [0, 0];
  const lineOf = (end: Buffer) => {
    const line = rest.length === 0 ? end : Buffer.concat([...rest, end]);
    const found = { line, offset };
    offset += line.length + 1;
    [rest, held] = [[], 0];
    return found;
  };
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: 2 ** 20 }) as AsyncIterable<Buffer>) {
      hash.update(chunk);
      let from = 0;
      for (let to = chunk.indexOf(10); to >= 0; to = chunk.indexOf(10, from)) {
        const found = lineOf(chunk.subarray(from, to));
        if (found.line.length > 1) yield found;
        from = to + 1;
      }
      if (from < chunk.length) held += rest.push(chunk.subarray(from));
    }
  } catch (error) {
    failed(path, 'read')(error);
  }
  if (held > 0) yield lineOf(Buffer.alloc(0));
}

/** An id at a line's start, where writers put it. */
const LEADING_ID = /^\s*\{\s*"id"\s*:\s*"((?:[^"\\]|\\.)*)"/;

/** undefined for a line without one, or one that is cut off: nothing is answered there */
function idIn(line: Buffer): string | undefined {
  try {
    const leading = LEADING_ID.exec(line.toString('utf8', 0, Math.min(line.length, 1024)))?.[1];
    const id = leading === undefined ? JSON.parse(line.toString('utf8')).id : JSON.parse(`"${leading}"`);
    return typeof id === 'string' ? id : undefined;
  } catch {
    return undefined;
  }
}

/** Who has answered, by a file's header. */
function answererIn(line: Buffer): string | undefined {
  try {
    const { rredcot, engine, model, dtype } = JSON.parse(line.toString('utf8'));
    const told = [engine, model, dtype].filter((each) => typeof each === 'string');
    return rredcot === 'answers' && told.length > 0 ? told.join(', ') : undefined;
  } catch {
    return undefined;
  }
}

/** Where lines lie, by id: a table of hashes, since millions of strings would not fit. */
class Places {
  private keys = new Float64Array(2 ** 12).fill(-1);
  private offsets = new Float64Array(2 ** 12);
  private lengths = new Uint32Array(2 ** 12);
  private count = 0;

  set(id: string, { file, offset, length }: Line): void {
    if (2 * ++this.count > this.keys.length) this.grow();
    this.put(keyOf(id), offset * FILES + file, length);
  }

  get(id: string): Line | undefined {
    const at = this.slot(keyOf(id));
    if (this.keys[at] === -1) return undefined;
    const place = this.offsets[at] as number;
    return { file: place % FILES, offset: Math.floor(place / FILES), length: this.lengths[at] as number };
  }

  private put(key: number, place: number, length: number): void {
    const at = this.slot(key);
    this.keys[at] = key;
    this.offsets[at] = place;
    this.lengths[at] = length;
  }

  /** Where a key is, or would be. */
  private slot(key: number): number {
    const size = this.keys.length;
    let at = key % size;
    while (this.keys[at] !== -1 && this.keys[at] !== key) at = (at + 1) % size;
    return at;
  }

  private grow(): void {
    const { keys, offsets, lengths } = this;
    const size = 2 * keys.length;
    this.keys = new Float64Array(size).fill(-1);
    this.offsets = new Float64Array(size);
    this.lengths = new Uint32Array(size);
    for (const [n, key] of keys.entries())
      if (key !== -1) this.put(key, offsets[n] as number, lengths[n] as number);
  }
}

/** Files of answers, at most. */
const FILES = 64;

/** 52 bits: among ten million answers two have one in a hundred times, and then one of them counts as missing. */
function keyOf(id: string): number {
  return Number.parseInt(createHash('sha256').update(id).digest('hex').slice(0, 13), 16);
}
