// How far the noise of answers may take the changes of a trace's values, whatever these are made of.
import { sum } from '../credit/rules.js';
import { unsureness } from '../credit/sigma.js';
import type { Answer, Answers, TraceQuestions } from '../question.js';

/** So many standard deviations a change may be off by: one in twenty of those that are none comes out larger. */
const DEVIATIONS = 2;
/** Questions of an exit whose errors are told apart; of more, every sixteenth is taken to be off alike. */
const TOLD_APART = 16;

/**
 * By how much the changes of a trace's values may be off. Answers are off each for itself, at neighboring exits too: each is moved up and
 * down, at even and at odd exits in turn, and what that does to v_k − v_(k−1) is added in squares.
 * @param values (K+1) as the estimator makes them of the trace's answers
 * @returns (K); undefined where answers are not known to be off, or values are made of none
 */
export function changeNoise(
  values: (answers: Answers) => Float32Array,
  answers: Answers,
  { atExits }: Pick<TraceQuestions, 'atExits'>,
): Float32Array | undefined {
  const { branches, tails, whenCut, second } = answers;
  const [own, again] = [answers.noise ?? 0, second?.noise ?? 0];
  const N = Math.max(branches[0]?.length ?? 0, second?.branches[0]?.length ?? 0);
  const others = (tails ?? []).reduce((most, { length }) => Math.max(most, length), whenCut ? N : 0);
  if (own + again === 0 || N + others === 0) return undefined;
  const ways = 2 * Math.min(TOLD_APART, N + others);
  const squares = new Float64Array(branches.length - 1);
  for (let way = 0; way < ways; way++) {
    const movedBy = (sign: number): Answers => {
      const moved = (one: Answer, exit: number, n: number, noise = own) =>
        (2 * n + (exit % 2)) % ways === way ? off(one, sign * noise, atExits[n]?.also !== undefined) : one;
      const all = (exits: readonly (readonly Answer[])[], first = 0, noise = own) =>
        exits.map((exit, k) => exit.map((one, n) => moved(one, k, first + n, noise)));
      return {
        ...answers,
        branches: all(branches),
        ...(tails && { tails: all(tails, N) }),
        // segment by segment its N
        ...(whenCut && { whenCut: whenCut.map((one, q) => moved(one, Math.floor(q / N), N + (q % N))) }),
        ...(second && { second: { ...second, branches: all(second.branches, 0, again) } }),
      };
    };
    const [up, down] = [values(movedBy(1)), values(movedBy(-1))];
    const half = Float64Array.from(up, (value, k) => (value - (down[k] as number)) / 2);
    for (const k of squares.keys()) {
      const change = (half[k + 1] as number) - (half[k] as number);
      // to −∞, to which no reference contributes, nothing does
      if (Number.isFinite(change)) squares[k] = (squares[k] as number) + change ** 2;
    }
  }
  return Float32Array.from(squares, (square) => DEVIATIONS * Math.sqrt(square));
}

/** An answer whose logit is off. @param isTwo its last token is another answer, which is off the other way */
function off(own: Answer, by: number, isTwo: boolean): Answer {
  if (isTwo)
    return Float32Array.of(...off(own.subarray(0, -1), by, false), ...off(own.subarray(-1), -by, false));
  const unsure = own.map(unsureness);
  const share = (by * unsureness(sum(own))) / (sum(unsure) || 1);
  return own.map((logprob, t) => Math.min(0, logprob + share * (unsure[t] as number)));
}
