// An engine that answers nothing: it writes down what it is asked, but for what was answered before.
import { TraceRejected } from '../../errors.js';
import type { AnswersFile } from './answers-file.js';
import type { Engine, LogprobAnswer, LogprobQuestion, SampleQuestion } from './engine.js';
import {
  baseId,
  baseLine,
  checkedLogprobs,
  checkedSamples,
  headerLine,
  idOf,
  questionLine,
  type WireQuestion,
} from './wire.js';

/** The code of a trace whose questions were written down. */
export const ASKED = 'asked';

/** Questions at exits that are asked twice, once to be computed anew: their differences are the answerer's noise. */
const PROOFS = 64;

export class Asking implements Engine {
  readonly name = 'requests';
  readonly config = {};
  /** one after the other: lines are in the order of the traces */
  readonly width = 1;
  /** what was written down */
  readonly counts = { questions: 0, tokens: 0, whole: 0, exits: 0, samples: 0 };
  private lines: string[] = [];
  /** whole traces that were asked about: of a group several may want the same */
  private readonly known = new Set<string>();
  private proofs = 0;

  /** @param answers what is known already */
  constructor(
    vocab: number,
    private readonly answers: AnswersFile | undefined,
  ) {
    this.lines.push(headerLine(vocab));
  }

  /** The lines that came since the last call. */
  take(): string {
    const text = this.lines.join('');
    this.lines = [];
    return text;
  }

  logprobs(questions: readonly LogprobQuestion[]): Promise<readonly LogprobAnswer[]> {
    return this.answered(questions, (each) => this.answers?.find(each, checkedLogprobs));
  }

  samples(questions: readonly SampleQuestion[]): Promise<readonly (readonly Int32Array[])[]> {
    return this.answered(questions, (each) => this.answers?.find(each, checkedSamples));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.answers?.[Symbol.asyncDispose]();
  }

  /** @throws TraceRejected (`asked`) where something is left to be answered, an answer that is none among it */
  private async answered<Q extends WireQuestion, A>(
    questions: readonly Q[],
    find: (question: Q) => Promise<A | string> | undefined,
  ): Promise<readonly A[]> {
    const found = await Promise.all(questions.map(find));
    const left = questions.filter((_, n) => found[n] === undefined || typeof found[n] === 'string');
    if (left.length === 0) return found as A[];
    this.ask(left);
    throw new TraceRejected(ASKED, 'its questions are to be answered');
  }

  /** @param questions of one trace */
  private ask(questions: readonly WireQuestion[]): void {
    const longest = questions.reduce((most, each) => (each.shared > most.shared ? each : most));
    const isWhole = longest.shared === longest.ids.length && !('samples' in longest);
    let base = isWhole ? idOf(longest) : baseId(longest);
    if (!isWhole) this.lines.push(baseLine(base, longest.ids.subarray(0, longest.shared)));
    for (const question of questions) {
      const { ids, shared } = question;
      const asksAll = shared === ids.length && !('samples' in question);
      if (asksAll) {
        base = idOf(question);
        if (this.known.has(base)) this.lines.push(baseLine(base, ids));
        if (this.known.has(base)) continue;
        this.known.add(base);
      }
      this.lines.push(questionLine(question, asksAll ? undefined : base));
      this.counts.questions++;
      this.counts.tokens += asksAll ? ids.length : ids.length - shared;
      this.counts['samples' in question ? 'samples' : asksAll ? 'whole' : 'exits']++;
      if (asksAll || 'samples' in question || this.proofs >= PROOFS) continue;
      this.proofs++;
      this.lines.push(questionLine({ ...question, fresh: true }, base));
    }
  }
}
