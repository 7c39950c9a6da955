// Draws a row of the benchmark for a terminal.
import type { BenchRow } from '../compare/bench.js';
import { plural } from '../plural.js';
import { escapeControls } from '../printable.js';
import { interval, marksText, table } from './compare-view.js';

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

/** The row, and what always stands beside it; what a set has no truth for makes no column. */
export function drawBench(row: BenchRow): string {
  const { figures } = row;
  const columns = COLUMNS.filter(([, measure]) => figures.some((figure) => figure.measure === measure));
  const find = (credit: string, [, measure, traces]: readonly string[]) =>
    figures.find((f) => f.credit === credit && f.measure === measure && f.traces === traces);
  const cells = (credit: string) =>
    columns.map((column) => {
      const figure = find(credit, column);
      return figure === undefined ? '' : `${interval(figure)}${figure.notes.length > 0 ? '*' : ''}`;
    });
  const chance = columns.map((column) => find('row', column)?.chance?.toFixed(2) ?? '');
  const ceiling = find('truth', ['', 'ceiling', 'all']);
  const sizes = `${row.counted} of ${plural(row.traces, 'trace')}, ${plural(row.groups, 'group')}, ${plural(row.segments, 'segment')}`;
  const names = [...new Set(figures.map(({ credit }) => credit))].sort((a) => (a === 'truth' ? 1 : 0));
  return `${[
    `${row.set}, ${row.half}: ${sizes}${ceiling === undefined ? '' : `; ceiling ${interval(ceiling)}`}`,
    '',
    ...table(
      ['', ...columns.map(([head]) => head)],
      [
        ...names.map((name) => [name === 'row' ? escapeControls(row.name) : name, ...cells(name)]),
        ['chance', ...chance],
      ],
    ),
    '',
    ...(row.tokens_spent === null ? [] : [`${row.tokens_spent.toFixed(1)} tokens were spent for a token`]),
    '[ ]: 95 % of the resamples of groups.',
    ...marksText(figures),
    ...(row.other_policy === undefined
      ? []
      : [
          `! ${plural(row.other_policy, 'trace')} scored by another policy than the one that wrote them: values of others' states`,
        ]),
    ...Object.entries(row.left_out).map(
      ([code, { count, first }]) =>
        `! left out: ${plural(count, 'trace')} (${code}), first ${escapeControls(first)}`,
    ),
  ].join('\n')}\n`;
}
