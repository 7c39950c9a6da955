// Draws a comparison of credits, or a row of the benchmark, for a terminal, and writes a comparison as CSV.
import type { BenchRow } from '../compare/bench.js';
import { type ComparedFigure, LASTS } from '../compare/compare.js';
import { plural } from '../plural.js';
import { escapeControls } from '../printable.js';

/** What is drawn. */
export interface DrawnComparison {
  readonly figures: readonly ComparedFigure[];
  readonly files: readonly { readonly file: string; readonly traces: number }[];
  readonly traces: number;
  readonly right: number;
  readonly wrong: number;
  readonly segments: number;
  readonly truth: string | null;
  readonly refused: Readonly<Record<string, { readonly count: number; readonly first: string }>>;
  readonly notes: readonly { readonly code: string; readonly text: string }[];
}

/** Why a figure is marked. */
const NOTES: Readonly<Record<string, string>> = {
  'few-groups':
    'fewer than ten groups, of which intervals are resamples (a trace without a group is its own)',
  'few-segments': 'fewer than thirty segments: p is that of a normal limit which is not reached',
  flat: 'half of the traces or more have a credit that does not move',
  ties: 'half of the pairs of segments or more have equal credits',
  none: 'a credit is constant in every trace, or no trace counts',
};

const FIELDS = [
  ...(['measure', 'of', 'credit', 'traces', 'last', 'value', 'low', 'high', 'p', 'chance'] as const),
  ...(['n_traces', 'n_segments', 'notes'] as const),
] as const;

