// Draws a row of the benchmark for a terminal.
import type { BenchFigure } from '../compare/bench.js';
import { plural } from '../plural.js';
import { escapeControls } from '../printable.js';
import { interval, marked, marksText, table } from './compare-view.js';

/** What is drawn. */
export interface DrawnBench {
  readonly name: string;
  readonly set: string;
  readonly half: string;
  readonly traces: number;
  readonly counted: number;
  readonly groups: number;
  readonly segments: number;
  readonly tokens_spent: number | null;
  readonly left_out: Readonly<Record<string, { readonly count: number; readonly first: string }>>;
  readonly figures: readonly BenchFigure[];
}

/** Columns: what is told of a credit, over which traces. */
const COLUMNS = [
  ['share of ceiling', 'share', 'all'],
  ['right', 'share', 'right'],
  ['wrong', 'share', 'wrong'],
  ['Pearson', 'pearson', 'all'],
  ['sign of large', 'sign_of_large', 'all'],
  ['worst of wrong', 'worst_segment', 'wrong'],
  ['first wrong: AUC', 'auc', 'all'],
  ['hit@1', 'hit_at_1', 'all'],
  ['level error', 'level_error', 'all'],
] as const;

/** The row, and what always stands beside it; columns that a set has no truth for are left out. */
export function drawBench(row: DrawnBench): string {
  const { figures } = row;
  const find = (credit: string, measure: string, traces: string) =>
    figures.find((f) => f.credit === credit && f.measure === measure && f.traces === traces);
  const columns = COLUMNS.filter(([, measure]) => figures.some((figure) => figure.measure === measure));
  const cell = (figure: BenchFigure | undefined) =>
    figure === undefined ? '' : `${interval(figure)}${marked(figure) ? '*' : ''}`;
  const names = [...new Set(figures.map(({ credit }) => credit))];
  const order = [...names.filter((name) => name !== 'truth'), ...names.filter((name) => name === 'truth')];
  const ceiling = find('truth', 'ceiling', 'all');
  const chance = columns.map(([, measure, traces]) => {
    const value = find('row', measure, traces)?.chance;
    return typeof value === 'number' ? interval({ value, low: null, high: null }) : '';
  });
  const spent = row.tokens_spent === null ? '' : `; ${row.tokens_spent.toFixed(1)} tokens a token`;
  const lines = [
    `${row.set}, ${row.half}: ${plural(row.counted, 'trace')} of ${row.traces}, ${plural(row.groups, 'group')}, ${plural(row.segments, 'segment')}${ceiling === undefined ? '' : `; ceiling ${interval(ceiling)}`}${spent}`,
    '',
    ...table(
      ['', ...columns.map(([head]) => head)],
      [
        ...order.map((credit) => [
          credit === 'row' ? escapeControls(row.name) : credit,
          ...columns.map(([, measure, traces]) => cell(find(credit, measure, traces))),
        ]),
        ['chance', ...chance],
      ],
    ),
    '',
    '[ ]: 95 % of the resamples of groups.',
    ...marksText(figures),
    ...Object.entries(row.left_out).map(
      ([code, { count, first }]) =>
        `! left out: ${plural(count, 'trace')} (${code}), first ${escapeControls(first)}`,
    ),
  ];
  return `${lines.join('\n')}\n`;
}
