// What a graph that was exported is given: every scored row sees the trace up to its exit, then its branch, whatever runs the branches are dealt out to.
import { expect, test } from 'vitest';
import { type ExportedFeeds, exportedScores } from '../../../dist/model/onnx/exported.js';
import type { Branch, PackedTrace } from '../../../dist/model/onnx/placed.js';
import { seeded } from '../../oracle/toy.js';

type Run = Parameters<typeof exportedScores>[3];

/** A number that differs with every token in sight, its position, and the token that follows. */
const said = (seen: readonly (readonly [pos: number, id: number])[], target: number) =>
  Math.fround(
    [...seen].sort(([a], [b]) => a - b).reduce((sum, [pos, id]) => (sum * 31 + pos * 7 + id) % 9973, target),
  );

/** What the graph computes, from who sees whom alone. */
function graph(runs: number[]): Run {
  return async (feeds: ExportedFeeds) => {
    const [ids, pos, sees, branch, rows, targets, exits] = Object.values(feeds).map(({ data, dims }) => {
      expect(data.length).toBe(dims.reduce((product, n) => product * n, 1));
      return Array.from(data, Number);
    }) as [number[], number[], number[], number[], number[], number[], number[]];
    runs.push(ids.length);
    const inSight = (row: number) =>
      ids.flatMap((id, key) => {
        const ofTrace = branch[key] === -1 && (pos[key] as number) < (sees[row] as number);
        const own = branch[key] === branch[row] && (pos[key] as number) <= (pos[row] as number);
        return ofTrace || own ? [[pos[key] as number, id] as const] : [];
      });
    const logprobs = Float32Array.from(rows, (row, i) => said(inSight(row), targets[i] as number));
    const states = Float32Array.from(exits, (row) => said(inSight(row), 0));
    return { entropies: logprobs.map((each) => -each), logprobs, states };
  };
}

const random = seeded(5);
const draw = (length: number) => Int32Array.from({ length }, () => Math.floor(random() * 50));

test.each([1, 3, 60])(
  'traces of %s tokens, with few branches and with more than a run has room for',
  async (length) => {
    const traces = [0, 40].map((many): PackedTrace => {
      const branches = Array.from({ length: many }, (_, n): Branch => {
        const gap = n % 3 === 1 ? { gap: { before: 1, tokens: 9 } } : {};
        return {
          exit: 1 + (n % length),
          ids: draw(n === 7 ? 90 : 40),
          scoredFrom: 1 + (n % 2),
          also: 3,
          ...gap,
        };
      });
      return { ids: draw(length), promptLength: 1, branches, states: [1, length] };
    });
    const runs: number[] = [];
    const kept = new Map();
    const whole = await exportedScores({ traces }, 64, kept, graph(runs));
    expect(runs.length).toBe(3);
    const read = await exportedScores(
      { traces: traces.map((trace) => ({ ...trace, branches: [] })), keep: 1 },
      64,
      kept,
      graph(runs),
    );
    const asked = traces.map(({ branches }) => ({ ids: new Int32Array(0), promptLength: 0, branches }));
    const behind = await exportedScores({ traces: asked, use: 1 }, 64, kept, graph(runs));
    const placed = (ids: Int32Array, gap?: Branch['gap'], from = 0) =>
      Array.from(ids, (id, j) => [from + j + (gap && j >= gap.before ? gap.tokens : 0), id] as const);
    const [own, ofBranches]: [number[], number[]] = [[], []];
    for (const { ids, branches } of traces) {
      const all = placed(ids);
      for (let t = 1; t < length; t++) own.push(said(all.slice(0, t), ids[t] as number));
      for (const { exit, ids: tokens, scoredFrom, also, gap } of branches) {
        const behindExit = placed(tokens, gap, exit);
        const before = (j: number) => [...all.slice(0, exit), ...behindExit.slice(0, j)];
        for (let j = scoredFrom; j < tokens.length; j++)
          ofBranches.push(said(before(j), tokens[j] as number));
        ofBranches.push(said(before(tokens.length - 1), also as number));
      }
    }
    expect([...whole.logprobs]).toEqual([...own, ...ofBranches]);
    expect([...read.logprobs, ...behind.logprobs]).toEqual([...own, ...ofBranches]);
    expect([...whole.entropies]).toEqual([...whole.logprobs].map((each) => -each));
    const states = traces.flatMap(({ ids, states: at = [] }) =>
      at.map((exit) => said(placed(ids).slice(0, exit), 0)),
    );
    expect([...(whole.states ?? [])]).toEqual(states);
    await expect(exportedScores({ traces, use: 2 }, 64, kept, graph(runs))).rejects.toThrow(
      'no run was kept as 2',
    );
  },
);