/** One line a figure, after a line of names; what is not known is empty. */
export function comparisonCsv({ figures }: DrawnComparison): string {
  const cell = (value: unknown): string => {
    const text = value === null ? '' : Array.isArray(value) ? value.join(';') : escapeControls(String(value));
    return /[",]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = figures.map((figure) => FIELDS.map((field) => cell(figure[field])).join(','));
  return `${[FIELDS.join(','), ...lines].join('\n')}\n`;
}

/** Two credits that are held against each other, and their figures. */
export type CreditPair = ReturnType<typeof pairsOf>[number];

/** In the order of the figures. */
export function pairsOf({ figures, truth }: DrawnComparison) {
  const pairs = new Map(
    figures.flatMap((figure) =>
      figure.measure === 'pearson' ? [[JSON.stringify([figure.of, figure.credit]), figure]] : [],
    ),
  );
  return Array.from(pairs.values(), ({ of, credit }) => {
    const own = figures.filter((figure) => figure.of === of && figure.credit === credit);
    return {
      ...{ of, credit, name: truth === null ? `${of} ~ ${credit}` : credit },
      /** @param traces by outcome, @param last the last part of them; all of them where absent */
      at: (measure: string, traces: ComparedFigure['traces'] = 'all', last = 1) =>
        own.find((f) => f.measure === measure && f.traces === traces && f.last === last),
    };
  });
}

/** How much is compared. */
export function sizesText({ traces, right, wrong, segments }: DrawnComparison): string {
  return `${plural(traces, 'trace')} (${right} right, ${wrong} wrong), ${plural(segments, 'thought segment')}`;
}

/** What the marks of figures mean. */
export function marksText(drawn: readonly Pick<ComparedFigure, 'notes'>[]): string[] {
  const codes = new Set(drawn.filter(marked).flatMap((figure) => figure.notes));
  return Object.entries(NOTES).flatMap(([code, text]) => (codes.has(code) ? [`* ${code}: ${text}`] : []));
}

/** The figures that are looked at first; all of them are in JSON and CSV. */
export function drawComparison(report: DrawnComparison): string {
  const { figures, truth } = report;
  const pairs = pairsOf(report);
  const drawn: ComparedFigure[] = [];
  const cell = (figure: ComparedFigure | undefined, text: (figure: ComparedFigure) => string): string => {
    if (figure === undefined) return '';
    drawn.push(figure);
    return `${text(figure)}${marked(figure) ? '*' : ''}`;
  };
  const ofPairs = (heads: readonly [string, ...string[]], cells: (at: CreditPair['at']) => string[]) => [
    '',
    ...table(
      heads,
      pairs.map(({ name, at }) => [escapeControls(name), ...cells(at)]),
    ),
  ];
  /** a row a credit, of figures that chance is held against */
  const againstTruth = (heads: readonly [string, ...string[]], measures: readonly [string, ...string[]]) => {
    const judged = figures.filter(({ measure }) => measure === measures[0]);
    if (judged.length === 0) return [];
    const rows = judged.map(({ credit }) => {
      const own = measures.map((name) => figures.find((f) => f.measure === name && f.credit === credit));
      return [escapeControls(credit), ...own.map((figure) => cell(figure, againstChance))];
    });
    return ['', ...table(heads, rows)];
  };
  const lines = [
    `${sizesText(report)}${truth === null ? '' : `; held against ${escapeControls(truth)}`}`,
    ...ofPairs(['inside traces', 'Pearson', 'p', 'Spearman', 'Kendall', 'pooled Pearson'], (at) => [
      cell(at('pearson'), interval),
      probability(at('pearson')?.p ?? null),
      ...['spearman', 'kendall', 'pooled_pearson'].map((measure) => cell(at(measure), interval)),
    ]),
    ...ofPairs(['Pearson inside traces', 'last ¼', 'last ½', 'last ¾', 'all', 'right', 'wrong'], (at) => [
      ...LASTS.map((last) => cell(at('pearson', 'all', last), plain)),
      ...(['right', 'wrong'] as const).map((traces) => cell(at('pearson', traces), plain)),
    ]),
    ...againstTruth(
      [`agrees with ${truth}`, 'sign of large changes', 'worst segment of wrong traces'],
      ['sign_of_large', 'worst_segment'],
    ),
    ...againstTruth(['first wrong segment', 'ROC AUC', 'hit@1'], ['auc', 'hit_at_1']),
    '',
    '[ ]: 95 % of the resamples of groups. p: segments change places inside their traces.',
    ...marksText(drawn),
    ...report.notes.map(({ code, text }) => `! ${code}: ${escapeControls(text)}`),
    ...Object.entries(report.refused).map(
      ([code, { count, first }]) =>
        `! left out: ${plural(count, 'row')} (${code}), first ${escapeControls(first)}`,
    ),
  ];
  return `${lines.join('\n')}\n`;
}

/** Whether something is known against a figure. */
export function marked({ notes }: Pick<ComparedFigure, 'notes'>): boolean {
  return notes.some((code) => code in NOTES);
}

function plain({ value }: Pick<ComparedFigure, 'value'>): string {
  return value === null ? '–' : value.toFixed(2).replace('-', '−');
}

/** A value with its interval. */
function interval(figure: Pick<ComparedFigure, 'value' | 'low' | 'high'>): string {
  const { value, low, high } = figure;
  if (value === null || low === null || high === null) return plain(figure);
  return `${plain(figure)} [${plain({ value: low })}, ${plain({ value: high })}]`;
}

function againstChance(figure: ComparedFigure): string {
  const { value, chance } = figure;
  return `${interval(figure)}${value === null || chance === null ? '' : ` (chance ${plain({ value: chance })})`}`;
}

function probability(p: number | null): string {
  if (p === null) return '–';
  return p < 0.001 ? '<0.001' : p.toFixed(3);
}

/** Columns of text; the first one to the left, the others to the right. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const all = [head, ...rows];
  const widths = head.map((_, n) => Math.max(...all.map((row) => (row[n] ?? '').length)));
  return all.map((row) =>
    row
      .map((cell, n) => (n === 0 ? cell.padEnd(widths[n] as number) : cell.padStart(widths[n] as number)))
      .join('  ')
      .trimEnd(),
  );
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
