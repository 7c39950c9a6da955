// Where an S3 store is and who asks: from the environment variables and the profile that AWS's own tools read.
import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { usageError } from '../../errors.js';

export interface Keys {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
}

export interface Account {
  /** undefined: AWS's own */
  readonly endpoint: string | undefined;
  readonly region: string;
  /** undefined: requests are not signed, which public objects do not need */
  readonly keys: Keys | undefined;
}

/** What gets keys from any other way to log in. */
export const EXPORT_KEYS = 'eval "$(aws configure export-credentials --format env)"';

/** Ways to log in that only AWS's own tools know. */
const OTHER_WAYS = [
  'sso_session',
  'sso_start_url',
  'role_arn',
  'credential_process',
  'web_identity_token_file',
];

/** @throws RredcotError (exit 2) for a profile that is not there, or logs in by other means than keys */
export async function readAccount(env: NodeJS.ProcessEnv = process.env): Promise<Account> {
  const profile = await readProfile(env);
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
async function readProfile(env: NodeJS.ProcessEnv): Promise<ReadonlyMap<string, string>> {
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
