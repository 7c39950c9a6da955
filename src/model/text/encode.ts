// Turns a trace into the token ids that the policy reads, aligned with the text they spell.
import { TraceRejected } from '../../errors.js';
import { stringifyJson } from '../../io/arrow/json.js';
import { beginsWithPrompt, checkPrompt } from '../../io/map/trace-fields.js';
import type { TokenizedTrace } from '../../question.js';
import { codePoints } from '../../scored.js';
import {
  THINK_CLOSE,
  THOUGHT_TAGS,
  type ThoughtSpan,
  type TokenText,
  tagStatus,
} from '../../segment/span.js';
import { MESSAGES_AS_TEXT, type OwnTokens, type Trace } from '../../trace.js';
import type { PolicyTokenizer, Spelling } from './tokenizer.js';

/** A trace as token ids: prompt, then a completion of T tokens. */
export interface EncodedTrace extends Omit<TokenizedTrace, 'pieces'> {
  /** the completion's text with its T+1 token boundaries */
  readonly tokens: TokenText;
  /** (T+1) code points of `trace.completion` before each boundary; null where the ids spell another text */
  readonly chars: Int32Array | null;
  /** what the user should know of the encoding: status codes */
  readonly status: readonly string[];
}

/**
 * Encodes a trace. Ids in the row are used as they are; text is tokenised once. Where both are there and disagree, the
 * ids win and the status says `ids:text-mismatch`; ids alone that are no UTF-8 are `ids:not-utf8`.
 * @param vocab size of the policy's vocabulary
 * @param maxTokens what prompt and completion may have together
 * @param end the token that ends the completion, which its text does not show; null where a template has put one behind what was cut
 * @throws TraceRejected where nothing can be scored
 */
export async function encodeTrace(
  trace: Trace,
  tokenizer: PolicyTokenizer,
  vocab: number,
  maxTokens: number,
  end?: number | null,
): Promise<EncodedTrace> {
  const promptIds = await encodePrompt(trace, tokenizer, vocab);
  const read = openedOnce(trace, endOf(promptIds, tokenizer));
  const encoded = await encodeBehind(promptIds, read, tokenizer, vocab, maxTokens, end);
  const status = [...heldStatus(encoded, tokenizer), ...promptStatus(trace, tokenizer)];
  return { ...encoded, status: [...new Set([...encoded.status, ...status])] };
}

/** What the mapping puts before a thought that stands apart from its answer in the row. */
const OUR_TAG = '<think>\n';

/** A trace whose thought got that tag, where its prompt has opened the thought already: it goes on from there. */
function openedOnce(trace: Trace, before: string): Trace {
  const tags = THOUGHT_TAGS.find(([open]) => before.trimEnd().endsWith(open));
  const { completion, completionIds, source } = trace;
  if (tags === undefined || completionIds !== undefined || !completion.startsWith(OUR_TAG)) return trace;
  // a text of the row begins with it: then it is not ours
  if (stringifyJson(source.columns).includes('"<think>')) return trace;
  return { ...trace, completion: completion.slice(OUR_TAG.length).replace(THINK_CLOSE, tags[1]) };
}

/** What the mapping could not compare: of a row with ids, what these spell. @throws TraceRejected (`prompt_holds_completion`) */
function heldStatus({ trace, promptIds, tokens }: EncodedTrace, tokenizer: Spelling): readonly string[] {
  if (trace.promptIds === undefined && trace.completionIds === undefined) return [];
  const field = trace.promptIds === undefined ? 'prompt' : 'prompt_ids';
  const texts = { prompt: tokenizer.decode(promptIds).toString('utf8'), completion: tokens.text };
  checkPrompt(texts, field, field);
  return beginsWithPrompt(texts) ? ['completion:has-prompt'] : [];
}

