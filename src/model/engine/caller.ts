// Whoever has sent a request as the engine that answers it: questions of many traces go out together, as lines that any engine can answer.
import { jsonOf } from '../../io/arrow/json.js';
import { linesOf } from './asking.js';
import { type Engine, type EngineQuestion, type Said, saidOn } from './engine.js';
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
        const lines = await exchange(all.flatMap(({ questions }) => linesOf(questions)).join(''));
        // of two of one id the last counts
        const said = new Map<string | undefined, Said>();
        for (const each of lines.split('\n').map((line) => saidOn(jsonOf(line))))
          said.set(each.id, each.said);
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
