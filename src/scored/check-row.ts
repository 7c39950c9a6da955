// Checks METHOD's invariants in a stored row, as any reader of the file can: what its columns promise, and what they say together.
import { SIGMA_RULES } from '../credit/rules.js';
import { isList } from '../io/arrow/output-columns.js';
import { plural } from '../plural.js';
import { UNREAD } from '../scored.js';
import { type Cells, type DeclaredColumn, OUR_COLUMNS, ourColumn, TEXT_COLUMNS } from './columns.js';

/** What the codes of a status begin with, and what may follow, as docs/output.md lists them. */
const CODES: Readonly<Record<string, readonly string[]>> = {
  baseline: ['turned'],
  ask: ['unanswered'],
  completion: ['end-token', 'has-prompt', 'messages-as-text'],
  hint: ['no-peer', 'no-contrast'],
  ids: ['not-utf8', 'text-mismatch'],
  mc: ['lost'],
  policy: ['none'],
  prompt: ['messages-as-text', 'raw-question', 'retemplated', 'stripped', 'text-mismatch'],
  references: ['no-solution', 'row'],
  reward: ['compared', 'disputed', 'unknown'],
  segments: ['by-length'],
  siblings: ['no-fit', 'no-peer'],
  text: ['normalized'],
  tokens: ['bytes'],
  thought: ['begin-of-thought', 'named', 'reasoning', 'reopened', 'thinking', 'thought'],
  uniform: [
    ...['flat-values', 'graded-reward', 'no-references', 'no-baseline', 'no-gain', 'no-weight', 'noise'],
    ...['one-sided-references', 'small-return'],
  ],
  value: ['asked', 'no-states', 'outcomes', 'thought', 'uncalibrated'],
};

/** A status is `ok`, or some of the others in sorted order, each once. */
export const STATUS_CODES: readonly string[] = [
  ...['ok', 'truncated'],
  ...Object.entries(CODES).flatMap(([what, why]) => why.map((each) => `${what}:${each}`)),
];

/** Whether a row may have a code, or, with `*` at the end, one that begins so; those of a further credit are `<rule>:<reason>`, of the first one `uniform:<reason>`. */
export function isStatus(code: string): boolean {
  const [rule = '', why] = code.split(':');
  const known = SIGMA_RULES.some((each) => each === rule) ? `uniform:${why}` : code;
  return STATUS_CODES.some((each) =>
    known.endsWith('*') ? each.startsWith(known.slice(0, -1)) : each === known,
  );
}

type Fault = (text: string) => void;

/** METHOD §4: |Σσ − 1| ≤ 1e-6·max(1, Σ|σ|), float32 as stored, summed in float64 */
const SIGMA_TOLERANCE = 1e-6;

/**
 * Checks one row of a scored or segmented file; columns that the file lacks are not asked for.
 * @param row our columns
 * @param isScored whether rows were scored; by default where they have a σ
 * @returns what is wrong
 */
export function checkRow(row: Cells, isScored = 'sigma' in row): string[] {
  const faults: string[] = [];
  const fault: Fault = (text) => void faults.push(text);
  const { group = null, status } = row;
  const codes = typeof status === 'string' ? status.split(';') : undefined;
  if (codes !== undefined) checkStatus(codes, fault);
  if (group !== null && typeof group !== 'string') fault('has a group that is no text');
  // cut by length: token columns there are the input's own
  const isByLength = codes?.includes('segments:by-length') ?? segmentsOf(row)[0]?.start === null;
  const isRead = !codes?.includes(UNREAD);
  const asked = { always: true, scored: isScored && !isByLength, read: isRead && !isByLength };
  for (const name of OUR_COLUMNS) {
    const column = ourColumn(name);
    if (!(name in row) || (isByLength && column.type.kind === 'list')) continue;
    const cell = row[name] ?? null;
    if (cell !== null) checkNumbers(column, cell, row, fault);
    else if (column.isThere && asked[column.isThere] && !isZeroSet(row, name, null)) fault(`${name} is null`);
    if (cell !== null && column.isThere === 'read' && column.isPerToken && !isRead)
      fault(`${name} is there, and status is ${status}`);
  }
  checkSegmentNumbers(row, isScored && !isByLength ? codes : undefined, fault);
  if (isByLength) {
    checkSegments(row, null, fault);
    return faults;
  }
  const tokens = checkLengths(row, fault);
  if (isList(row.sigma)) checkSigma(row.sigma, fault);
  checkTurns(row, fault);
  if (isScored && codes !== undefined) checkNulls(row, codes, fault);
  checkSegments(row, tokens ?? Number(segmentsOf(row).at(-1)?.end ?? 0), fault);
  checkReferences(row, fault);
  return faults;
}