/** The same behind ids of a prompt that are known, or behind none where nothing reads them. */
export async function encodeBehind(
  promptIds: Int32Array,
  given: Trace,
  tokenizer: PolicyTokenizer,
  vocab: number,
  maxTokens = Number.POSITIVE_INFINITY,
  end?: number | null,
): Promise<EncodedTrace> {
  const all = given.completionIds ?? (await tokenizer.encode(given.completion));
  const written = end === undefined ? all : withoutEndTokens(all, tokenizer);
  const isCut = end === null && written.length > 0;
  // nothing is turned down for want of room for it
  const hasRoom = written.length === all.length && promptIds.length + all.length < maxTokens;
  const added = typeof end === 'number' && hasRoom ? [end] : [];
  const completionIds = isCut ? written : added.length > 0 ? joinIds(all, Int32Array.from(added)) : all;
  const trace = isCut ? { ...given, completion: '' } : given;
  if (completionIds.length === 0)
    throw new TraceRejected('empty_completion', 'the completion has no token, expected at least one');
  checkIds(completionIds, 'completion_ids', vocab);
  const total = promptIds.length + completionIds.length;
  if (total > maxTokens)
    throw new TraceRejected(
      'too_long',
      `prompt and completion have ${total} tokens, the policy takes ${maxTokens} with the reference: --policy <one with a longer context>`,
    );
  const completion = align(trace, completionIds, tokenizer);
  const isAsText = given.completionIds === undefined && MESSAGES_AS_TEXT.test(given.completion);
  const status = [...(trace.status ?? []), ...completion.status, ...added.map(() => 'completion:end-token')];
  if (isAsText) status.push('completion:messages-as-text');
  const { completionMask: mask } = trace;
  const own = mask && Uint8Array.from(completionIds, (_, t) => mask[t] ?? 1);
  const tokens =
    own === undefined ? completion.tokens : inTurns(completion.tokens, completionIds, own, tokenizer);
  // padding was cut off before it
  const chars = given.status?.includes('ids:text-mismatch') ? null : completion.chars;
  return { trace, promptIds, completionIds, tokens, chars, status };
}

/** The text of several turns: no state comes after the end token of the last one, whatever the policy was shown behind it. */
function inTurns(tokens: TokenText, ids: Int32Array, own: OwnTokens, tokenizer: Spelling): TokenText {
  const ownEnd = own.lastIndexOf(1) + 1;
  const textEnd = Math.min(tokens.textEnd, withoutEndTokens(ids.subarray(0, ownEnd), tokenizer).length);
  return { ...tokens, textEnd, own };
}

/** {@link tagStatus} of an encoded trace, which may have been given by its ids alone. */
export function thoughtStatus(
  { promptIds, tokens }: EncodedTrace,
  { tags }: ThoughtSpan,
  tokenizer: Spelling,
): readonly string[] {
  return tagStatus(tokens.text, tags, endOf(promptIds, tokenizer));
}

/** The end of a text, in which a thought may be opened. */
export function endOf(ids: Int32Array, tokenizer: Spelling): string {
  return tokenizer.decode(ids.subarray(-TAG_TOKENS)).toString('utf8');
}

/** A tag has hardly more, spelled letter by letter. */
const TAG_TOKENS = 32;

/** The ids of a trace's prompt, checked. @throws TraceRejected where nothing can follow it */
async function encodePrompt(trace: Trace, tokenizer: PolicyTokenizer, vocab: number): Promise<Int32Array> {
  const { prompt } = trace;
  if (trace.promptIds === undefined && typeof prompt !== 'string')
    throw new TraceRejected(
      'chat_template',
      'the prompt is messages, and the policy has no chat template: add chat_template.jinja to its checkpoint and build it again, or give the prompt as text with --map prompt=<path>',
    );
  const promptIds = trace.promptIds ?? (await tokenizer.encodePrompt(prompt as string));
  if (promptIds.length === 0)
    throw new TraceRejected(
      'empty_prompt',
      'the prompt has no token, expected at least one to predict the completion from: --map prompt=<path>',
    );
  checkIds(promptIds, 'prompt_ids', vocab);
  return promptIds;
}

/** Ids win over a prompt's text; it may lack the special tokens, as dumps do. */
function promptStatus({ prompt, promptIds }: Trace, tokenizer: Spelling): readonly string[] {
  if (promptIds === undefined || typeof prompt !== 'string' || prompt === '') return [];
  const kept = [promptIds, promptIds.filter((id) => !tokenizer.isSpecial(id))];
  const spelled = kept.map((ids) => tokenizer.decode(ids).toString('utf8'));
  if (tokenizer.kind === 'sentencepiece') spelled.push(...spelled.map((text) => text.replace(/^ /, '')));
  const isSame = spelled.includes(prompt) || spelled.includes(prompt.normalize('NFC'));
  return isSame ? [] : ['prompt:text-mismatch'];
}

