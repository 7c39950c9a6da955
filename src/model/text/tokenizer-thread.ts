// The thread that tokenises: the patterns of a downloaded tokenizer.json may take for ever, and are stopped from outside.
import { workerData } from 'node:worker_threads';
import { moved, serve } from '../../thread.js';
import { type LoadedTokenizer, loadTokenizer } from './tokenizer.js';

/** How a text is encoded: the functions of a tokenizer. */
export type Encoding = 'encode' | 'encodePrompt' | 'encodeTemplated';

/** `error`: the tokenizer does not take the text. */
export type EncodeReply = { readonly ids: Int32Array } | { readonly error: string };

let loading: Promise<LoadedTokenizer> | undefined;

function loaded(): Promise<LoadedTokenizer> {
  loading ??= loadTokenizer(workerData as string);
  return loading;
}

/** What all V tokens spell: UTF-8 bytes, one token's behind the other's. */
async function spelling() {
  const tokenizer = await loaded();
  const { kind, size, start } = tokenizer;
  const ends = new Int32Array(size); // (V) where each token's bytes end
  const special = new Uint8Array(size); // (V) 1: a special token
  const parts: Uint8Array[] = [];
  let end = 0;
  for (let id = 0; id < size; id++) {
    const part = tokenizer.bytes(id);
    parts.push(part);
    end += part.length;
    ends[id] = end;
    if (tokenizer.isSpecial(id)) special[id] = 1;
  }
  const bytes = new Uint8Array(end);
  for (const [id, part] of parts.entries()) bytes.set(part, (ends[id] as number) - part.length);
  return moved({ kind, start, bytes, ends, special }, bytes, ends, special);
}

async function encode(how: Encoding, text: string): Promise<EncodeReply> {
  const tokenizer = await loaded();
  try {
    return { ids: tokenizer[how](text) };
  } catch (error) {
    return { error: String((error as Error)?.message ?? error) };
  }
}

const functions = { spelling, encode };
export type TokenizerThread = typeof functions;
serve(functions);
