// Wraps @huggingface/tokenizers: text to ids, and ids to the bytes they stand for.
import { usageError } from '../../errors.js';
import { parseJson, untrustedText } from './untrusted-files.js';

/** How a token's string in tokenizer.json spells its bytes. */
export type TokenizerKind = 'byte-level' | 'character' | 'sentencepiece';

export interface Spelling {
  readonly kind: TokenizerKind;
  /** UTF-8 bytes of one token; empty for an id that has no text. */
  bytes(id: number): Uint8Array;
  /** UTF-8 bytes of a token sequence, special tokens included. */
  decode(ids: Int32Array): Buffer;
  isSpecial(id: number): boolean;
}

/** @template Ids token ids; a tokenizer in a thread hands them over later */
export interface PolicyTokenizer<Ids = Int32Array | Promise<Int32Array>> extends Spelling {
  /** The token that begins a prompt of plain text, by tokenizer.json as in transformers; it warns where `add_bos_token` says something else. */
  readonly start: { readonly id: number | null; readonly warning?: string | undefined };
  /** Ids of a text that begins a sequence: with the tokenizer's own start token, never twice, and space, where it has them. */
  encodePrompt(text: string): Ids;
  /** Ids of a text that a chat template made: it begins a sequence, and brings its special tokens itself. */
  encodeTemplated(text: string): Ids;
  /** Ids of a text that continues a sequence: nothing is added. */
  encode(text: string): Ids;
}

/** A tokenizer of this thread: it encodes at once, however long that takes. */
export interface LoadedTokenizer extends PolicyTokenizer<Int32Array> {
  /** one more than its largest id */
  readonly size: number;
}

/** Far beyond all vocabularies (Gemma's, among the largest, has 262,144): a larger id is an error or an attack. */
const MOST_IDS = 2 ** 24;

/** Of a policy folder or checkpoint. @throws RredcotError (exit 2) where the files are missing or the tokenizer is of an unsupported kind */
export async function loadTokenizer(folder: string): Promise<LoadedTokenizer> {
  const spec = await readTokenizerFile(folder, 'tokenizer.json');
  const config = await readTokenizerFile(folder, 'tokenizer_config.json');
  const kind = kindOf(spec, `${folder}/tokenizer.json`);
  checkIds(spec, `${folder}/tokenizer.json`);
  // only where a policy runs: the commands' module graphs meet this file
  const { Tokenizer } = await import('@huggingface/tokenizers');
  const tokenizer = new Tokenizer(spec, config);
  const continuing = kind === 'sentencepiece' ? new Tokenizer(withoutPrefixSpace(spec), config) : tokenizer;
  const added = tokenizer.get_added_tokens_decoder();
  /** what the tokenizer puts before every prompt */
  const start: number | undefined = tokenizer.encode('', { add_special_tokens: true }).ids[0];
  const encodeTemplated = (text: string) =>
    Int32Array.from(tokenizer.encode(text, { add_special_tokens: false }).ids);
  const warning = startWarning(config, start, encodeTemplated);
  const ids = [...tokenizer.get_vocab().values(), ...added.keys()];
  const size = ids.reduce((most, id) => Math.max(most, id + 1), 0);
  const spell = spellings[kind];
  const bytes = (id: number): Uint8Array => {
    const content = added.get(id)?.content;
    return content === undefined ? spell(tokenizer.id_to_token(id) ?? '') : Buffer.from(content);
  };
  return {
    kind,
    size,
    start: { id: start ?? null, warning },
    encodePrompt(text) {
      const ids = Int32Array.from(tokenizer.encode(text, { add_special_tokens: true }).ids);
      const isDoubled = start !== undefined && ids[0] === start && ids[1] === start;
      return isDoubled ? ids.subarray(1) : ids;
    },
    encodeTemplated,
    encode: (text) =>
      Int32Array.from(text === '' ? [] : continuing.encode(text, { add_special_tokens: false }).ids),
    bytes,
    decode: (ids) => Buffer.concat(Array.from(ids, bytes)),
    isSpecial: (id) => added.get(id)?.special === true,
  };
}

/** A token as tokenizer_config.json names it, by its text or with how it is cut out; undefined for what is none. */
export function namedToken(named: unknown): string | undefined {
  const text =
    typeof named === 'string' ? named : (named as { content?: unknown } | null | undefined)?.content;
  return typeof text === 'string' ? text : undefined;
}

async function readTokenizerFile(folder: string, name: string): Promise<Record<string, unknown>> {
  const path = `${folder}/${name}`;
  const hint = 'a policy folder holds tokenizer.json and tokenizer_config.json';
  const text = await untrustedText(folder, name);
  if (text === undefined) throw usageError(`${path}: no such file`, hint);
  return parseJson(text, path, hint) as Record<string, unknown>;
}

/** @param start what tokenizer.json puts before every prompt */
function startWarning(
  { add_bos_token: says, bos_token: token }: Record<string, unknown>,
  start: number | undefined,
  encode: (text: string) => Int32Array,
): string | undefined {
  const bos = namedToken(token);
  if (typeof says !== 'boolean' || bos === undefined) return undefined;
  const adds = start !== undefined && encode(bos)[0] === start;
  if (says === adds) return undefined;
  return `tokenizer_config.json has add_bos_token ${says}, and tokenizer.json puts ${adds ? '' : 'no '}${bos} before a text: prompts of plain text are read ${adds ? 'with' : 'without'} it; where the policy was asked otherwise, give --map prompt_ids=<path>`;
}

