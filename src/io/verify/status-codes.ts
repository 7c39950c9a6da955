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

/** The code of a further credit, `<rule>:<reason>`, as that of the first one. */
function asFirst(code: string): string {
  return code.replace(/^(?:share|rudder|signed|softmax|abs|surprise|entropy|top-entropy):/, 'uniform:');
}

/** What is wrong with a status; undefined where nothing is. */
export function statusFault(status: string): string | undefined {
  const codes = status.split(';');
  const unknown = codes.find((code) => !STATUS_CODES.includes(asFirst(code)));
  if (unknown !== undefined) return `status is ${status}: ${unknown} is no code`;
  const isSorted = codes.every((code, n) => n === 0 || (codes[n - 1] as string) < code);
  if (!isSorted || (codes.length > 1 && codes.includes('ok')))
    return `status is ${status}, expected ok or other codes in sorted order`;
  return undefined;
}
