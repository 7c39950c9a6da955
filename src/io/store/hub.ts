// Files of data sets on the Hugging Face Hub, by plain requests: looked at, read in ranges at one commit, listed.
import { type RredcotError, usageError } from '../../errors.js';
import { ask, type HttpAnswer, type HttpRequest, type ObjectVersion, told } from './http.js';

/** The revision is a branch, a tag or a commit. @throws RredcotError (exit 2) for an address that names no file of a data set */
function hubPlace(path: string) {
  const form = /^hf:\/\/datasets\/([\w.-]+\/[\w.-]+)(?:@([^/]+))?(?:\/(.*))?$/s;
  const [, repository, revision = 'main', file = ''] = form.exec(path) ?? [];
  if (repository === undefined)
    throw usageError(
      `${path}: is no address of a data set`,
      'hf://datasets/<owner>/<name>[@<revision>]/<file>',
    );
  return { repository, revision: decodeURIComponent(revision), file };
}

const endpoint = (): string => (process.env.HF_ENDPOINT || 'https://huggingface.co').replace(/\/+$/, '');
const encoded = (file: string): string => file.split('/').map(encodeURIComponent).join('/');

function fileUrl({ repository, revision, file }: ReturnType<typeof hubPlace>): string {
  return `${endpoint()}/datasets/${repository}/resolve/${encodeURIComponent(revision)}/${encoded(file)}`;
}

const MOST_REDIRECTS = 5;

/** Asks for a range of bytes, and goes where it is sent. @param here only on the same machine: what lies elsewhere is told of in the answer before */
export async function askHub(
  path: string,
  method: HttpRequest['method'],
  to: string,
  range = '',
  here = false,
): Promise<HttpAnswer> {
  const token = process.env.HF_TOKEN;
  let url = new URL(to);
  for (let hops = 0; ; hops++) {
    const isOurs = url.origin === new URL(endpoint()).origin;
    const own = { ...(token && isOurs && { authorization: `Bearer ${token}` }), ...(range && { range }) };
    const headers = { 'accept-encoding': 'identity', ...own };
    const asked = url;
    const answer = await ask(path, () => ({ method, url: asked, headers }));
    const location = answer.status >= 300 && answer.status < 400 ? answer.header('location') : undefined;
    if (location === undefined || hops === MOST_REDIRECTS) return answer;
    const next = new URL(location, url);
    if (here && next.origin !== url.origin) return answer;
    url = next;
  }
}

function refusalOf(path: string, answer: HttpAnswer): RredcotError {
  const isClosed = answer.status === 401 || answer.status === 403;
  const hint = isClosed ? 'HF_TOKEN of an account that may read it' : 'check the address, and HF_ENDPOINT';
  return usageError(`${path}: cannot be read: the Hub answers ${told(answer)}`, hint);
}

/** null where there is none. @throws RredcotError (exit 2) where the Hub refuses */
export async function lookAtHub(path: string): Promise<Required<ObjectVersion> | null> {
  const place = hubPlace(path);
  const answer = await askHub(path, 'HEAD', fileUrl(place), '', true);
  if (answer.status === 404) return null;
  if (answer.status >= 400) throw refusalOf(path, answer);
  // of what lies in a store elsewhere the Hub itself says what it is
  const etag = answer.header('x-linked-etag') ?? answer.header('etag') ?? '';
  const size = Number(answer.header('x-linked-size') ?? answer.header('content-length') ?? Number.NaN);
  const revision = answer.header('x-repo-commit') ?? place.revision;
  if (etag === '' || !Number.isSafeInteger(size))
    throw usageError(`${path}: the Hub says no size or ETag of it`, 'check the address, and HF_ENDPOINT');
  return { size, etag, url: fileUrl({ ...place, revision }) };
}

const NEXT_PAGE = /<([^>]+)>;\s*rel="next"/;

/** The files below a folder of a data set, sorted. @returns addresses */
export async function listHub(path: string): Promise<string[]> {
  const { repository, revision, file } = hubPlace(path);
  const folder = file.replace(/\/+$/, '');
  const below = folder === '' ? '' : `/${encoded(folder)}`;
  const found: string[] = [];
  let next: string | undefined =
    `${endpoint()}/api/datasets/${repository}/tree/${encodeURIComponent(revision)}${below}?recursive=true`;
  while (next !== undefined) {
    const answer: HttpAnswer = await askHub(path, 'GET', next);
    if (answer.status === 404) return [];
    if (answer.status !== 200) throw refusalOf(path, answer);
    const named = revision === 'main' ? '' : `@${encodeURIComponent(revision)}`;
    for (const { type, path: name } of JSON.parse(answer.body.toString()) as { type: string; path: string }[])
      if (type === 'file') found.push(`hf://datasets/${repository}${named}/${name}`);
    next = NEXT_PAGE.exec(answer.header('link') ?? '')?.[1];
  }
  return found.sort();
}
