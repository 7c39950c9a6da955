// Requests to a store that speaks S3: where it is and who asks, by the environment; signed, and its refusals told with what mends them.
import { createHash } from 'node:crypto';
import { AwsV4Signer } from 'aws4fetch';
import { type RredcotError, usageError } from '../../errors.js';
import { ask, type HttpAnswer, type HttpRequest, told } from './http.js';

type S3Place = ReturnType<typeof s3Place>;

/** @throws RredcotError (exit 2) for an address that names no bucket, or whose key a URL cannot hold */
export function s3Place(path: string) {
  const [, bucket, key = ''] = /^s3:\/\/([^/]+)\/?(.*)$/is.exec(path) ?? [];
  if (bucket === undefined || key.split('/').some((part) => part === '.' || part === '..'))
    throw usageError(`${path}: is no address of an object`, 's3://<bucket>/<key>');
  return { bucket, key };
}

interface S3Request extends Pick<HttpRequest, 'method'> {
  readonly file?: { readonly path: string; readonly size: number; readonly sha256: string };
  readonly headers?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
}

const NOTHING = createHash('sha256').digest('hex');

/** Asks for an object. @param place with an empty key: something of its bucket. @throws RredcotError as `ask` and {@link accountOf} */
export async function askS3(
  path: string,
  request: S3Request,
  place: S3Place = s3Place(path),
): Promise<HttpAnswer> {
  const { method, file, headers = {}, query = {} } = request;
  const account = accountOf(process.env);
  const url = new URL(urlOf(place, account));
  // URLSearchParams would write a blank as +, which the signature has as %20
  url.search = Object.entries(query)
    .map(([name, value]) => `${name}=${encoded(value)}`)
    .join('&');
  const { keys, region } = account;
  if (keys === undefined) return ask(path, () => ({ method, url, headers, file }));
  const hash = file?.sha256 ?? NOTHING;
  return ask(path, async () => {
    const own = { ...headers, 'x-amz-content-sha256': hash };
    const signer = new AwsV4Signer({ ...keys, method, url: url.href, headers: own, region, service: 's3' });
    const signed = await signer.sign();
    return { method, url: signed.url, headers: Object.fromEntries(signed.headers), file };
  });
}

function urlOf({ bucket, key }: S3Place, { endpoint, region }: ReturnType<typeof accountOf>): string {
  const path = key.split('/').map(encoded).join('/');
  if (endpoint !== undefined) return `${endpoint.replace(/\/+$/, '')}/${encoded(bucket)}/${path}`;
  const host = `s3.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`;
  // a certificate holds for one name before the dot
  return bucket.includes('.') ? `https://${host}/${bucket}/${path}` : `https://${bucket}.${host}/${path}`;
}

/** As the signature has it: what a URL may hold and S3 still wants written out is `!'()*`. */
function encoded(text: string): string {
  return encodeURIComponent(text).replaceAll(
    /[!'()*]/g,
    (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** What the user has to mend where a store refuses. */
export function refusalOf(path: string, answer: HttpAnswer, action: 'read' | 'written'): RredcotError {
  const { keys, region } = accountOf(process.env);
  const own = answer.header('x-amz-bucket-region');
  const hint =
    own !== undefined && own !== region
      ? `AWS_REGION=${own}`
      : answer.status !== 401 && answer.status !== 403
        ? 'check the address, the region and the endpoint (AWS_REGION, AWS_ENDPOINT_URL_S3)'
        : keys === undefined
          ? 'AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; of a profile: eval "$(aws configure export-credentials --format env)"'
          : 'check that these keys may read, list and write there: without the right to list a bucket, what is not there is forbidden';
  return usageError(`${path}: cannot be ${action}: the store answers ${told(answer)}`, hint);
}

/** Addresses of keys that begin with a place's, in the order of their bytes. @throws RredcotError (exit 2) where the store refuses */
export async function listS3(path: string): Promise<string[]> {
  const { bucket, key: prefix } = s3Place(path);
  const found: string[] = [];
  for (let token: string | undefined, isLast = false; !isLast; ) {
    const more: Record<string, string> = token === undefined ? {} : { 'continuation-token': token };
    const query = { 'list-type': '2', 'encoding-type': 'url', prefix, ...more };
    const answer = await askS3(path, { method: 'GET', query }, { bucket, key: '' });
    if (answer.status === 404) return [];
    if (answer.status !== 200) throw refusalOf(path, answer, 'read');
    for (const key of textOf(answer, 'Key'))
      found.push(`s3://${bucket}/${decodeURIComponent(key.replaceAll('+', ' '))}`);
    [token] = textOf(answer, 'NextContinuationToken');
    isLast = token === undefined;
  }
  return found;
}

const ENTITIES: Readonly<Record<string, string>> = { lt: '<', gt: '>', quot: '"', apos: "'", amp: '&' };

/** What stands in the elements of a name. */
function textOf({ body }: HttpAnswer, name: string): string[] {
  const found = body.toString().matchAll(new RegExp(`<${name}>([^<]*)</${name}>`, 'g'));
  return Array.from(found, ([, text = '']) =>
    text.replaceAll(/&(lt|gt|quot|apos|amp);/g, (_, entity: string) => ENTITIES[entity] ?? ''),
  );
}

/**
 * Where the store is, and who asks: without an endpoint it is AWS's own, without keys requests are not signed, which public objects do not need.
 * @throws RredcotError (exit 2) for an endpoint that is no address
 */
function accountOf(env: NodeJS.ProcessEnv) {
  const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey } = env;
  const { AWS_SESSION_TOKEN: sessionToken } = env;
  const endpoint = env.AWS_ENDPOINT_URL_S3 || env.AWS_ENDPOINT_URL || undefined;
  if (endpoint !== undefined && !/^https?:\/\/[^/]/.test(endpoint))
    throw usageError(`AWS_ENDPOINT_URL_S3: ${endpoint}: expected http:// or https://`, 'https://<host>');
  const region = env.AWS_REGION || env.AWS_DEFAULT_REGION || 'us-east-1';
  if (!accessKeyId || !secretAccessKey) return { endpoint, region, keys: undefined };
  return { endpoint, region, keys: { accessKeyId, secretAccessKey, ...(sessionToken && { sessionToken }) } };
}
