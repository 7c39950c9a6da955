// The codes that a row's `status` may hold, as docs/output.md lists them.

/** A status is `ok`, or some of the others in sorted order, each once. */
export const STATUS_CODES: readonly string[] = [
  'ok',
  'bank:no-solution',
  'bank:row',
  'ids:not-utf8',
  'ids:text-mismatch',
  'mc:lost',
  'prompt:messages-as-text',
  'prompt:retemplated',
  'prompt:stripped',
  'prompt:text-mismatch',
  'reward:compared',
  'reward:unknown',
  'segments:by-length',
  'siblings:no-fit',
  'siblings:no-mate',
  'text:normalized',
  'truncated',
  'uniform:flat-values',
  'uniform:graded-reward',
  'uniform:no-bank',
  'uniform:no-baseline',
  'uniform:no-gain',
  'uniform:no-weight',
  'uniform:one-sided-bank',
  'uniform:small-return',
  'value:uncalibrated',
];

/** Rules whose credit may be a further one, with codes of its own. */
const RULES = ['share', 'rudder', 'signed', 'softmax', 'abs', 'surprise', 'entropy', 'top-entropy'];

/** All codes: those above, and those of a further credit, `<rule>:<reason>`. */
const ALL_CODES: readonly string[] = [
  ...STATUS_CODES,
  ...RULES.flatMap((rule) =>
    STATUS_CODES.filter((code) => code.startsWith('uniform:')).map((code) => code.replace('uniform', rule)),
  ),
];

/** Whether a row may have a code, or, with `*` at the end, one that begins so. */
export function mayBeStatus(code: string): boolean {
  return code.endsWith('*')
    ? ALL_CODES.some((known) => known.startsWith(code.slice(0, -1)))
    : ALL_CODES.includes(code);
}

/** What is wrong with a status; undefined where nothing is. */
export function statusFault(status: string): string | undefined {
  const codes = status.split(';');
  const unknown = codes.find((code) => !ALL_CODES.includes(code));
  if (unknown !== undefined) return `status is ${status}: ${unknown} is no code`;
  const isSorted = codes.every((code, n) => n === 0 || (codes[n - 1] as string) < code);
  if (!isSorted || (codes.length > 1 && codes.includes('ok')))
    return `status is ${status}, expected ok or other codes in sorted order`;
  return undefined;
}