function checkStatus(codes: readonly string[], fault: Fault): void {
  const unknown = codes.find((code) => code.endsWith('*') || !isStatus(code));
  const isSorted = codes.every((code, n) => n === 0 || (codes[n - 1] as string) < code);
  if (unknown !== undefined) fault(`status is ${codes.join(';')}: ${unknown} is no code`);
  else if (!isSorted || (codes.length > 1 && codes.includes('ok')))
    fault(`status is ${codes.join(';')}, expected ok or other codes in sorted order`);
}

/** Numbers at any depth are finite, and lie where the column says. */
function checkNumbers({ name, type, range }: DeclaredColumn, cell: unknown, row: Cells, fault: Fault): void {
  if (type.kind === 'string') {
    // messages of the input stand where a text of ours would
    const isMessages = isList(cell) && TEXT_COLUMNS.some((each) => each === name);
    if (typeof cell !== 'string' && !isMessages) fault(`${name} is no text`);
    return;
  }
  const [low, high] = range ?? [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
  const expected = range === undefined ? 'a finite number' : `${low} to ${Number(high.toPrecision(6))}`;
  const isBroken = (x: unknown) => {
    const isNumber = typeof x === 'bigint' || Number.isFinite(x);
    return !isNumber || Number(x) < low || Number(x) > high;
  };
  const check = (place: string, found: unknown): void => {
    if (isList(found)) {
      const isNested = isList(found[0]);
      // of a list the first: one cause has many effects
      const at = Array.prototype.findIndex.call(found, isBroken);
      if (isNested) for (const [n, each] of Array.from(found).entries()) check(`${place}[${n}]`, each);
      else if (at >= 0) check(`${place}[${at}]`, found[at]);
    } else if (isBroken(found) && !isZeroSet(row, name, found))
      fault(`${place} is ${found}, expected ${expected}`);
  };
  // segments are looked at one by one
  if (name !== 'segments') check(name, cell);
}

/** Lists with an entry for each token have as many. @returns how many; null where there is none */
function checkLengths(row: Cells, fault: Fault): number | null {
  const lists = OUR_COLUMNS.flatMap((name) => {
    const list = row[name];
    return ourColumn(name).isPerToken && isList(list) ? [{ name, length: list.length }] : [];
  });
  const [first] = lists;
  if (first === undefined) return null;
  for (const { name, length } of lists)
    if (length !== first.length)
      fault(`${name} has ${plural(length, 'entry', 'entries')}, ${first.name} ${first.length}`);
  return first.length;
}

/** A scored row says why something is missing, and lacks nothing else. */
function checkNulls(row: Cells, codes: readonly string[], fault: Fault): void {
  const { status, reward } = row;
  const isOff = (reward === null) !== codes.includes('reward:unknown');
  if ('reward' in row && (isOff || (codes.includes('truncated') && reward !== 0)))
    fault(`reward is ${reward}, and status is ${status}`);
}

/** Numbers of segments are finite; in a scored row none is missing that it can have. @param codes of a scored row */
function checkSegmentNumbers(row: Cells, codes: readonly string[] | undefined, fault: Fault): void {
  for (const [k, segment] of segmentsOf(row).entries())
    for (const name of ['entropy', 'value', 'delta', 'noise', 'sigma']) {
      const cell = segment[name] ?? null;
      const mayLack = name === 'noise' || (name === 'entropy' && codes?.includes(UNREAD));
      const isThere = name === 'value' ? segment.kind === 'thought' : !mayLack;
      if (name === 'value' && !isThere && codes !== undefined && cell !== null)
        fault(`segments[${k}].value is ${cell}, expected none behind the thought`);
      else if (
        (cell !== null || (isThere && codes !== undefined)) &&
        !(Number.isFinite(cell) && (name !== 'noise' || Number(cell) >= 0)) &&
        !isZeroSet(row, name, cell)
      )
        fault(
          `segments[${k}].${name} is ${cell}, expected a finite number${name === 'noise' ? ' from 0 on' : ''}`,
        );
    }
}

function checkSigma(sigma: ArrayLike<unknown>, fault: Fault): void {
  const [sum, size] = sumOf(sigma, 0, sigma.length);
  const bound = SIGMA_TOLERANCE * Math.max(1, size);
  // a NaN is no sum either, but has been told already
  if (Math.abs(sum - 1) > bound) fault(`Σσ is ${sum}, expected 1 ± ${bound.toPrecision(2)}`);
}

/** Where the segments say that the policy was shown something, the mask says it too, and nothing is the policy's: all numbers are 0. */
function checkTurns(row: Cells, fault: Fault): void {
  const segments = segmentsOf(row);
  for (const [k, segment] of segments.entries()) {
    const isShown = segment.kind === 'shown';
    const expect = (name: string, expected: number) => {
      const list = isList(row[name]) ? row[name] : [];
      for (let t = Number(segment.start); t < Number(segment.end) && t < list.length; t++)
        if (Number(list[t]) !== expected)
          return fault(
            `${name}[${t}] is ${list[t]}, expected ${expected}: segments[${k}] is ${segment.kind}`,
          );
    };
    expect('completion_mask', isShown ? 0 : 1);
    if (!isShown) continue;
    for (const name of ['logprobs', 'entropies', 'sigma']) expect(name, 0);
    for (const name of ['entropy', 'delta', 'sigma'])
      if ((segment[name] ?? 0) !== 0)
        fault(`segments[${k}].${name} is ${segment[name]}, expected 0 for what was shown`);
  }
  if (segments.length > 0 && segments.every(({ kind }) => kind === 'shown'))
    fault('nothing of it is what the policy wrote');
}

/** Sum and sum of magnitudes of the entries from..to (exclusive). */
function sumOf(list: ArrayLike<unknown>, from: number, to: number): [sum: number, size: number] {
  let [sum, size] = [0, 0];
  for (let t = from; t < to; t++) {
    sum += list[t] as number;
    size += Math.abs(list[t] as number);
  }
  return [sum, size];
}

/**
 * Segments tile 0..T, and the characters; each one's σ is the sum over its tokens.
 * @param tokens T; null where there are none but characters
 */
function checkSegments(row: Cells, tokens: number | null, fault: Fault) {
  if (!('segments' in row)) return;
  const segments = segmentsOf(row);
  if (segments.length === 0) return fault('has no segments');
  const sigma = tokens !== null && isList(row.sigma) ? row.sigma : undefined;
  const lastOwn = segments.findLastIndex(({ kind }) => kind !== 'shown');
  let [end, charEnd] = [0, 0];
  for (const [k, segment] of segments.entries()) {
    const { start, end: to, char_start: charStart, char_end: charTo, sigma: share, kind } = segment;
    if (tokens !== null) {
      if (start !== end || typeof to !== 'number' || to <= end)
        return fault(`segments[${k}] is tokens ${start}–${to}, expected them from ${end} on`);
      if (sigma !== undefined && to <= sigma.length) {
        const [sum, size] = sumOf(sigma, end, to);
        if (typeof share !== 'number' || Math.abs(sum - share) > SIGMA_TOLERANCE * Math.max(1, size))
          fault(`segments[${k}].sigma is ${share}, which is not the sum of σ over its tokens`);
      }
      end = to;
    }
    if (kind !== 'thought' && kind !== 'shown' && !(kind === 'answer' && k === lastOwn))
      fault(`segments[${k}].kind is ${kind}, expected thoughts and at most one answer behind them`);
    if (tokens === null || charStart !== null || charTo !== null) {
      if (charStart !== charEnd || typeof charTo !== 'number' || charTo < charEnd)
        return fault(`segments[${k}] is characters ${charStart}–${charTo}, expected them from ${charEnd} on`);
      charEnd = charTo;
    }
  }
  if (tokens !== null && end !== tokens) fault(`segments end at token ${end}, expected ${tokens}`);
}

/** K+1 exits by N references. */
function checkReferences(row: Cells, fault: Fault): void {
  const { reference_utilities: utilities, reference_tokens: counts, reference_logprobs: exits } = row;
  const N = isList(utilities) ? utilities.length : undefined;
  if (isList(counts) && N !== undefined && counts.length !== N)
    fault(`reference_tokens has ${counts.length} entries, reference_utilities ${N}, expected as many`);
  if (!Array.isArray(exits)) return;
  const expected = segmentsOf(row).filter(({ kind }) => kind === 'thought').length + 1;
  if ('segments' in row && exits.length !== expected)
    fault(
      `reference_logprobs has ${exits.length} exits, expected ${expected}: one before and one after each thought segment`,
    );
  for (const [k, exit] of exits.entries())
    if (N !== undefined && !(isList(exit) && exit.length === N))
      fault(`reference_logprobs[${k}] has not ${plural(N, 'entry', 'entries')}, as reference_utilities`);
}

function segmentsOf({ segments }: Cells): readonly Cells[] {
  return Array.isArray(segments) ? segments.map((segment) => segment ?? {}) : [];
}

/** The one infinity there may be, which JSON has as null: the logarithm of a value to which no reference contributes. */
function isZeroSet({ reference_utilities: utilities }: Cells, name: string, value: unknown): boolean {
  if (name !== 'value' && name !== 'value_start') return false;
  if (value !== null && value !== Number.NEGATIVE_INFINITY) return false;
  return isList(utilities) && Array.from(utilities).every((utility) => utility === 0);
}