function checkIds(ids: Int32Array, field: string, vocab: number): void {
  const at = ids.findIndex((id) => id < 0 || id >= vocab);
  if (at >= 0)
    throw new TraceRejected(
      'ids',
      `${field}[${at}] is ${ids[at]}, the policy's vocabulary has ${vocab} tokens: --policy <the policy that wrote the traces>`,
    );
}

function align(
  trace: Trace,
  ids: Int32Array,
  tokenizer: Spelling,
): Pick<EncodedTrace, 'tokens' | 'chars' | 'status'> {
  const text = trace.completion || spelledText(ids, tokenizer);
  const spelled = Array.from(ids, tokenizer.bytes);
  // beyond the text there may be special tokens alone
  const { length: least } = withoutEndTokens(ids, tokenizer);
  const isPieces = tokenizer.kind === 'sentencepiece';
  // pieces spell a space as ▁, and so also a ▁ that stands in the text: both are one UTF-16 unit
  const shown = isPieces ? text.replaceAll('▁', ' ') : text;
  // decoding a sampled completion takes off a SentencePiece text's first space, which the ids still have
  if (isPieces && spelled[0]?.[0] === 0x20 && !shown.startsWith(' ')) spelled[0] = spelled[0].subarray(1);
  const aligned =
    alignTokens(spelled, shown) ??
    // a text decoded without special tokens has none of them in its midst
    alignTokens(
      Array.from(spelled, (bytes, t) => (tokenizer.isSpecial(ids[t] as number) ? NONE : bytes)),
      shown,
    );
  if (aligned !== undefined && aligned.textEnd >= least)
    return { tokens: { text, ...aligned }, chars: aligned.chars, status: [] };
  const normalized = alignNormalized(spelled, shown, 'NFC');
  if (normalized !== undefined && normalized.textEnd >= least)
    return { tokens: { text, ...normalized }, chars: normalized.chars, status: ['text:normalized'] };
  // what was scored is what the ids spell: that is segmented, byte by byte, since it need not be sound UTF-8
  const isOfIds = trace.completionIds !== undefined;
  // without a text beside them nothing is mismatched
  const code = trace.completion === '' ? 'ids:not-utf8' : 'ids:text-mismatch';
  return { tokens: spelledBytes(ids, tokenizer), chars: null, status: [isOfIds ? code : 'text:normalized'] };
}

const NONE = new Uint8Array(0);

/** A token sequence as Latin-1 text of one character a byte, up to the special tokens at its end. */
function spelledBytes(ids: Int32Array, tokenizer: Spelling): TokenText {
  const textEnd = withoutEndTokens(ids, tokenizer).length;
  const units = new Int32Array(ids.length + 1);
  for (let t = 0; t < ids.length; t++)
    units[t + 1] = (units[t] as number) + (t < textEnd ? tokenizer.bytes(ids[t] as number).length : 0);
  return { text: tokenizer.decode(ids.subarray(0, textEnd)).toString('latin1'), units, textEnd };
}

/** The text of a token sequence without the special tokens at its end. */
export function spelledText(ids: Int32Array, tokenizer: Spelling): string {
  return tokenizer.decode(withoutEndTokens(ids, tokenizer)).toString('utf8');
}

/** The trace with the texts that its ids spell, where the row brought ids alone. */
export function withTexts(
  { trace, promptIds, completionIds }: Pick<EncodedTrace, 'trace' | 'promptIds' | 'completionIds'>,
  tokenizer: Spelling,
): Trace {
  const hasPrompt = typeof trace.prompt === 'string' && trace.prompt !== '';
  const prompt = hasPrompt ? trace.prompt : tokenizer.decode(promptIds).toString('utf8');
  return { ...trace, prompt, completion: trace.completion || spelledText(completionIds, tokenizer) };
}

function withoutEndTokens(ids: Int32Array, tokenizer: Spelling): Int32Array {
  return ids.subarray(0, ids.findLastIndex((id) => !tokenizer.isSpecial(id)) + 1);
}

