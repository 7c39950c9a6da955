// What is known of files and objects; requests over HTTP, sent again, later and later, where the other end or the way to it fails.
import { createReadStream } from 'node:fs';
import { Agent, request as plain } from 'node:http';
import { Agent as SecureAgent, request as secure } from 'node:https';
import { pipeline } from 'node:stream';
import { setTimeout as after } from 'node:timers/promises';
import { interruptedError, usageError } from '../../errors.js';

/** One version of an object. */
export interface ObjectVersion {
  readonly size: number;
  /** another one where the bytes are others */
  readonly etag: string;
  /** of the Hub: of this very version */
  readonly url?: string;
}

/** What is known of what a path names. */
export interface FileFacts {
  readonly size: number;
  /** 0 where a store does not say */
  readonly mtimeMs: number;
  /** of an object */
  readonly version?: ObjectVersion;
  isFile(): boolean;
  isDirectory(): boolean;
}

export interface HttpRequest {
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE';
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  /** what is sent: a file's bytes, or a text */
  readonly file?: { readonly path: string; readonly size: number } | undefined;
  readonly text?: string | undefined;
}

/** What came back, to its last byte; of any status that is no passing failure. */
export interface HttpAnswer {
  readonly status: number;
  header(name: string): string | undefined;
  readonly body: Buffer;
}

const TRIES = 10;
const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 5000;
/** How requests are sent. */
export interface Connections {
  /** at a time: other requests wait */
  readonly most: number;
  /** silence after which a connection is taken for dead */
  readonly silenceMs: number;
  readonly signal?: AbortSignal;
}

/** Of objects, however many are looked at. */
const sendToStore = sender({ most: 32, silenceMs: 60_000 });
/** Busy, too many requests, broken on the way, or another write to the same object under way. */
export const PASSING = new Set([408, 409, 425, 429, 500, 502, 503, 504]);
/** No machine of this name, or not the one that it should be: that does not pass. */
export const WRONG_MACHINE = /^ENOTFOUND$|CERT|ALTNAME/;

/**
 * Asks until an answer comes, some 20 seconds of failures long.
 * @param make the request, made anew each time: signatures hold for minutes
 * @param path of which it is, for messages
 * @throws RredcotError (exit 2) for a machine that cannot be the right one, (exit 75) where every try has failed
 */
export async function ask(path: string, make: () => HttpRequest | Promise<HttpRequest>): Promise<HttpAnswer> {
  let failure = '';
  for (let tries = 0; tries < TRIES; tries++) {
    const wait = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (tries - 1));
    // apart from others that failed at the same time
    if (tries > 0) await after(wait * (0.5 + Math.random() / 2));
    const asked = await make();
    try {
      const answer = await sendToStore(asked);
      if (!PASSING.has(answer.status)) return answer;
      failure = `${asked.url.host} answers ${told(answer)}`;
    } catch (error) {
      const { code = '', message } = error as NodeJS.ErrnoException;
      failure = `${asked.url.host}: ${message || code}`;
      if (WRONG_MACHINE.test(code))
        throw usageError(
          `${path}: ${failure}`,
          'check the address and the endpoint (AWS_ENDPOINT_URL_S3, HF_ENDPOINT)',
        );
    }
  }
  throw interruptedError(`${path}: ${failure}, ${TRIES} times`, 'the same command again');
}

/** A status with what an S3 store says of it in XML. */
export function told({ status, body, header }: HttpAnswer): string {
  const text = body.toString('utf8', 0, 4096);
  const [, code = header('x-error-code') ?? ''] = /<Code>([^<]*)/.exec(text) ?? [];
  const [, message = header('x-error-message') ?? ''] = /<Message>([^<]*)/.exec(text) ?? [];
  return [status, code, message && `(${message})`].filter((each) => each !== '').join(' ');
}

/** @returns what sends a request once. It fails where no whole answer comes back */
export function sender({ most, silenceMs, signal }: Connections) {
  const kept = { keepAlive: true, maxSockets: most };
  const ways = {
    'http:': { send: plain, agent: new Agent(kept) },
    'https:': { send: secure, agent: new SecureAgent(kept) },
  };
  // Node's fetch unpacks what was stored as packed, and a range of it is no packed file
  return ({ method, url, headers, file, text }: HttpRequest) =>
    new Promise<HttpAnswer>((resolve, reject) => {
      const { send, agent } = ways[url.protocol as keyof typeof ways];
      const size = file?.size ?? (text === undefined ? undefined : Buffer.byteLength(text));
      const length = size === undefined ? {} : { 'content-length': `${size}` };
      const sent = { method, agent, signal, headers: { ...headers, ...length } };
      const request = send(url, sent, (response) => {
        const parts: Buffer[] = [];
        // some stores send an end of a body behind it, which is none of the next answer's
        if (method === 'HEAD') tell();
        response.on('data', (part: Buffer) => parts.push(part));
        // an answer that is cut off ends with an error, not with `end`
        response.on('error', reject);
        response.on('end', tell);
        function tell(): void {
          const header = (name: string) => [response.headers[name]].flat()[0];
          resolve({ status: response.statusCode ?? 0, header, body: Buffer.concat(parts) });
        }
      });
      request.setTimeout(silenceMs, () => request.destroy(new Error(`silent for ${silenceMs / 1000} s`)));
      request.on('error', reject);
      if (file === undefined) request.end(text);
      else pipeline(createReadStream(file.path), request, (error) => error && reject(error));
    });
}
