// What downloaded files do to texts, in a process that is stopped from outside: the patterns of a tokenizer.json and the loops of a chat template may take for ever.
import { workerData } from 'node:worker_threads';
import type { ExactObject } from '../../io/arrow/json.js';
import { moved, serve } from '../../thread.js';
import { type LoadedTokenizer, loadTokenizer } from './tokenizer.js';

/** How a text is encoded: the functions of a tokenizer. */
export type Encoding = 'encode' | 'encodePrompt' | 'encodeTemplated';

/** Of which file a process is: a tokenizer's folder, or a chat template. */
export interface TextInit {
  readonly folder?: string;
  /** @property maxLength of the text that is handed back, UTF-16 units */
  readonly chat?: { readonly source: string; readonly maxLength: number };
}

const { folder, chat } = workerData as TextInit;
let loading: Promise<LoadedTokenizer> | undefined;
let template: ((variables: ExactObject) => string) | undefined;

function loaded(): Promise<LoadedTokenizer> {
  loading ??= loadTokenizer(folder as string);
  return loading;
}

/** What all V tokens spell: UTF-8 bytes, one token's behind the other's. */
async function spelling() {
  const tokenizer = await loaded();
  const { kind, size, start } = tokenizer;
  const parts = Array.from({ length: size }, (_, id) => tokenizer.bytes(id));
  const bytes = new Uint8Array(Buffer.concat(parts)); // a copy, whose buffer is its own
  const ends = Int32Array.from(parts, ({ length }) => length); // (V) where each token's bytes end
  for (let id = 1; id < size; id++) ends[id] = (ends[id] as number) + (ends[id - 1] as number);
  const special = Uint8Array.from(parts, (_, id) => (tokenizer.isSpecial(id) ? 1 : 0)); // (V) 1: a special token
  return moved({ kind, start, bytes, ends, special }, bytes, ends, special);
}

/** @returns error: the tokenizer does not take the text */
async function encode(how: Encoding, text: string) {
  const tokenizer = await loaded();
  try {
    return { ids: tokenizer[how](text) };
  } catch (error) {
    return { error: why(error) };
  }
}

const why = (error: unknown): string => String((error as Error)?.message ?? error);

/** @param variables undefined: the template is read, and nothing rendered @returns broken: the template itself does not parse */
async function render(variables?: ExactObject) {
  const { source, maxLength } = chat as NonNullable<typeof chat>;
  // a process that encodes alone does without it
  const { templateRenderer } = await import('./render-template.js');
  try {
    template ??= templateRenderer(source);
    const text = variables === undefined ? '' : template(variables);
    if (text.length <= maxLength) return { text };
    return { error: `made ${text.length} characters, expected at most ${maxLength}` };
  } catch (error) {
    return template === undefined ? { error: why(error), broken: true } : { error: why(error) };
  }
}

const functions = { spelling, encode, render };
export type TextThread = typeof functions;
serve(functions);
