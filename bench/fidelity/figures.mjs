// A comparison as `rredcot compare --json` tells it in, single figures of it and their spelling out.

/** The names that mean something here: the file's own differences and sums of the first method are told under its name. */
const isOwn = (name) => ['delta', 'sigma', 'sigma_share'].includes(name) || /:(delta|sigma)$/.test(name);
/** Monte Carlo of less than all completions, which is told apart. */
const isSampled = (name) => name.startsWith('mc_');

const credits = ({ figures }, of) => [
  ...new Set(figures.filter((f) => f.of === of).map(({ credit }) => credit)),
];

/** The credits that are held against Monte Carlo and come from no sample. */
export function methodsOf(comparison) {
  return credits(comparison, 'mc').filter((name) => !isOwn(name) && !isSampled(name));
}

/** The credits of fewer completions, or of shorter ones. */
export function sampledOf(comparison) {
  return credits(comparison, 'mc').filter(isSampled);
}

export const finder =
  ({ figures }, of = 'mc') =>
  (measure, credit, traces = 'all', last = 1) =>
    figures.find(
      (f) =>
        f.of === of && f.measure === measure && f.credit === credit && f.traces === traces && f.last === last,
    );

/** .42, −.03, 1.20; nothing of what is not known. */
export const two = (x) =>
  typeof x === 'number' && Number.isFinite(x)
    ? x
        .toFixed(2)
        .replace(/^-/, '−')
        .replace(/^(−?)0\./, '$1.')
    : '';
export const withInterval = ({ value, low, high } = {}) =>
  two(value) === '' || two(low) === '' ? two(value) : `${two(value)} [${two(low)}, ${two(high)}]`;
export const whole = (x) => Math.round(x).toLocaleString('en');

export function table(head, rows) {
  return [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');
}
