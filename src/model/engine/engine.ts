// What an engine is to the program: it answers questions about token ids with log-probabilities, or with samples, however it computes them.
import { z } from 'zod';
import type { InputPrint } from '../../io/read/input-file.js';

/** Who answers: a file of answers, or a server. */
export interface Engine extends AsyncDisposable {
  /** e.g. `vllm 0.32.0`; said in the run, and in every error */
  readonly name: string;
  /** what decides its numbers, for the identity of a run: no address, no time */
  readonly config: Readonly<Record<string, unknown>>;
  /** files that it reads, which have to stay what they are */
  readonly prints?: readonly InputPrint[];
  /** traces of which questions are at work at a time */
  readonly width: number;
  /** of its answers, as `answerNoise` measures it; absent: nobody has looked */
  readonly noise?: number | undefined;
  /**
   * What it says to all questions of a call, in their order; nobody has looked whether it can be. They are of one trace: where the
   * whole of it is asked too, that comes first, since what follows begins as it does; exits ascend.
   * @throws TraceRejected where one cannot be answered, and the others of the run can
   * @throws RredcotError (exit 69) where none can be any more
   */
  answer(questions: readonly EngineQuestion[]): Promise<readonly Said[]>;
}

export type EngineQuestion = LogprobQuestion | SampleQuestion;

/** What every question says. */
interface OfTrace {
  /** names trace, exit and question for people: top-0003@120:0 */
  readonly name: string;
  /** the whole list: a trace up to an exit, and what goes on from there */
  readonly ids: Int32Array;
  /** of `ids`, so many are the trace's own, which other questions of it begin with too */
  readonly shared: number;
  /** of a whole trace: the entropy at each place is wanted too; so many of the most likely tokens tell it, where it is not known */
  readonly top?: number;
  /** to be computed anew, alone, with nothing that is cached: the answerer's proof compares it */
  readonly fresh?: true;
}

/** How likely `ids[from..]` are, each given all before it. */
export interface LogprobQuestion extends OfTrace {
  readonly from: number;
}

/** How the policy goes on from `ids`, T = 1. */
export interface SampleQuestion extends OfTrace {
  readonly samples: number;
  readonly maxTokens: number;
  /** token ids that end a sample, which is its last then */
  readonly stop: readonly number[];
}

const Numbers = z.array(z.number());
/** A line of answers (docs/engines.md), which says with these names what is said to a question. */
const AnswerLine = z.object({
  id: z.string(),
  logprobs: Numbers.exactOptional(),
  /** of each place the largest log-probabilities, descending; or its entropy, where the answerer knows that */
  top: z.array(Numbers).exactOptional(),
  /** the tokens that these are of */
  top_ids: z.array(z.array(z.int().min(0))).exactOptional(),
  entropies: Numbers.exactOptional(),
  /** (samples) */
  ids: z.array(z.array(z.int().min(0))).exactOptional(),
  error: z.string().exactOptional(),
});
export type SaidNumbers = Omit<z.infer<typeof AnswerLine>, 'id' | 'error'>;
/** Numbers, or why there are none, as half a sentence. */
export type Said = string | SaidNumbers;

/** What a line of answers says, and to which question, where that can be read. */
export function saidOn(line: unknown): { readonly id?: string; readonly said: Said } {
  const { data, error } = AnswerLine.safeParse(line);
  const [{ path = [], message } = {}] = error?.issues ?? [];
  if (data === undefined) return { said: `${path.join('.') || 'it'}: ${message}` };
  return { id: data.id, said: data.error === undefined ? data : `says: ${data.error}` };
}