/** The library fills a table up to the largest id. */
function checkIds(spec: Record<string, unknown>, path: string): void {
  const { vocab } = (spec.model ?? {}) as { vocab?: object };
  const added = (spec.added_tokens ?? []) as readonly { id?: unknown }[];
  const ids: unknown[] = Array.isArray(vocab) ? [] : Object.values(vocab ?? {});
  for (const id of [...ids, ...added.map((token) => token.id)])
    if (!(Number.isInteger(id) && (id as number) >= 0 && (id as number) < MOST_IDS))
      throw usageError(
        `${path}: has the id ${JSON.stringify(id)}, expected whole numbers below ${MOST_IDS}`,
        'copy or download the checkpoint again',
      );
}

/** A tokenizer shows by its decoder how its tokens spell text: bytes, pieces, or plain text as it stands. */
function kindOf(spec: Record<string, unknown>, path: string): TokenizerKind {
  const types = stepsOf(spec.decoder).map((step) => step.type);
  if (types.includes('ByteLevel')) return 'byte-level';
  if (types.every((type) => type === 'Fuse')) return 'character';
  if (isSentencePiece(spec)) return 'sentencepiece';
  throw usageError(
    `${path}: tokens are decoded by ${types.join(', ')}, which cannot be aligned to text`,
    'use a policy with a byte-level, a character-level or a SentencePiece tokenizer with byte fallback',
  );
}

/** A byte-level token string spells each byte as one character: printable Latin-1 as itself, the rest from U+0100 on. */
const BYTE_OF_CHARACTER: ReadonlyMap<string, number> = (() => {
  const printable = (b: number) =>
    (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
  const table = new Map<string, number>();
  let next = 0x100;
  for (let b = 0; b < 256; b++) table.set(String.fromCharCode(printable(b) ? b : next++), b);
  return table;
})();

function byteLevelBytes(token: string): Uint8Array {
  const bytes: number[] = [];
  for (const character of token) {
    const byte = BYTE_OF_CHARACTER.get(character);
    if (byte === undefined) return Buffer.from(token); // not in the alphabet: a token added as plain text
    bytes.push(byte);
  }
  return Uint8Array.from(bytes);
}

/** Bytes of a token that is no added one, by kind. */
const spellings: Readonly<Record<TokenizerKind, (token: string) => Uint8Array>> = {
  'byte-level': byteLevelBytes,
  character: (token) => Buffer.from(token),
  sentencepiece: pieceBytes,
};

// ------ SentencePiece tokenizers as tokenizer.json spells them: ▁ is a space, <0x0A> is a byte, a space comes before a text

interface TokenizerStep {
  readonly type?: string;
  readonly decoders?: readonly TokenizerStep[];
  readonly normalizers?: readonly TokenizerStep[];
  readonly pretokenizers?: readonly TokenizerStep[];
  readonly pattern?: { readonly String?: string };
  readonly content?: string;
  readonly prepend?: string;
  readonly replacement?: string;
  readonly start?: number;
  readonly stop?: number;
}

type TokenizerSpec = Record<string, unknown>;

const SPACE = '▁'; // U+2581

/** Whether tokens of the tokenizer spell their text byte by byte under {@link pieceBytes}. */
export function isSentencePiece(spec: TokenizerSpec): boolean {
  const model = (spec.model ?? {}) as { byte_fallback?: boolean };
  const decoders = stepsOf(spec.decoder);
  return (
    model.byte_fallback === true &&
    decoders.some(({ type }) => type === 'Replace' || type === 'Metaspace') &&
    decoders.every(isSpaceDecoder) &&
    stepsOf(spec.normalizer).every(isSpaceNormalizer) &&
    stepsOf(spec.pre_tokenizer).every(
      ({ type, replacement }) => type === 'Metaspace' && (replacement ?? SPACE) === SPACE,
    )
  );
}

/** The same tokenizer for a text that continues a sequence: no space is put before it. */
export function withoutPrefixSpace(spec: TokenizerSpec): TokenizerSpec {
  const normalizers = stepsOf(spec.normalizer).filter(({ type }) => type !== 'Prepend');
  const [metaspace] = stepsOf(spec.pre_tokenizer);
  return {
    ...spec,
    normalizer: normalizers.length === 0 ? null : { type: 'Sequence', normalizers },
    pre_tokenizer:
      metaspace === undefined ? null : { ...metaspace, prepend_scheme: 'never', add_prefix_space: false },
  };
}

/** UTF-8 bytes of a piece that is no added token. */
export function pieceBytes(piece: string): Uint8Array {
  const byte = /^<0x([0-9A-F]{2})>$/.exec(piece)?.[1];
  if (byte !== undefined) return Uint8Array.of(Number.parseInt(byte, 16));
  return Buffer.from(piece.replaceAll(SPACE, ' '));
}

function isSpaceDecoder({ type, pattern, content, replacement, start, stop }: TokenizerStep): boolean {
  if (type === 'Replace') return pattern?.String === SPACE && content === ' ';
  if (type === 'Metaspace') return (replacement ?? SPACE) === SPACE;
  // the space before a text is taken off again where a whole text is decoded; pieces are ours to decode
  if (type === 'Strip') return content === ' ' && (start ?? 0) <= 1 && (stop ?? 0) === 0;
  return type === 'ByteFallback' || type === 'Fuse';
}

function isSpaceNormalizer({ type, pattern, content, prepend }: TokenizerStep): boolean {
  if (type === 'Prepend') return prepend === SPACE;
  return type === 'Replace' && pattern?.String === ' ' && content === SPACE;
}

/** The steps of a tokenizer's part, which may be a sequence of them. */
function stepsOf(value: unknown): readonly TokenizerStep[] {
  const step = (value ?? null) as TokenizerStep | null;
  if (step?.type !== 'Sequence') return step === null ? [] : [step];
  return [step.decoders, step.normalizers, step.pretokenizers].flatMap((list) => list ?? []);
}
