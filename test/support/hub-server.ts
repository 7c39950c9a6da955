// The Hugging Face Hub on loopback, as far as data sets are read of it: small files come from itself, large ones from a machine to which it
// sends the reader with an address that holds for a while, and where nobody may be told the token.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export const HUB_TOKEN = 'hf_test';

interface HubFile {
  readonly bytes: Buffer;
  readonly etag: string;
  /** whether it lies elsewhere */
  readonly isLarge: boolean;
}

export async function startHub() {
  /** files by commit */
  const commits = new Map<string, Map<string, HubFile>>();
  const branches = new Map<string, string>();
  const seen: { readonly host: string; readonly url: string; readonly token: string | undefined }[] = [];
  let left = 0;
  let then = (): void => {};
  const listen = async (answer: (request: IncomingMessage, response: ServerResponse) => void) => {
    const server = createServer((request, response) => {
      const { host = '', authorization: token } = request.headers;
      seen.push({ host, url: request.url ?? '', token });
      if (--left === 0) then();
      answer(request, response);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return { server, origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
  };
  function send(
    request: IncomingMessage,
    response: ServerResponse,
    bytes: Buffer,
    facts: Record<string, string>,
  ): void {
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? [];
    const part = from === undefined ? bytes : bytes.subarray(Number(from), Number(to) + 1);
    const range = from === undefined ? {} : { 'content-range': `bytes ${from}-${to}/${bytes.length}` };
    response.writeHead(from === undefined ? 200 : 206, { ...facts, ...range, 'content-length': part.length });
    response.end(request.method === 'HEAD' ? undefined : part);
  }
  const fileOf = (url: URL) => {
    const [, revision = '', name = ''] =
      /^\/datasets\/o\/set\/resolve\/([^/]+)\/(.+)$/.exec(decodeURIComponent(url.pathname)) ?? [];
    const commit = branches.get(revision) ?? revision;
    return { commit, name, file: commits.get(commit)?.get(name) };
  };

  const elsewhere = await listen((request, response) => {
    const url = new URL(request.url ?? '', 'http://localhost');
    const { file } = fileOf(url);
    if (file === undefined || url.searchParams.get('signed') !== 'yes')
      return void response.writeHead(403).end();
    send(request, response, file.bytes, { etag: '"of-the-other-store"' });
  });
  const hub = await listen((request, response) => {
    const url = new URL(request.url ?? '', 'http://localhost');
    if (request.headers.authorization !== `Bearer ${HUB_TOKEN}`)
      return void response.writeHead(401, { 'x-error-code': 'GatedRepo' }).end();
    const [, revision, folder = ''] =
      /^\/api\/datasets\/o\/set\/tree\/([^/]+)\/?(.*)/.exec(url.pathname) ?? [];
    if (revision !== undefined) {
      const names = [...(commits.get(branches.get(revision) ?? revision)?.keys() ?? [])];
      const below = names.filter((name) => name.startsWith(folder === '' ? '' : `${folder}/`));
      if (below.length === 0) return void response.writeHead(404).end();
      const at = Number(url.searchParams.get('at') ?? 0);
      url.searchParams.set('at', `${at + 1}`);
      const more =
        at + 1 < below.length ? { link: `<${hub.origin}${url.pathname}${url.search}>; rel="next"` } : {};
      const page = [
        { type: 'directory', path: 'data' },
        { type: 'file', path: below[at] },
      ];
      return void response.writeHead(200, more).end(JSON.stringify(page));
    }
    const { commit, name, file } = fileOf(url);
    if (file === undefined) return void response.writeHead(404, { 'x-error-code': 'EntryNotFound' }).end();
    const facts = { 'x-repo-commit': commit };
    if (!file.isLarge && url.searchParams.get('cached') !== 'yes')
      // small files of the Hub come after one more step on the same machine
      return void response.writeHead(307, { ...facts, location: `${url.pathname}?cached=yes` }).end();
    if (!file.isLarge) return send(request, response, file.bytes, { ...facts, etag: file.etag });
    const linked = { 'x-linked-size': `${file.bytes.length}`, 'x-linked-etag': file.etag };
    const location = `${elsewhere.origin}/datasets/o/set/resolve/${commit}/${encodeURIComponent(name)}?signed=yes`;
    response.writeHead(302, { ...facts, ...linked, location }).end();
  });
  return {
    ...{ seen, elsewhere: new URL(elsewhere.origin).host },
    env: { HF_ENDPOINT: hub.origin, HF_TOKEN: HUB_TOKEN },
    /** Makes a commit the newest one of main. */
    commit(id: string, files: Readonly<Record<string, Buffer>>, isLarge = false): void {
      const all = Object.entries(files).map(
        ([name, bytes]) => [name, { bytes, etag: `"${id}-${name}"`, isLarge }] as const,
      );
      commits.set(id, new Map(all));
      branches.set('main', id);
    },
    /** Does something before so many more requests are answered. */
    after(requests: number, work: () => void): void {
      [left, then] = [requests, work];
    },
    close(): void {
      for (const { server } of [hub, elsewhere]) {
        server.closeAllConnections();
        server.close();
      }
    },
  };
}
