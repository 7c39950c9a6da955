// The codes that a row's `status` may hold, as docs/output.md lists them.

/** A status is `ok`, or some of the others in sorted order, each once. */
export const STATUS_CODES: readonly string[] = [
  'ok',
  'ask:unanswered',
  'references:no-solution',
  'references:row',
  'completion:has-prompt',
  'hint:no-peer',
  'ids:not-utf8',
  'ids:text-mismatch',
  'mc:lost',
  'policy:none',
  'prompt:messages-as-text',
  'prompt:raw-question',
  'prompt:retemplated',
  'prompt:stripped',
  'prompt:text-mismatch',
  'reward:compared',
  'reward:unknown',
  'segments:by-length',
  'siblings:no-fit',
  'siblings:no-peer',
  'text:normalized',
  'thought:begin-of-thought',
  'thought:named',
  'thought:reasoning',
  'thought:reopened',
  'thought:thinking',
  'thought:thought',
  'truncated',
  'uniform:flat-values',
  'uniform:graded-reward',
  'uniform:no-references',
  'uniform:no-baseline',
  'uniform:no-gain',
  'uniform:no-weight',
  'uniform:one-sided-references',
  'uniform:small-return',
  'value:asked',
  'value:outcomes',
  'value:thought',
  'value:uncalibrated',
];

/** A code of a further credit, `<rule>:<reason>`, as that of the first one, `uniform:<reason>`. */
function asFirst(code: string): string {
  return code.replace(/^[a-z-]+:/, 'uniform:');
}

/** Whether a row may have a code, or, with `*` at the end, one that begins so. @param rules of further credits */
export function mayBeStatus(code: string, rules: readonly string[]): boolean {
  const [rule = ''] = code.split(':', 1);
  const known = rules.includes(rule) ? asFirst(code) : code;
  if (!known.endsWith('*')) return STATUS_CODES.includes(known);
  return STATUS_CODES.some((each) => each.startsWith(known.slice(0, -1)));
}

/** What is wrong with a status. */
export function statusFaults(status: string): string[] {
  const codes = status.split(';');
  const unknown = codes.find((code) => !STATUS_CODES.includes(code) && !STATUS_CODES.includes(asFirst(code)));
  if (unknown !== undefined) return [`status is ${status}: ${unknown} is no code`];
  const isSorted = codes.every((code, n) => n === 0 || (codes[n - 1] as string) < code);
  if (isSorted && (codes.length === 1 || !codes.includes('ok'))) return [];
  return [`status is ${status}, expected ok or other codes in sorted order`];
}
