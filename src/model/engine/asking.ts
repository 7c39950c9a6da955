// An engine that answers nothing: it writes down what it is asked, but for what was answered before, as lines that any engine can answer.
import { TraceRejected } from '../../errors.js';
import type { AnswersFile } from './answers-file.js';
import type { Engine, EngineQuestion, Said } from './engine.js';
import { checked, idOf } from './wire.js';

/** The code of a trace whose questions were written down. */
export const ASKED = 'asked';

/** Questions at exits that are asked twice, once to be computed anew: their differences are the answerer's noise. */
const PROOFS = 64;

export type Asking = ReturnType<typeof asking>;

/** @param vocab tokens of the policy's vocabulary @param answers what is known already */
export function asking(vocab: number, answers: AnswersFile | undefined) {
  const lines = [`${JSON.stringify({ rredcot: 'requests', vocab })}\n`];
  /** what was written down */
  const counts = { tokens: 0, whole: 0, exits: 0, samples: 0 };
  /** whole traces that were asked about: of a group several may want the same */
  const known = new Set<string>();

  /** A line of what all begin with, which a trace's own question is where nobody has asked it, and one each. */
  function write(questions: readonly EngineQuestion[]): void {
    const { base, ids, whole } = baseOf(questions);
    const isNew = whole !== undefined && !known.has(base);
    lines.push(lineOf(base, ids, isNew ? asksOf(whole) : {}));
    counts.whole += isNew ? 1 : 0;
    counts.tokens += isNew ? whole.ids.length : 0;
    known.add(base);
    for (const question of questions.filter((each) => each !== whole)) {
      const line = (asks: EngineQuestion) => branchLine(asks, base);
      lines.push(line(question));
      counts.tokens += question.ids.length - question.shared;
      counts['samples' in question ? 'samples' : 'exits']++;
      if ('from' in question && counts.exits <= PROOFS) lines.push(line({ ...question, fresh: true }));
    }
  }
  const engine: Engine = {
    name: 'requests',
    config: {},
    // one after the other: lines are in the order of the traces
    width: 1,
    /** @throws TraceRejected (`asked`) where something is left to be answered, an answer that is none among it */
    async answer(questions) {
      const said = await Promise.all(questions.map((each) => answers?.find(each)));
      const left = questions.filter((each, n) => typeof checked(said[n], each, vocab) === 'string');
      if (left.length === 0) return said as Said[];
      write(left);
      throw new TraceRejected(ASKED, 'its questions are to be answered');
    },
    [Symbol.asyncDispose]: async () => answers?.[Symbol.asyncDispose](),
  };
  return { engine, counts, take: () => lines.splice(0).join('') };
}

/** All lines of a call, where nothing is known of an earlier one. */
export function linesOf(questions: readonly EngineQuestion[]): string[] {
  const { base, ids, whole } = baseOf(questions);
  const branches = questions.filter((each) => each !== whole).map((each) => branchLine(each, base));
  return [lineOf(base, ids, whole ? asksOf(whole) : {}), ...branches];
}

/** What all questions of a call begin with, by its id; and the one of them, if any, that asks about the whole of it. */
function baseOf(questions: readonly EngineQuestion[]) {
  const { name, ids, shared } = questions.reduce((most, each) => (each.shared > most.shared ? each : most));
  const whole = questions.find(({ top }) => top);
  const prefix = { name: name.replace(/@[^@]*$/, ''), ids: ids.subarray(0, shared), shared, from: shared };
  return { base: idOf(whole ?? prefix), ids: prefix.ids, whole };
}

function branchLine(question: EngineQuestion, base: string): string {
  const { ids, shared } = question;
  return lineOf(idOf(question), ids.subarray(shared), {
    prefix: { of: base, length: shared },
    ...asksOf(question),
  });
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
