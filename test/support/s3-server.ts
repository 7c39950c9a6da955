// A store that speaks S3, on loopback, in memory: it checks every signature by the specification (AWS Signature Version 4), and
// fails where a test says so.
import { createHash, createHmac } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeEach, vi } from 'vitest';
import { openScene } from './scene.js';

export const KEYS = { id: 'AKIDTEST', secret: 'a/secret+key', region: 'eu-test-1' } as const;

type Stored = { readonly bytes: Buffer; readonly etag: string; readonly at: Date };

export interface SeenRequest {
  readonly method: string;
  /** bucket and key, decoded */
  readonly name: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage['headers'];
}

/**
 * How a request fails. `busy`: 503 without being done. `cut`: the answer ends early. `lost`: done, and the connection closes without an
 * answer.
 */
export type Failure = 'busy' | 'cut' | 'lost';

const hash = (data: string | Buffer) => createHash('sha256').update(data).digest('hex');
const hmac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest();
const uriEncoded = (text: string) =>
  Array.from(Buffer.from(text), (byte) =>
    /[A-Za-z0-9\-._~]/.test(String.fromCharCode(byte))
      ? String.fromCharCode(byte)
      : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`,
  ).join('');

/** Why a request is not signed as it has to be; undefined where it is. */
function signatureFault(request: IncomingMessage, body: Buffer): string | undefined {
  const { method = '', url = '', headers } = request;
  const form = /^AWS4-HMAC-SHA256 Credential=([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/;
  const [, credential = '', signed = '', signature] = form.exec(headers.authorization ?? '') ?? [];
  if (signature === undefined) return 'AccessDenied';
  const [id, date = '', region = '', service, end] = credential.split('/');
  if (id !== KEYS.id || region !== KEYS.region || service !== 's3' || end !== 'aws4_request')
    return 'InvalidAccessKeyId';
  const time = `${headers['x-amz-date']}`;
  const at = Date.parse(time.replace(/^(....)(..)(..)T(..)(..)(..)Z$/, '$1-$2-$3T$4:$5:$6Z'));
  if (!time.startsWith(date) || !(Math.abs(Date.now() - at) < 15 * 60_000)) return 'RequestTimeTooSkewed';
  const names = signed.split(';');
  const mustBeSigned = Object.keys(headers).filter((name) => name === 'host' || name.startsWith('x-amz-'));
  if (mustBeSigned.some((name) => !names.includes(name))) return 'HeadersNotSigned';
  if (headers['x-amz-content-sha256'] !== hash(body)) return 'XAmzContentSHA256Mismatch';
  const [path = '', query = ''] = url.split('?');
  const pairs = query === '' ? [] : query.split('&').map((pair) => pair.split('=').map(decodeURIComponent));
  const canonical = [
    method,
    path.split('/').map(decodeURIComponent).map(uriEncoded).join('/'),
    pairs
      .map(([name = '', value = '']) => `${uriEncoded(name)}=${uriEncoded(value)}`)
      .sort()
      .join('&'),
    ...names.map((name) => `${name}:${`${headers[name] ?? ''}`.trim().replaceAll(/ +/g, ' ')}`),
    '',
    signed,
    headers['x-amz-content-sha256'],
  ].join('\n');
  const scope = [date, region, service, end].join('/');
  const key = [date, region, service, end].reduce<string | Buffer>(hmac, `AWS4${KEYS.secret}`);
  const expected = hmac(key, ['AWS4-HMAC-SHA256', time, scope, hash(canonical)].join('\n')).toString('hex');
  return expected === signature ? undefined : 'SignatureDoesNotMatch';
}

/** A store that every test of a file finds empty, and a scene whose commands speak to it. */
export async function openStore() {
  const scene = await openScene();
  // one for all tests: threads that are kept have the environment of when they were started
  const store = await startS3();
  beforeEach(() => {
    store.reset();
    for (const [name, value] of Object.entries(store.env)) vi.stubEnv(name, value);
    for (const name of ['AWS_PROFILE', 'AWS_SESSION_TOKEN', 'AWS_DEFAULT_REGION'])
      vi.stubEnv(name, undefined);
    vi.stubEnv('HOME', scene.folder);
    vi.stubEnv('XDG_CACHE_HOME', scene.at('cache'));
  });
  afterAll(async () => {
    vi.unstubAllEnvs();
    await store.close();
  });
  return { ...scene, scene, store };
}

/** @param pageSize keys that one answer lists */
async function startS3(pageSize = 2) {
  const objects = new Map<string, Stored>();
  const seen: SeenRequest[] = [];
  let failing: (request: SeenRequest) => unknown = () => undefined;
  const put = (name: string, bytes: Buffer | string): Stored => {
    const etag = `"${createHash('md5').update(bytes).digest('hex')}"`;
    const stored = { bytes: Buffer.from(bytes as Buffer), etag, at: new Date() };
    objects.set(name, stored);
    return stored;
  };
  const xml = (code: string) =>
    `<?xml version="1.0"?><Error><Code>${code}</Code><Message>of a test</Message></Error>`;
  type Answer = { status: number; headers?: Record<string, string>; body?: Buffer | string };
  const refused = (status: number, code: string): Answer => ({ status, body: xml(code) });

  function read({ name, headers }: SeenRequest): Answer {
    const found = objects.get(name);
    if (found === undefined) return refused(404, 'NoSuchKey');
    const { bytes, etag, at } = found;
    if (headers['if-match'] !== undefined && headers['if-match'] !== etag)
      return refused(412, 'PreconditionFailed');
    const facts = { etag, 'last-modified': at.toUTCString(), 'accept-ranges': 'bytes' };
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? '') ?? [];
    if (from === undefined) return { status: 200, headers: facts, body: bytes };
    if (Number(from) >= bytes.length) return refused(416, 'InvalidRange');
    const end = Math.min(Number(to), bytes.length - 1);
    const range = { 'content-range': `bytes ${from}-${end}/${bytes.length}` };
    return { status: 206, headers: { ...facts, ...range }, body: bytes.subarray(Number(from), end + 1) };
  }
  function list({ name, query }: SeenRequest): Answer {
    const bucket = name.replace(/\/$/, '');
    const [prefix, after] = [query.get('prefix') ?? '', query.get('continuation-token') ?? ''];
    const keys = [...objects.keys()]
      .filter((each) => each.startsWith(`${bucket}/${prefix}`))
      .map((each) => each.slice(bucket.length + 1))
      .sort()
      .filter((key) => key > after);
    const page = keys.slice(0, pageSize);
    const more =
      keys.length > pageSize ? `<NextContinuationToken>${page.at(-1)}</NextContinuationToken>` : '';
    const contents = page.map(
      (key) => `<Contents><Key>${encodeURIComponent(key).replaceAll('%20', '+')}</Key></Contents>`,
    );
    return { status: 200, body: `<ListBucketResult>${contents.join('')}${more}</ListBucketResult>` };
  }
  function write(request: SeenRequest, body: Buffer): Answer {
    const { method, name, headers } = request;
    if (method === 'DELETE') {
      objects.delete(name);
      return { status: 204 };
    }
    if (headers['if-none-match'] === '*' && objects.has(name)) return refused(412, 'PreconditionFailed');
    return { status: 200, headers: { etag: put(name, body).etag } };
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const body = Buffer.concat(parts);
    const url = new URL(request.url ?? '', 'http://localhost');
    const name = decodeURIComponent(url.pathname.slice(1));
    const { method = '', headers } = request;
    const asked: SeenRequest = { method, name, query: url.searchParams, headers };
    seen.push(asked);
    const fault = signatureFault(request, body);
    const failure = failing(asked) as Failure | undefined;
    const isRead = method === 'GET' || method === 'HEAD';
    const found: Answer =
      fault !== undefined
        ? refused(403, fault)
        : failure === 'busy'
          ? refused(503, 'SlowDown')
          : isRead && url.searchParams.has('list-type')
            ? list(asked)
            : isRead
              ? read(asked)
              : write(asked, body);
    if (failure === 'lost') return void request.socket.destroy();
    const bytes = Buffer.from((found.body ?? '') as Buffer);
    response.writeHead(found.status, { ...found.headers, 'content-length': bytes.length });
    if (failure !== 'cut' || method === 'HEAD')
      return void response.end(method === 'HEAD' ? undefined : bytes);
    response.write(bytes.subarray(0, bytes.length / 2), () => request.socket.destroy());
  }
  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    ...{ objects, seen, put, endpoint },
    /** what makes a client of this store's a client of it */
    env: {
      ...{ AWS_ENDPOINT_URL_S3: endpoint, AWS_REGION: KEYS.region },
      ...{ AWS_ACCESS_KEY_ID: KEYS.id, AWS_SECRET_ACCESS_KEY: KEYS.secret },
    },
    bytes: (name: string) => objects.get(name)?.bytes,
    /** Nothing is there, and nothing fails. */
    reset(): void {
      objects.clear();
      seen.length = 0;
      failing = () => undefined;
    },
    /** @param next asked of each request from now on for a {@link Failure}: anything else is none */
    failWith(next: (request: SeenRequest) => unknown): void {
      failing = next;
    },
    async close(): Promise<void> {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
