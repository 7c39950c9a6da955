// The nouns of the program: a message, a reference answer and a trace, as every stage hands them on.
import type { Data } from 'apache-arrow';
import type { OwnTokens } from './turns.js';

/** One message of a conversation. Fields beside these two (`name`, `tool_calls`, …) are the chat template's to read. */
export interface Message {
  readonly role: string;
  readonly content: string;
  readonly [field: string]: unknown;
}

/** An answer that earns `utility`, with the solution text that leads to it where one is known. */
export interface Reference {
  /** answer text, scored after the exit template's `open` */
  readonly answer: string;
  /** solution text u of METHOD.md eq. (3); only the `joint` estimator reads it */
  readonly solution?: string;
  /** ζ in [0, 1]; 1 for a right answer */
  readonly utility: number;
}

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
