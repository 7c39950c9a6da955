// An engine that answers nothing: it writes down what it is asked, but for what was answered before, as lines that any engine can answer.
import { TraceRejected } from '../../errors.js';
import type { AnswersFile } from './answers-file.js';
import type { Engine, EngineQuestion, Said } from './engine.js';
import { checked, idOf, isWhole } from './wire.js';

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
  readonly counts = { tokens: 0, whole: 0, exits: 0, samples: 0 };
  private readonly lines: string[];
  /** whole traces that were asked about: of a group several may want the same */
  private readonly known = new Set<string>();

  /** @param vocab tokens of the policy's vocabulary @param answers what is known already */
  constructor(
    private readonly vocab: number,
    private readonly answers: AnswersFile | undefined,
  ) {
    this.lines = [`${JSON.stringify({ rredcot: 'requests', vocab })}\n`];
  }

  /** The lines that came since the last call. */
  take(): string {
    return this.lines.splice(0).join('');
  }

  /** @throws TraceRejected (`asked`) where something is left to be answered, an answer that is none among it */
  async answer(questions: readonly EngineQuestion[]): Promise<readonly Said[]> {
    const said = await Promise.all(questions.map((each) => this.answers?.find(each)));
    const left = questions.filter((each, n) => typeof checked(said[n], each, this.vocab) === 'string');
    if (left.length === 0) return said as Said[];
    this.ask(left);
    throw new TraceRejected(ASKED, 'its questions are to be answered');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.answers?.[Symbol.asyncDispose]();
  }

  /** A line of what all begin with, which a trace's own question is where nobody has asked it, and one each. */
  private ask(questions: readonly EngineQuestion[]): void {
    const { counts, lines, known } = this;
    const { name, ids, shared } = questions.reduce((most, each) => (each.shared > most.shared ? each : most));
    const whole = questions.find(isWhole);
    const prefix = { name: name.replace(/@[^@]*$/, ''), ids: ids.subarray(0, shared), shared, from: shared };
    const base = idOf(whole ?? prefix);
    if (whole === undefined || known.has(base)) lines.push(lineOf(base, ids.subarray(0, shared), {}));
    else {
      lines.push(lineOf(base, ids, asksOf(whole)));
      counts.whole++;
      counts.tokens += ids.length;
    }
    known.add(base);
    for (const question of questions.filter((each) => each !== whole)) {
      const own = question.ids.subarray(question.shared);
      const line = (asks: EngineQuestion) =>
        lineOf(idOf(asks), own, { prefix: { of: base, length: question.shared }, ...asksOf(asks) });
      lines.push(line(question));
      counts.tokens += own.length;
      counts['samples' in question ? 'samples' : 'exits']++;
      if ('from' in question && counts.exits <= PROOFS) lines.push(line({ ...question, fresh: true }));
    }
  }
}

function lineOf(id: string, ids: Int32Array, asks: object): string {
  return `${JSON.stringify({ id, token_ids: [...ids], ...asks })}\n`;
}

/** What a line asks of its tokens, by the names that it has there. */
function asksOf(question: EngineQuestion): object {
  if ('samples' in question)
    return { samples: question.samples, max_tokens: question.maxTokens, stop: question.stop };
  return { from: question.from, top: question.top, fresh: question.fresh };
}
