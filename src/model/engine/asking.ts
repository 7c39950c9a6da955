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

  function write(left: readonly EngineQuestion[]): void {
    const asked: EngineQuestion[] = [];
    for (const question of left) {
      const { ids, shared, top } = question;
      if (top && known.has(idOf(question))) continue;
      if (top) known.add(idOf(question));
      const kind = top ? 'whole' : 'samples' in question ? 'samples' : 'exits';
      counts[kind]++;
      counts.tokens += ids.length - (top ? 0 : shared);
      asked.push(question);
      if (kind === 'exits' && counts.exits <= PROOFS) asked.push({ ...question, fresh: true });
    }
    lines.push(...linesOf(left, asked));
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

/** A line of what all questions of a call begin with, which a trace's own question is where that is asked, and one of each other. */
export function linesOf(questions: readonly EngineQuestion[], asked = questions): string[] {
  const { name, ids, shared } = questions.reduce((most, each) => (each.shared > most.shared ? each : most));
  const prefix = { name: name.replace(/@[^@]*$/, ''), ids: ids.subarray(0, shared), shared, from: shared };
  const whole = questions.find(({ top }) => top);
  const base = idOf(whole ?? prefix);
  const branches = asked.filter((each) => each !== whole);
  return [
    lineOf(base, prefix.ids, whole && asked.includes(whole) ? asksOf(whole) : {}),
    ...branches.map((each) => {
      const place = { prefix: { of: base, length: each.shared } };
      return lineOf(idOf(each), each.ids.subarray(each.shared), { ...place, ...asksOf(each) });
    }),
  ];
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
