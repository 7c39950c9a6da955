// Whoever has sent a request as the engine that answers it: questions of many traces go out together, as lines that any engine can answer.
import { jsonOf } from '../../io/arrow/json.js';
import { linesOf } from './asking.js';
import { AnswerLine, type Engine, type EngineQuestion, type Said } from './engine.js';
import { idOf } from './wire.js';

/** Traces of which questions go out together: a trainer's model answers many at once. */
const WIDTH = 64;

interface Waiting {
  readonly questions: readonly EngineQuestion[];
  readonly resolve: (said: Said[]) => void;
  readonly reject: (error: unknown) => void;
}

/** @param name who it is @param exchange gives lines of questions, takes lines of answers; one at a time */
export function callerEngine(name: string, exchange: (lines: string) => Promise<string>): Engine {
  let waiting: Waiting[] = [];
  let isBusy = false;

  async function exchangeAll(): Promise<void> {
    while (waiting.length > 0) {
      const all = waiting;
      waiting = [];
      try {
        const said = saidIn(await exchange(all.flatMap(({ questions }) => linesOf(questions)).join('')));
        for (const { questions, resolve } of all)
          resolve(questions.map((each) => said.get(idOf(each)) ?? 'has no answer'));
      } catch (error) {
        for (const { reject } of all) reject(error);
      }
    }
    isBusy = false;
  }
  return {
    ...{ name, config: { answerer: name }, width: WIDTH },
    answer: (questions) =>
      new Promise((resolve, reject) => {
        waiting.push({ questions, resolve, reject });
        if (isBusy) return;
        isBusy = true;
        // what else is asked in this turn goes with it
        setImmediate(exchangeAll);
      }),
    [Symbol.asyncDispose]: async () => {},
  };
}

/** By id; of two the last counts. */
function saidIn(lines: string): Map<string, Said> {
  const said = new Map<string, Said>();
  for (const line of lines.split('\n')) {
    const { data } = AnswerLine.safeParse(jsonOf(line));
    if (data !== undefined) said.set(data.id, data.error === undefined ? data : `says: ${data.error}`);
  }
  return said;
}
