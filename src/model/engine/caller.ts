// Whoever has sent a request as the engine that answers it: questions of many traces go out together, as lines that any engine can answer.
import { setImmediate as turnEnd } from 'node:timers/promises';
import { jsonOf } from '../../io/arrow/json.js';
import { linesOf } from './asking.js';
import { type Engine, type EngineQuestion, type Said, saidOn } from './engine.js';
import { idOf } from './wire.js';

/** Traces of which questions go out together: a trainer's model answers many at once. */
const WIDTH = 64;

/** @param name who it is @param exchange gives lines of questions, takes lines of answers; one at a time */
export function callerEngine(name: string, exchange: (lines: string) => Promise<string>): Engine {
  const waiting: (readonly EngineQuestion[])[] = [];
  let last: Promise<unknown> = Promise.resolve();
  let next: Promise<ReadonlyMap<string | undefined, Said>> | undefined;

  /** What is said to all that waits, once the exchange before it is over. */
  async function exchangeAll(before: Promise<unknown>) {
    await before.catch(() => {});
    // what else is asked in this turn goes with it
    await turnEnd();
    next = undefined;
    const lines = await exchange(
      waiting
        .splice(0)
        .flatMap((each) => linesOf(each))
        .join(''),
    );
    const said = lines.split('\n').map((line) => saidOn(jsonOf(line)));
    // of two of one id the last counts
    return new Map(said.map((each) => [each.id, each.said]));
  }
  return {
    ...{ name, config: { answerer: name }, width: WIDTH },
    async answer(questions) {
      waiting.push(questions);
      next ??= exchangeAll(last);
      last = next;
      const said = await next;
      return questions.map((each) => said.get(idOf(each)) ?? 'has no answer');
    },
    [Symbol.asyncDispose]: async () => {},
  };
}
