// The nouns of the program: a message, a reference answer and a trace, as every stage hands them on; and which tokens of a completion the policy
// wrote, beside those that it was shown: answers of tools, others' turns.
import type { Data } from 'apache-arrow';

/** One message of a conversation. Fields beside these two (`name`, `tool_calls`, …) are the chat template's to read. */
export interface Message {
  readonly role: string;
  readonly content: string;
  readonly [field: string]: unknown;
}

/** How messages begin as JSON, or as Python prints them. */
export const MESSAGES_AS_TEXT = /^\s*(?:(?:\[\s*)?\{\s*(["'])role\1|\[\s*\{\s*(["'])content\2)\s*:/;

/** An answer that earns `utility`, with the solution text that leads to it where one is known. */
export interface Reference {
  /** answer text, scored after the exit template's `open` */
  readonly answer: string;
  /** solution text u of METHOD.md eq. (3); only the `joint` estimator reads it */
  readonly solution?: string;
  /** ζ in [0, 1]; 1 for a right answer */
  readonly utility: number;
}

/** (T) 1 for a token that the policy wrote, 0 for one that it was shown. */
export type OwnTokens = Uint8Array;

/** One chain-of-thought trace with its reward, as a row of the input described it. */
export interface Trace {
  readonly id: string;
  /** traces of one prompt share a group (GRPO); absent where the rows carry none */
  readonly group?: string;
  /** text as the policy read it, or the messages that its chat template makes this text of */
  readonly prompt: string | readonly Message[];
  /** where `prompt` is messages: the prompt's text as a dump shows it beside them, to be compared */
  readonly promptText?: string;
  readonly completion: string;
  /** token ids as sampled; where present they are scored as they are and never re-tokenised */
  readonly promptIds?: Int32Array;
  readonly completionIds?: Int32Array;
  /** which of `completionIds` the policy wrote; absent where it wrote all of them */
  readonly completionMask?: OwnTokens;
  /** (T) log-probabilities under the policy that sampled `completionIds`, as its engine said them, nats */
  readonly sampledLogprobs?: Float32Array;
  /** ids of padding that were cut off */
  readonly padding?: number;
  /** in the place of ids: the messages behind the prompt, of which the chat template makes them and the mask */
  readonly turns?: readonly Message[];
  /** the messages of its prompt, and of several turns what came behind it; absent where the prompt is text */
  readonly dialogue?: { readonly prompt: readonly Message[]; readonly behind: readonly Message[] };
  /** what the policy was told of its tools, for the chat template; of traces of several turns, and of prompts alone */
  readonly tools?: unknown;
  /** segment ends for `--segmenter given`: token indices, end exclusive */
  readonly segmentEnds?: Int32Array;
  /** segment ends for `--segmenter given`: code points of `completion`, end exclusive */
  readonly segmentCharEnds?: Int32Array;
  /** values of the states at the exit points, for `--estimator given`: as many as there are exits */
  readonly values?: Float32Array;
  readonly references: readonly Reference[];
  /** ζ(y) as the row has it, before `--reward-range`; null where unknown */
  readonly reward: number | null;
  /** the reward was true or false, or a column of verdicts: 1 or 0 whatever `--reward-range` says */
  readonly isVerdict?: true;
  /** status codes that earlier stages have for the row */
  readonly status?: readonly string[];
  /** 0-based place in the list of a row that holds several traces */
  readonly item?: number;
  /** columns of the joined file that are written beside the row's own */
  readonly joined?: Readonly<Record<string, unknown>>;
  readonly source: TraceSource;
}

/** Whether it holds tokens that the policy was shown. */
export function isOfTurns({ completionMask, turns }: Trace): boolean {
  return completionMask !== undefined || turns !== undefined;
}

/** Where a row stands, and its text: enough to name it in an error. */
export interface RowPlace {
  /** file name as the user gave it, `-` for stdin */
  readonly file: string;
  /** 0-based row number inside the file, blank lines not counted */
  readonly row: number;
  /** the same over all inputs */
  readonly ordinal: number;
  /** byte offset of the row's first byte (in the file once unpacked); null in a columnar file, where a row has none */
  readonly byteOffset: number | null;
  /** the row as it stood, without its line end, of a columnar file as JSON; of a line that was too long to hold its beginning */
  readonly raw: string;
}

/** A parsed row, from which traces come: what names them in an error, and their input columns. */
export interface TraceSource extends RowPlace {
  readonly columns: Readonly<Record<string, unknown>>;
  /** where the columns lie in a columnar input, for an output that keeps their types */
  readonly arrow?: ArrowPlace;
}

/** A batch of a columnar input, its columns by name. */
export interface ColumnarBatch {
  readonly names: readonly string[];
  readonly columns: ReadonlyMap<string, Data>;
  /** names of columns of bytes, which are no text */
  readonly bytes: ReadonlySet<string>;
  /** mean bytes of a row */
  readonly rowBytes: number;
}

/** Where a row's own columns lie, for an output that keeps their types. */
export interface ArrowPlace {
  readonly batch: ColumnarBatch;
  readonly index: number;
}

/** The policy's turns in a completion: token boundaries, end exclusive. */
export function turnsIn(own: OwnTokens): (readonly [from: number, to: number])[] {
  const turns: [number, number][] = [];
  for (const [t, isOwn] of own.entries()) {
    if (!isOwn) continue;
    const last = turns.at(-1);
    if (last?.[1] === t) last[1]++;
    else turns.push([t, t + 1]);
  }
  return turns;
}

/** A list with an entry for each token (T) without those of shown tokens. @param own undefined: all are the policy's */
export function compact<List extends Float32Array | Int32Array>(
  list: List,
  own: OwnTokens | undefined,
): List {
  return own === undefined ? list : (list.filter((_, t) => own[t] !== 0) as List);
}

/** The same with a 0 for each shown token again. @param list an entry for each of the policy's tokens */
export function scattered(list: Float32Array, own: OwnTokens | undefined): Float32Array {
  if (own === undefined) return list;
  let next = 0;
  return Float32Array.from(own, (isOwn) => (isOwn ? (list[next++] as number) : 0));
}

/** A list (T) with 0 in the place of each shown token: what is not the policy's surprises it as little as what it was sure of. */
export function silenced(list: Float32Array, own: OwnTokens | undefined): Float32Array {
  return own === undefined ? list : list.map((x, t) => (own[t] ? x : 0));
}

/** (T+1) the policy's tokens before each boundary. */
export function ownBefore(own: OwnTokens): Int32Array {
  const before = new Int32Array(own.length + 1);
  for (const [t, isOwn] of own.entries()) before[t + 1] = (before[t] as number) + (isOwn ? 1 : 0);
  return before;
}

/** Some of the likeliest tokens of a distribution, and their log-probabilities, nats. */
export type Likeliest = Readonly<Record<'ids' | 'logprobs', readonly number[]>>;
