// `node bench/fidelity/page.mjs`: writes the measured part of docs/fidelity.md from the figures in docs/fidelity/*.csv.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { table, two, whole, withInterval } from './figures.mjs';
import { ROOT } from './program.mjs';

const PAGE = join(ROOT, 'docs/fidelity.md');
const MARKS = ['<!-- measured: bench/fidelity/page.mjs -->', '<!-- end of what was measured -->'];

/** The figures of a file of CSV: (figure, of, at) to a value with its interval, undefined where there is none. */
export function figuresOf(text) {
  const found = new Map();
  for (const line of text.trim().split('\n').slice(1)) {
    const cells = [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(
      ([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain,
    );
    const [value, low, high] = cells.slice(3).map((cell) => (cell === '' ? undefined : Number(cell)));
    found.set(cells.slice(0, 3).join('\n'), { value, low, high });
  }
  const get = (figure, of = '', at = '') => found.get([figure, of, at].join('\n'));
  return Object.assign(get, {
    /** what has that figure, in the file's order */
    names: (figure) => [
      ...new Set(
        [...found.keys()]
          .map((key) => key.split('\n'))
          .filter(([own]) => own === figure)
          .map(([, of]) => of),
      ),
    ],
  });
}

/** The files of `docs/fidelity`, by name. */
export function storedFigures(folder = join(ROOT, 'docs/fidelity')) {
  const read = (name) => figuresOf(readFileSync(join(folder, `${name}.csv`), 'utf8'));
  return { puzzles: read('puzzles'), embedded: read('embedded') };
}

/** The measured part of the page. */
export function measuredPart({ puzzles, embedded }) {
  const both = [puzzles, embedded];
  return [
    `${sizes('The second policy', puzzles)} ${sizes('The bundled policy', embedded)}`,
    'Monte Carlo of fewer completions, and of completions cut at a limit, by Pearson against 32 completions that it has not seen; and the share of completions that a limit of so many tokens loses:',
    fewerTable(both),
    'The share of the token-wise credit, Σ Δ_t², that a cut into at most so many segments keeps:',
    cutsTable(both),
    `Cut at lines, with weights inside: ${within(both)} (the part of it along the credit that tokens get).`,
  ].join('\n\n');
}

function sizes(title, get) {
  const n = (name) => whole(get(name).value);
  return `**${title}**: ${n('traces')} traces (${n('right')} right, ${n('wrong')} wrong), ${n('segments')} segments, ${n('completions')} completions at every exit, a calibration fitted to ${n('fitted_to')} traces of other groups; ceiling ${withInterval(get('ceiling'))}.`;
}

const code = (name) => `\`${name}\``;

const FEWER = ['mc 1', 'mc 4', 'mc 8', 'mc 20', 'mc 32', 'mc-truncated 64', 'mc-truncated 128'];
const percent = (x) => (x === undefined ? '' : `${(100 * x.value).toFixed(0)} %`);

function fewerTable(both) {
  return table(
    ['', 'second', 'bundled', 'lost, second', 'lost, bundled'],
    FEWER.map((name) => [
      code(name),
      ...both.map((get) => withInterval(get('half_pearson', name, 'all'))),
      ...both.map((get) =>
        percent(name.includes('trunc') ? get('lost', name.split(' ')[1], 'all') : undefined),
      ),
    ]),
  );
}

const CUTS = ['hybrid', 'fixed', 'entropy', 'fixed 1, merged', 'best cut'];

function cutsTable(both) {
  return table(
    ['', 'second, 10', 'second, 40', 'bundled, 10', 'bundled, 40'],
    CUTS.map((name) => [
      name === 'best cut' ? name : code(name),
      ...both.flatMap((get) => ['10', '40'].map((K) => two(get('kept', name, K)?.value))),
    ]),
  );
}

function within(both) {
  const shares = (name) =>
    both.map((get) => two(get('kept', `newline, within ${name}`)?.value)).join(' and ');
  return ['uniform', 'entropy', 'unsure'].map((name) => `${code(name)} keeps ${shares(name)}`).join(', ');
}

/** Puts the measured part into the page. */
export function writePage() {
  const page = readFileSync(PAGE, 'utf8');
  const [start, end] = MARKS.map((mark) => page.indexOf(mark));
  if (start < 0 || end < start) throw new Error(`${PAGE} lacks ${MARKS.join(' or ')}`);
  const text = measuredPart(storedFigures());
  writeFileSync(PAGE, `${page.slice(0, start + MARKS[0].length)}\n\n${text}\n\n${page.slice(end)}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writePage();
