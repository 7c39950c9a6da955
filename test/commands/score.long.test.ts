// As score.test.ts, with more traces against the oracle; and what the rules make of all the fixtures.
import { beforeAll, describe, expect, it } from 'vitest';
import type { SigmaRule } from '../../dist/credit/rules.js';
import { redistribute, sigmaFigures } from '../../dist/credit/sigma.js';
import { describeAgainstOracle, type Fixtures, openFixtures } from '../support/oracle-comparison.js';
import { type ScoredRow, type ScoredSegment, storedSigmaInput } from '../support/program.js';

describeAgainstOracle({ everyGroup: 8, traces: 9, others: 2 });

describe('the default rule on lines known to be right', () => {
  let fixtures: Fixtures;
  beforeAll(async () => {
    fixtures = await openFixtures();
  });

  /** of the rows with credit: right lines of right traces, and how many of them σ punishes; traces with a token above 20 */
  function figures(rows: readonly ScoredRow[], rule: SigmaRule) {
    const found = { traces: 0, large: 0, lines: 0, punished: 0 };
    for (const row of rows) {
      const options = { rule, residual: 'uniform', within: 'uniform' } as const;
      const input = storedSigmaInput(row);
      const { sigma, fallback } = redistribute(input, options);
      if (fallback !== undefined) continue;
      found.traces++;
      if (sigmaFigures(sigma, input.logprobs).sigmaMaxWeight > 20) found.large++;
      if (row.reward !== 1) continue;
      for (const { start, end } of rightLines(row)) {
        found.lines++;
        if (sigma.slice(start as number, end as number).reduce((a, s) => a + s, 0) < 0) found.punished++;
      }
    }
    return found;
  }

  it('punishes none of them and has no large weight, where rudder punishes most', async () => {
    const rows = await fixtures.scored('whole');
    const share = figures(rows, 'share');
    const rudder = figures(rows, 'rudder');
    // enough to speak of: measured 1,680 lines, in 431 traces with credit
    expect(share.lines).toBeGreaterThan(1500);
    expect(share.traces).toBeGreaterThan(400);
    expect(share).toMatchObject({ punished: 0, large: 0 });
    // measured beside it: 58 % of the lines (980), 29 % of the traces (126 of 432)
    expect(rudder.punished / rudder.lines).toBeGreaterThan(0.55);
    expect(rudder.large / rudder.traces).toBeGreaterThan(0.27);
  });
});

/** A trace's thought segments that are the lines of a right chain, up to its first mistake: known from the prompt alone. */
function rightLines({ prompt, completion, segments }: ScoredRow): ScoredSegment[] {
  const [, start] = /^start (\d):/.exec(prompt) as RegExpExecArray;
  const operations = [...prompt.matchAll(/([a-j][-+*]\d)/g)].map(([text]) => text);
  const found: ScoredSegment[] = [];
  let state = Number(start);
  for (const segment of segments) {
    const text = completion.slice(segment.char_start as number, segment.char_end as number);
    const line = /^(?:<think>\n)?([a-j]): (\d)([-+*])(\d)=(\d) /.exec(text);
    if (line === null) continue;
    const [, letter, from, operator, operand, result] = line;
    const [a, b] = [Number(from), Number(operand)];
    const right = operator === '+' ? a + b : operator === '-' ? a - b + 10 : a * b;
    const isNext = `${letter}${operator}${operand}` === operations[found.length] && a === state;
    if (!isNext || right % 10 !== Number(result)) break;
    state = Number(result);
    found.push(segment);
  }
  return found;
}