// ------ tokens beside the characters of the text that they spell

/** Positions of the T+1 token boundaries in a text. Boundary t lies before token t. */
export interface Alignment extends Pick<TokenText, 'units' | 'textEnd'> {
  /** (T+1) code points before each boundary; a character split over tokens belongs to the token with its first byte */
  readonly chars: Int32Array;
}

/** Aligns token bytes (T) with a text, beyond which tokens may lie: their spans are empty. @returns undefined where they spell something else */
export function alignTokens(tokens: readonly Uint8Array[], text: string): Alignment | undefined {
  const bytes = Buffer.from(text, 'utf8');
  const chars = new Int32Array(tokens.length + 1);
  const units = new Int32Array(tokens.length + 1);
  let [byte, char, unit, textEnd] = [0, 0, 0, 0];
  for (let t = 0; t < tokens.length; t++) {
    const token = tokens[t] as Uint8Array;
    if (byte < bytes.length) {
      const end = byte + token.length;
      if (end > bytes.length || bytes.compare(token, 0, token.length, byte, end) !== 0) return undefined;
      for (; byte < end; byte++) {
        const lead = bytes[byte] as number;
        if ((lead & 0xc0) === 0x80) continue; // continuation byte: its character is already counted
        char += 1;
        unit += lead >= 0xf0 ? 2 : 1; // four-byte characters are surrogate pairs in UTF-16
      }
      textEnd = t + 1;
    }
    chars[t + 1] = char;
    units[t + 1] = unit;
  }
  return byte === bytes.length ? { chars, units, textEnd } : undefined;
}

/**
 * Aligns tokens with a text that was normalised before it was tokenised, and maps the boundaries back to the text as it is.
 *
 * What normalising changes in a cluster (`e` and a combining accent) is one character here: it belongs to the token with
 * the first byte of what it became.
 * @returns undefined where the tokens' bytes are not the normalised text's
 */
export function alignNormalized(
  tokens: readonly Uint8Array[],
  text: string,
  form: 'NFC' | 'NFD' | 'NFKC' | 'NFKD',
): Alignment | undefined {
  const clusters = text.match(CLUSTER) ?? [];
  const normalized = clusters.map((cluster) => cluster.normalize(form));
  const whole = normalized.join('');
  // clusters that normalise one by one as they do together: else a boundary could not be mapped back
  if (whole !== text.normalize(form)) return undefined;
  const found = alignTokens(tokens, whole);
  if (found === undefined) return undefined;

  const chars = new Int32Array(found.units.length);
  const units = new Int32Array(found.units.length);
  let t = 0;
  let [char, unit, scored] = [0, 0, 0]; // before the cluster: in the text, and in what was scored
  for (const [n, cluster] of clusters.entries()) {
    const became = normalized[n] as string;
    const kept = commonPrefix(cluster, became);
    const end = scored + became.length;
    for (; t < found.units.length && (found.units[t] as number) < end; t++) {
      const within = (found.units[t] as number) - scored;
      const taken = within <= kept ? cluster.slice(0, within) : cluster;
      chars[t] = char + codePoints(taken);
      units[t] = unit + taken.length;
    }
    char += codePoints(cluster);
    unit += cluster.length;
    scored = end;
  }
  chars.fill(char, t);
  units.fill(unit, t);
  return { chars, units, textEnd: found.textEnd };
}

/** A starter with the marks, and the Hangul vowels and finals, that may be composed with it. */
const CLUSTER = /[\s\S](?:[\p{M}\u1160-\u11ff])*/gu;

/** UTF-16 units that two texts begin with alike; never half a character. */
function commonPrefix(a: string, b: string): number {
  let length = 0;
  for (const character of a) {
    if (!b.startsWith(character, length)) break;
    length += character.length;
  }
  return length;
}

// ------ lists of token ids

/** Tokens with which two lists of ids begin alike. */
export function sharedTokens(a: Int32Array, b: Int32Array): number {
  const at = a.findIndex((id, t) => id !== b[t]);
  return at < 0 ? a.length : at;
}

export function joinIds(...parts: readonly Int32Array[]): Int32Array {
  const joined = new Int32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}
