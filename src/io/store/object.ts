// Objects of a store as files: read in ranges, of one version from the first to the last; and put there whole or not at all.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { dataError, OvertakenError, type RredcotError, usageError } from '../../errors.js';
import { type FileFacts, type ObjectVersion, told } from './http.js';
import { askHub, listHub, lookAtHub } from './hub.js';
import { askS3, listS3, refusalOf, s3Place } from './s3.js';

type ObjectFacts = FileFacts & { readonly version: ObjectVersion };

const isOfHub = (path: string): boolean => /^hf:/i.test(path);

function factsOf(version: ObjectVersion, mtimeMs: number): ObjectFacts {
  return { size: version.size, mtimeMs, version, isFile: () => true, isDirectory: () => false };
}

/** null where there is no such object. @throws RredcotError (exit 2) where the store refuses */
export async function lookAtObject(path: string): Promise<ObjectFacts | null> {
  if (isOfHub(path)) {
    const found = await lookAtHub(path);
    return found && factsOf(found, 0);
  }
  const { key } = s3Place(path);
  // a bucket, or what a user has made to look like a folder
  if (key === '' || key.endsWith('/')) return null;
  const answer = await askS3(path, { method: 'HEAD' });
  if (answer.status === 404) return null;
  const [size, etag] = [Number(answer.header('content-length')), answer.header('etag')];
  if (answer.status !== 200 || etag === undefined) throw refusalOf(path, answer, 'read');
  // the store counts seconds: what is younger than this is younger
  return factsOf({ size, etag }, (Date.parse(answer.header('last-modified') ?? '') || 0) + 999);
}

/** The objects whose addresses begin with one that ends with a slash, or of the Hub lie in that folder; sorted. */
export function listObjects(prefix: string): Promise<string[]> {
  return isOfHub(prefix) ? listHub(prefix) : listS3(prefix);
}

/** What is asked for at a time where little is read: a request takes as long as some 100 KiB. */
const LEAST_BYTES = 2 ** 18;
/** The same of an object that is read from its beginning to its end, while the one before is used. */
const PIECE_BYTES = 8 * 2 ** 20;

/** An object that is open: what is read of it is of the version that it had then. */
export class StoredObject implements AsyncDisposable {
  /** what was read last, of which the next may ask for more */
  private held: { readonly from: number; readonly bytes: Buffer } = { from: 0, bytes: Buffer.alloc(0) };

  private constructor(
    readonly path: string,
    private readonly facts: ObjectFacts,
  ) {}

  /** @param version that was looked at before; undefined: what is there now. @throws Error as {@link noObject} */
  static async open(path: string, version?: ObjectVersion): Promise<StoredObject> {
    const facts = version === undefined ? await lookAtObject(path) : factsOf(version, 0);
    if (facts === null) throw noObject(path);
    return new StoredObject(path, facts);
  }

  async stat(): Promise<ObjectFacts> {
    return this.facts;
  }

  /** As of Node's own files. @returns fewer bytes than asked for only where the object ends */
  async read<T extends Uint8Array>(
    buffer: T,
    offset: number,
    length: number,
    position: number,
  ): Promise<{ bytesRead: number; buffer: T }> {
    const until = Math.min(position + length, this.facts.size);
    if (position >= until) return { bytesRead: 0, buffer };
    const { from, bytes } = this.held;
    if (position < from || until > from + bytes.length) {
      const least = Math.min(this.facts.size, Math.max(until, position + LEAST_BYTES));
      this.held = { from: position, bytes: await this.range(position, least) };
    }
    buffer.set(this.held.bytes.subarray(position - this.held.from, until - this.held.from), offset);
    return { bytesRead: until - position, buffer };
  }

