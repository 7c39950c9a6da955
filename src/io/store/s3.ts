// Requests to a store that speaks S3: where it is and who asks, by the environment and the profile that AWS's own tools read; signed, and
// its refusals told with what mends them.
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
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

/** One reading of the files of the profile does for all requests of a process. */
const accounts = new Map<string, Promise<StoreAccount>>();

function currentAccount(): Promise<StoreAccount> {
  const own = Object.entries(process.env).filter(([name]) => name.startsWith('AWS_') || name === 'HOME');
  const key = JSON.stringify(own);
  const known = accounts.get(key) ?? readAccount();
  accounts.set(key, known);
  return known;
}

const NOTHING = createHash('sha256').digest('hex');

/** Asks for an object. @param place with an empty key: something of its bucket. @throws RredcotError as `ask` and `readAccount` */
export async function askS3(
  path: string,
  request: S3Request,
  place: S3Place = s3Place(path),
): Promise<HttpAnswer> {
  const { method, file, headers = {}, query = {} } = request;
  const account = await currentAccount();
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

function urlOf({ bucket, key }: S3Place, { endpoint, region }: StoreAccount): string {
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
export async function refusalOf(
  path: string,
  answer: HttpAnswer,
  action: 'read' | 'written',
): Promise<RredcotError> {
  const { keys, region } = await currentAccount();
  const own = answer.header('x-amz-bucket-region');
  const hint =
    own !== undefined && own !== region
      ? `AWS_REGION=${own}`
      : answer.status !== 401 && answer.status !== 403
        ? 'check the address, the region and the endpoint (AWS_REGION, AWS_ENDPOINT_URL_S3)'
        : keys === undefined
          ? `AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; from another way to log in: ${EXPORT_KEYS}`
          : 'check that these keys may read, list and write there: without the right to list a bucket, what is not there is forbidden';
  return usageError(`${path}: cannot be ${action}: the store answers ${told(answer)}`, hint);
}

/**
 * Keys that begin with a place's, in the order of their bytes.
 * @returns addresses
 * @throws RredcotError (exit 2) where the store refuses
 */
export async function listS3(path: string): Promise<string[]> {
  const { bucket, key: prefix } = s3Place(path);
  const found: string[] = [];
  for (let token: string | undefined, isLast = false; !isLast; ) {
    const more: Record<string, string> = token === undefined ? {} : { 'continuation-token': token };
    const query = { 'list-type': '2', 'encoding-type': 'url', prefix, ...more };
    const answer = await askS3(path, { method: 'GET', query }, { bucket, key: '' });
    if (answer.status === 404) return [];
    if (answer.status !== 200) throw await refusalOf(path, answer, 'read');
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

interface Keys {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
}

interface StoreAccount {
  /** undefined: AWS's own */
  readonly endpoint: string | undefined;
  readonly region: string;
  /** undefined: requests are not signed, which public objects do not need */
  readonly keys: Keys | undefined;
}

/** What gets keys from any other way to log in. */
const EXPORT_KEYS = 'eval "$(aws configure export-credentials --format env)"';

/** Ways to log in that only AWS's own tools know. */
const OTHER_WAYS = [
  'sso_session',
  'sso_start_url',
  'role_arn',
  'credential_process',
  'web_identity_token_file',
];

/** @throws RredcotError (exit 2) for a profile that is not there, or logs in by other means than keys */
async function readAccount(): Promise<StoreAccount> {
  const { env } = process;
  const profile = await readProfile();
  const { AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: secret, AWS_SESSION_TOKEN: token } = env;
  const endpoint = env.AWS_ENDPOINT_URL_S3 || env.AWS_ENDPOINT_URL || profile.get('endpoint_url');
  if (endpoint !== undefined && !/^https?:\/\/[^/]/.test(endpoint))
    throw usageError(`AWS_ENDPOINT_URL_S3: ${endpoint}: expected http:// or https://`, 'https://<host>');
  const region = env.AWS_REGION || env.AWS_DEFAULT_REGION || profile.get('region') || 'us-east-1';
  const given = ['aws_access_key_id', 'aws_secret_access_key', 'aws_session_token'].map((key) =>
    profile.get(key),
  );
  const [accessKeyId, secretAccessKey, sessionToken] = id && secret ? [id, secret, token] : given;
  if (accessKeyId && secretAccessKey)
    return {
      endpoint,
      region,
      keys: { accessKeyId, secretAccessKey, ...(sessionToken && { sessionToken }) },
    };
  const other = OTHER_WAYS.find((key) => profile.has(key));
  if (other !== undefined)
    throw usageError(
      `the AWS profile logs in by ${other}, which rredcot does not do: it takes keys`,
      EXPORT_KEYS,
    );
  return { endpoint, region, keys: undefined };
}

/** The profile's settings, of both files together; of keys the first file has the word. */
async function readProfile(): Promise<ReadonlyMap<string, string>> {
  const { env } = process;
  const name = env.AWS_PROFILE || 'default';
  const folder = join(env.HOME || homedir(), '.aws');
  const credentials = env.AWS_SHARED_CREDENTIALS_FILE || join(folder, 'credentials');
  const config = env.AWS_CONFIG_FILE || join(folder, 'config');
  const [keys, settings] = await Promise.all([credentials, config].map(readSections));
  const own = [settings?.get(`profile ${name}`) ?? settings?.get(name), keys?.get(name)];
  if (env.AWS_PROFILE && own.every((section) => section === undefined))
    throw usageError(
      `AWS_PROFILE: neither ${credentials} nor ${config} has a profile ${name}`,
      'unset AWS_PROFILE, or name another',
    );
  return new Map(own.flatMap((section) => [...(section ?? [])]));
}

/** An INI file's settings by the names of their sections; none where there is no file. */
async function readSections(path: string): Promise<Map<string, Map<string, string>>> {
  const text = await readFile(path, 'utf8').catch(() => '');
  const sections = new Map<string, Map<string, string>>();
  let section: Map<string, string> | undefined;
  for (const line of text.split('\n')) {
    const [, name] = /^\[\s*([^\]]+?)\s*\]/.exec(line) ?? [];
    if (name !== undefined) {
      section = sections.get(name) ?? new Map<string, string>();
      sections.set(name, section);
      continue;
    }
    // what is indented belongs to the setting before it
    const [, key, value] = /^([^\s#;=][^=]*?)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
    if (key !== undefined && value !== undefined) section?.set(key.toLowerCase(), value);
  }
  return sections;
}
