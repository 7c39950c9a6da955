// Exact values of the calculator's task (models/recipe/calculator.py): enumerated from the odds by which its chains are written.

/** Of a call: that it is wrong, and of a wrong one that the next turn calls again, rightly. */
const [WRONG, CORRECTED] = [0.25, 0.35];

type Call = readonly [sign: string, operand: number];
type Best = readonly [value: number, letter: string] | null;

/** A state of a trace at an exit. */
export interface State {
  /** tokens of the completion before it */
  readonly end: number;
  /** probability that the trace ends with the right answer */
  readonly value: number;
  /** what the policy wrote since the state before */
  readonly kind: 'start' | 'right call' | 'wrong call' | 'mended call' | 'aggregate';
}

const resultOf = (x: number, [sign, y]: Call) =>
  (sign === '+' ? x + y : sign === '-' ? x - y + 10 : x * y) % 10;

function wrongCalls([sign, operand]: Call): (readonly [call: Call, share: number])[] {
  const digits = [1, 2, 3, 4, 5, 6, 7, 8, 9].filter((n) => n !== operand);
  const signs = ['+', '-', '*'].filter((other) => other !== sign);
  return [
    ...digits.map((n) => [[sign, n], 0.5 / digits.length] as const),
    ...signs.map((other) => [[other, operand], 0.5 / signs.length] as const),
  ];
}

/** The tree of a problem, by its prompt (`start 6: a*2 b+2 top?`). */
function problemOf(prompt: string) {
  const [, start, listed, family] = /^start (\d): (.*) (top|low)\?\n?$/.exec(prompt) as unknown as string[];
  const calls = [...(listed as string).matchAll(/([a-z])([-+*])(\d)/g)].map(([, name, sign, n]) => {
    return { name: name as string, right: [sign as string, Number(n)] as Call };
  });
  const better = (best: Best, result: number, name: string): Best => {
    const isBetter = best === null || (family === 'top' ? result > best[0] : result < best[0]);
    return isBetter ? [result, name] : best;
  };
  const answerOf = (best: Best) => String(best?.[family === 'top' ? 0 : 1]);
  let [state, best] = [Number(start), null as Best];
  for (const { name, right } of calls) {
    state = resultOf(state, right);
    best = better(best, state, name);
  }
  const truth = answerOf(best);
  const known = new Map<string, number>();
  /** behind a result of call `i` that stays */
  const settled = (i: number, result: number, was: Best): number =>
    value(i + 1, result, better(was, result, calls[i]?.name as string));
  /** behind a call `i` of another kind, before it may be mended */
  const open = (i: number, from: number, call: Call, was: Best): number => {
    const { right } = calls[i] as (typeof calls)[number];
    return (
      CORRECTED * settled(i, resultOf(from, right), was) +
      (1 - CORRECTED) * settled(i, resultOf(from, call), was)
    );
  };
  function value(i: number, from: number, was: Best): number {
    if (i === calls.length) return answerOf(was) === truth ? 1 : 0;
    const key = `${i} ${from} ${was}`;
    const found = known.get(key);
    if (found !== undefined) return found;
    const { right } = calls[i] as (typeof calls)[number];
    const wrong = wrongCalls(right).reduce((sum, [call, share]) => sum + share * open(i, from, call, was), 0);
    const all = (1 - WRONG) * settled(i, resultOf(from, right), was) + WRONG * wrong;
    known.set(key, all);
    return all;
  }
  return { ...{ start: Number(start), family, calls, better, settled, open, value } };
}

/**
 * The states of a trace, in order: behind `<think>`, behind every call with what the tool answered, behind every aggregate.
 * @param ids of the completion, a byte or a special token each
 * @returns undefined where the policy wrote what the task does not
 */
export function statesOf(prompt: string, ids: readonly number[]): State[] | undefined {
  const { start, family, calls, better, settled, open, value } = problemOf(prompt);
  const names: Readonly<Record<number, string>> = { 256: 'T', 257: 'C', 258: 'E' };
  const text = ids.map((id) => names[id] ?? String.fromCharCode(id)).join('');
  const states: State[] = [{ end: 2, value: value(0, start, null), kind: 'start' }];
  let [at, from, best] = [2, start, null as Best];
  const read = (pattern: RegExp) => {
    const found = new RegExp(pattern.source, 'y');
    found.lastIndex = at;
    const match = found.exec(text);
    if (match !== null) at = found.lastIndex;
    return match;
  };
  for (const [i, { name, right }] of calls.entries()) {
    const first = read(/([a-z]): (\d)([-+*])(\d)E\n= (\d)\n/);
    if (first === null || first[1] !== name || Number(first[2]) !== from) return undefined;
    const call: Call = [first[3] as string, Number(first[4])];
    let result = Number(first[5]);
    if (result !== resultOf(from, call)) return undefined;
    const isRight = call.join() === right.join();
    const after = isRight ? settled(i, result, best) : open(i, from, call, best);
    states.push({ end: at, value: after, kind: isRight ? 'right call' : 'wrong call' });
    const again = read(/wait, ([a-z]): (\d)([-+*])(\d)E\n= (\d)\n/);
    if (again !== null) {
      result = Number(again[5]);
      states.push({ end: at, value: settled(i, result, best), kind: 'mended call' });
    }
    best = better(best, result, name);
    from = result;
    const shown = read(family === 'top' ? /top (\d)\n/ : /low ([a-z])(\d)\n/);
    const said = family === 'top' ? `${best?.[0]}` : `${best?.[1]}${best?.[0]}`;
    if (shown === null || shown.slice(1).join('') !== said) return undefined;
    states.push({ end: at, value: value(i + 1, from, best), kind: 'aggregate' });
  }
  return states;
}