  /** All of it, in order. */
  async *bytes(): AsyncGenerator<Buffer> {
    const { size } = this.facts;
    const piece = (from: number): Promise<Buffer> | undefined => {
      if (from >= size) return undefined;
      const asked = this.range(from, Math.min(size, from + PIECE_BYTES));
      // a failure is told by who takes it, who may have stopped before
      asked.catch(() => {});
      return asked;
    };
    let next = piece(0);
    for (let from = 0; next !== undefined; from += PIECE_BYTES) {
      const bytes: Buffer = await next;
      next = piece(from + PIECE_BYTES);
      yield bytes;
    }
  }

  async close(): Promise<void> {
    this.held = { from: 0, bytes: Buffer.alloc(0) };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** @throws RredcotError (exit 65) where it is another version now */
  private async range(from: number, until: number): Promise<Buffer> {
    const { path } = this;
    const { url, etag, size } = this.facts.version;
    const range = `bytes=${from}-${until - 1}`;
    const answer =
      url === undefined
        ? await askS3(path, { method: 'GET', headers: { range, 'if-match': etag } })
        : await askHub(path, 'GET', url, range);
    const { status, body, header } = answer;
    if (status === 412 || status === 404 || status === 416) throw changed(path);
    if (status !== 200 && status !== 206) throw refusalOf(path, answer, 'read');
    const isWhole = status === 200 && body.length === size;
    const isRange =
      header('content-range') === `bytes ${from}-${until - 1}/${size}` && body.length === until - from;
    if (url === undefined && header('etag') !== etag) throw changed(path);
    if (isWhole) return body.subarray(from, until);
    if (status === 206 && isRange) return body;
    throw dataError(
      `${path}: ${told(answer)}: ${body.length} bytes came, ${header('content-range') ?? 'of no range'}, expected ${range.replace('=', ' ')}/${size}`,
      'the same command again; or download it first',
    );
  }
}

/** As the file system says it of a file. */
export function noObject(path: string): Error {
  return Object.assign(usageError(`${path}: no such object`, 'check the address'), { code: 'ENOENT' });
}

function changed(path: string): RredcotError {
  return dataError(
    `${path}: changed while it was read: the store has another version of it now, or none; nothing is published`,
    'when it is whole, the same command with --overwrite',
  );
}

// ------ uploads

/**
 * Puts a file there, in one request. An answer that was lost is asked for again: then it is found there, and is ours by its bytes.
 * @param replaces whatever is there; else the store refuses what is not the first
 * @throws RredcotError (exit 2) where another file is there, or the store refuses, (exit 75) where it stays away
 */
export async function putObject(from: string, path: string, replaces: boolean): Promise<void> {
  const hash = createHash('sha256');
  for await (const bytes of createReadStream(from)) hash.update(bytes as Buffer);
  const file = { path: from, size: (await stat(from)).size, sha256: hash.digest('hex') };
  const headers: Record<string, string> = replaces ? {} : { 'if-none-match': '*' };
  const answer = await askS3(path, { method: 'PUT', headers, file });
  if (answer.status === 200) return;
  const isUnknown = answer.status === 501 && !replaces;
  if ((isUnknown || answer.status === 412) && (await isThere(file, path))) return;
  // a store that does not know the condition: what is there is looked for, as on a disk
  if (isUnknown && (await lookAtObject(path)) === null) return putObject(from, path, true);
  if (answer.status === 412 || isUnknown) throw new OvertakenError(path);
  throw refusalOf(path, answer, 'written');
}

export async function removeObject(path: string): Promise<void> {
  const answer = await askS3(path, { method: 'DELETE' });
  if (answer.status >= 300 && answer.status !== 404) throw refusalOf(path, answer, 'written');
}

async function isThere(file: { readonly size: number; readonly sha256: string }, path: string) {
  const found = await lookAtObject(path);
  if (found?.size !== file.size) return false;
  const there = createHash('sha256');
  for await (const bytes of (await StoredObject.open(path, found.version)).bytes()) there.update(bytes);
  return there.digest('hex') === file.sha256;
}
