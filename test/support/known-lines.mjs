// The embedded policy's traces in, the first line that is wrong out: its task is arithmetic, so every line is known.
const STEP = /^(?:wait, )?([a-g]): (\d)([-+*])(\d)=(\d) (?:top (\d)|low ([a-g])(\d))$/;
const FILLERS = new Set(['so far so good.', 'hmm, let me go on.', 'ok, next.']);
const MODULUS = 10;

/** Start and operations of `start 6: a*2 b+2 c-1 top?`. */
function problemOf(prompt) {
  const [, start, listed] = /^start (\d): (.*) (?:top|low)\?/.exec(prompt);
  const operations = listed
    .split(' ')
    .map((text) => ({ letter: text[0], operator: text[1], operand: Number(text[2]) }));
  return { start: Number(start), operations };
}

function compute(state, { operator, operand }) {
  const result = operator === '+' ? state + operand : operator === '-' ? state - operand : state * operand;
  return ((result % MODULUS) + MODULUS) % MODULUS;
}

/**
 * The thought's first line, from 0, that does not carry the chain on as it ought to and is not put right by the next line that
 * counts; null where all do. Fillers count as lines, and are never wrong.
 */
export function firstMistake(prompt, completion) {
  const { start, operations } = problemOf(prompt);
  const lines = completion.replace('<think>\n', '').split('</think>')[0].split('\n').slice(0, -1);
  const isTop = / top\?/.test(prompt);
  const better = (a, b) => b === null || (isTop ? a.value > b.value : a.value < b.value);
  let [state, best, place, disagreeing] = [start, null, 0, null];
  let [stateBefore, bestBefore] = [state, best];
  for (const [n, line] of lines.entries()) {
    if (FILLERS.has(line)) continue;
    const again = line.startsWith('wait, ');
    if (again) {
      if (place === 0) return n;
      [state, best] = [stateBefore, bestBefore];
      place--;
      disagreeing = null;
    }
    if (disagreeing !== null) return disagreeing;
    const operation = operations[place];
    if (operation === undefined) return n;
    [stateBefore, bestBefore] = [state, best];
    const value = compute(state, operation);
    const own = { value, letter: operation.letter };
    const shown = better(own, best) ? own : best;
    const expected = `${operation.letter}: ${state}${operation.operator}${operation.operand}=${value} ${isTop ? `top ${shown.value}` : `low ${shown.letter}${shown.value}`}`;
    if (line !== (again ? `wait, ${expected}` : expected)) {
      disagreeing = n;
      const found = STEP.exec(line);
      if (found === null) return n;
    }
    [state, best, place] = [value, shown, place + 1];
  }
  if (disagreeing !== null) return disagreeing;
  return place === operations.length ? null : Math.max(0, lines.length - 1);
}
