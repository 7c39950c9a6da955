// Draws a comparison of credits for a terminal, and writes it as CSV.
import type { ComparedFigure } from '../compare/compare.js';
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
export const NOTES: Readonly<Record<string, string>> = {
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

/** The figures that are looked at first; all of them are in JSON and CSV. */
export function drawComparison(report: DrawnComparison): string {
  const { figures, truth } = report;
  const drawn = new Set<ComparedFigure>();
  const shown = (figure: ComparedFigure | undefined, text: (figure: ComparedFigure) => string): string => {
    if (figure === undefined) return '';
    drawn.add(figure);
    return `${text(figure)}${marked(figure) ? '*' : ''}`;
  };
  const pairs = [
    ...new Map(figures.filter(({ of }) => of !== 'first_wrong').map((f) => [pairName(f, truth), f])).keys(),
  ];
  const find = (pair: string, measure: string, traces = 'all', last = 1) =>
    figures.find(
      (f) =>
        f.measure === measure &&
        pairName(f, truth) === pair &&
        f.traces === traces &&
        f.last === last &&
        f.of !== 'first_wrong',
    );
  const lines: string[] = [];
  lines.push(
    `${plural(report.traces, 'trace')} (${report.right} right, ${report.wrong} wrong), ${plural(report.segments, 'thought segment')}${truth === null ? '' : `; held against ${escapeControls(truth)}`}`,
  );
  lines.push(
    '',
    ...table(
      ['inside traces', 'Pearson', 'p', 'Spearman', 'Kendall', 'pooled Pearson'],
      pairs.map((pair) => [
        pair,
        shown(find(pair, 'pearson'), interval),
        shown(find(pair, 'pearson'), ({ p }) => probability(p)).replace('*', ''),
        shown(find(pair, 'spearman'), interval),
        shown(find(pair, 'kendall'), interval),
        shown(find(pair, 'pooled_pearson'), interval),
      ]),
    ),
    '',
    ...table(
      ['Pearson inside traces', 'last ¼', 'last ½', 'last ¾', 'all', 'right', 'wrong'],
      pairs.map((pair) => [
        pair,
        ...[0.25, 0.5, 0.75, 1].map((last) => shown(find(pair, 'pearson', 'all', last), plain)),
        ...['right', 'wrong'].map((traces) => shown(find(pair, 'pearson', traces), plain)),
      ]),
    ),
  );
  /** a row a credit, of figures that chance is held against */
  const againstTruth = (heads: readonly [string, ...string[]], measures: readonly [string, ...string[]]) => {
    const judged = figures.filter(({ measure }) => measure === measures[0]);
    if (judged.length === 0) return [];
    const rows = judged.map(({ credit }) => {
      const own = measures.map((name) => figures.find((f) => f.measure === name && f.credit === credit));
      return [escapeControls(credit), ...own.map((figure) => shown(figure, againstChance))];
    });
    return ['', ...table(heads, rows)];
  };
  lines.push(
    ...againstTruth(
      [`agrees with ${truth}`, 'sign of large changes', 'worst segment of wrong traces'],
      ['sign_of_large', 'worst_segment'],
    ),
    ...againstTruth(['first wrong segment', 'ROC AUC', 'hit@1'], ['auc', 'hit_at_1']),
  );
  return `${[...lines, ...remarks(report, [...drawn])].join('\n')}\n`;
}

function remarks({ refused, notes }: DrawnComparison, drawn: readonly ComparedFigure[]): string[] {
  const codes = new Set(drawn.filter(marked).flatMap((figure) => figure.notes));
  return [
    '',
    '[ ]: 95 % of the resamples of groups. p: segments change places inside their traces.',
    ...Object.entries(NOTES).flatMap(([code, text]) => (codes.has(code) ? [`* ${code}: ${text}`] : [])),
    ...notes.map(({ code, text }) => `! ${code}: ${escapeControls(text)}`),
    ...Object.entries(refused).map(
      ([code, { count, first }]) =>
        `! left out: ${plural(count, 'row')} (${code}), first ${escapeControls(first)}`,
    ),
  ];
}

/** Whether something is known against a figure. */
export function marked({ notes }: ComparedFigure): boolean {
  return notes.some((code) => code in NOTES);
}

function pairName({ of, credit }: ComparedFigure, truth: string | null): string {
  return escapeControls(truth === null ? `${of} ~ ${credit}` : credit);
}

type Ranged = Pick<ComparedFigure, 'value' | 'low' | 'high'>;

function plain({ value }: Ranged): string {
  return value === null ? '–' : value.toFixed(2).replace('-', '−');
}

function interval(figure: Ranged): string {
  const { low, high } = figure;
  if (figure.value === null || low === null || high === null) return plain(figure);
  const [from, to] = [low, high].map((value) => plain({ value, low, high }));
  return `${plain(figure)} [${from}, ${to}]`;
}

function againstChance(figure: ComparedFigure): string {
  const chance = figure.chance === null ? '' : ` (chance ${plain({ ...figure, value: figure.chance })})`;
  return `${interval(figure)}${figure.value === null ? '' : chance}`;
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
