// A policy's tokenizer as the main thread sees it: another thread encodes, what tokens spell is known here.
import { TraceRejected, usageError } from '../../errors.js';
import { boundedProcess } from './bounded-process.js';
import type { Encoding, TextInit, TextThread } from './text-thread.js';
import type { PolicyTokenizer } from './tokenizer.js';

/** Texts take milliseconds, the longest seconds; what takes longer than this does not end. */
const TIMEOUT_MS = 60_000;
/** Vocabularies of 150,000 tokens take some 200 MB, and texts of 4 MB a hundred more. */
const MEMORY_MB = 2048;
const NONE = new Uint8Array(0);

/** A tokenizer that can be stopped. `encode` and its like reject a text with {@link TraceRejected} (`tokenizer`). */
export interface OpenTokenizer extends PolicyTokenizer<Promise<Int32Array>> {
  close(): Promise<void>;
}

/** Loads a tokenizer in a process of its own. @throws RredcotError (exit 2) as `loadTokenizer`, and where the tokenizer does not end */
export async function openTokenizer(
  folder: string,
  bounds: { timeoutMs?: number; memoryMb?: number; signal?: AbortSignal | undefined } = {},
): Promise<OpenTokenizer> {
  const title = `${folder}/tokenizer.json: the tokenizer`;
  const thread = boundedProcess<TextThread>({
    title,
    hint: 'use a policy whose tokenizer.json is sound, or give token ids: --map prompt_ids=<path>,completion_ids=<path>',
    file: new URL('./text-thread.js', import.meta.url),
    workerData: { folder } satisfies TextInit,
    ...{ timeoutMs: TIMEOUT_MS, memoryMb: MEMORY_MB, ...bounds },
  });
  const spelling = await thread.call('spelling', []);
  if ('error' in spelling)
    throw usageError(
      `${title} cannot be loaded (${spelling.error})`,
      'use a policy whose tokenizer.json is sound',
    );
  const { bytes: all, ends, special, ...told } = spelling;

  const encoded = async (how: Encoding, text: string): Promise<Int32Array> => {
    const reply = await thread.call('encode', [how, text]);
    if ('ids' in reply) return reply.ids;
    throw new TraceRejected(
      'tokenizer',
      `the policy's tokenizer does not take a text of ${text.length} characters: ${reply.error}: give token ids with --map prompt_ids=<path>,completion_ids=<path>`,
    );
  };
  const bytes = (id: number): Uint8Array => {
    const end = ends[id];
    return end === undefined ? NONE : all.subarray(ends[id - 1] ?? 0, end);
  };
  return {
    ...told,
    encodePrompt: (text) => encoded('encodePrompt', text),
    encodeTemplated: (text) => encoded('encodeTemplated', text),
    encode: (text) => encoded('encode', text),
    bytes,
    decode: (ids) => Buffer.concat(Array.from(ids, bytes)),
    isSpecial: (id) => special[id] === 1,
    close: thread.close,
  };
}
