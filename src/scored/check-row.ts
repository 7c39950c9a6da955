// Checks METHOD's invariants in a stored row, as any reader of the file can: what its columns promise, and what they say together.
import { isList } from '../io/arrow/output-columns.js';
import { plural } from '../plural.js';
import { UNREAD } from '../scored.js';
import { type DeclaredColumn, OUR_COLUMNS, ourColumn, TEXT_COLUMNS } from './columns.js';
import { statusFaults } from './status-codes.js';
import type { Cells } from './stored-rows.js';

type Fault = (text: string) => void;

/** METHOD §4: |Σσ − 1| ≤ 1e-6·max(1, Σ|σ|), float32 as stored, summed in float64 */
const SIGMA_TOLERANCE = 1e-6;

/**
 * Checks one row of a scored or segmented file; columns that the file lacks are not asked for.
 * @param row our columns
 * @param isScored whether rows were scored; undefined: where they have a σ
 */
export function checkRow(row: Cells, { isScored = 'sigma' in row }: { isScored?: boolean | undefined } = {}) {
  const faults: string[] = [];
  const fault: Fault = (text) => void faults.push(text);
  const { id, group = null, status } = row;
  const codes = typeof status === 'string' ? status.split(';') : undefined;
  const known = { faults, id: typeof id === 'string' ? id : '' };
  if (typeof status === 'string') faults.push(...statusFaults(status));
  if (group !== null && typeof group !== 'string') fault('has a group that is no text');
  // cut by length: token columns there are the input's own
  const isByLength =
    codes === undefined ? segmentsOf(row)[0]?.start === null : codes.includes('segments:by-length');
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
  if (isByLength) {
    checkSegments(row, null, fault);
    return known;
  }
  const tokens = checkLengths(row, fault);
  if (isList(row.sigma)) checkSigma(row.sigma, fault);
  checkTurns(row, fault);
  if (isScored && codes !== undefined) checkNulls(row, codes, fault);
  checkSegments(row, tokens ?? Number(segmentsOf(row).at(-1)?.end ?? 0), fault);
  checkReferences(row, fault);
  return known;
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
  const isBroken = (x: unknown) => {
    const isNumber = typeof x === 'bigint' || Number.isFinite(x);
    return !isNumber || Number(x) < low || Number(x) > high;
  };
  const check = (place: string, found: unknown): void => {
    if (!isList(found)) {
      const expected = range === undefined ? 'a finite number' : rangeText(low, high);
      if (isBroken(found) && !isZeroSet(row, name, found))
        fault(`${place} is ${found}, expected ${expected}`);
    } else if (isList(found[0])) {
      for (const [n, each] of Array.from(found).entries()) check(`${place}[${n}]`, each);
    } else {
      // of a list the first: one cause has many effects
      const at = Array.prototype.findIndex.call(found, isBroken);
      if (at >= 0) check(`${place}[${at}]`, found[at]);
    }
  };
  // segments are looked at one by one
  if (name !== 'segments') check(name, cell);
}

function rangeText(low: number, high: number): string {
  const most = Number(high.toPrecision(6));
  return low === Number.NEGATIVE_INFINITY ? `at most ${Math.round(most)}` : `${Math.round(low)} to ${most}`;
}

/** Lists with an entry for each token have as many. @returns how many; null where there is none */
function checkLengths(row: Cells, fault: Fault): number | null {
  let first: { readonly name: string; readonly length: number } | undefined;
  for (const name of OUR_COLUMNS) {
    const list = row[name];
    if (!ourColumn(name).isPerToken || !isList(list)) continue;
    first ??= { name, length: list.length };
    if (list.length !== first.length)
      fault(
        `${name} has ${plural(list.length, 'entry', 'entries')}, ${first.name} ${first.length}, expected as many`,
      );
  }
  return first?.length ?? null;
}

/** A scored row says why something is missing, and lacks nothing else. */
function checkNulls(row: Cells, codes: readonly string[], fault: Fault): void {
  const { status, reward } = row;
  const isOff = (reward === null) !== codes.includes('reward:unknown');
  if ('reward' in row && (isOff || (codes.includes('truncated') && reward !== 0)))
    fault(`reward is ${reward}, and status is ${status}`);
  for (const [k, { entropy, value = null, delta, sigma, kind }] of segmentsOf(row).entries()) {
    const never = codes.includes(UNREAD) ? { delta, sigma } : { entropy, delta, sigma };
    for (const [name, cell] of Object.entries(never))
      if (typeof cell !== 'number') fault(`segments[${k}].${name} is ${cell}`);
    if (kind !== 'thought' && value !== null)
      fault(`segments[${k}].value is ${value}, expected none behind the thought`);
    if (kind === 'thought' && value === null && !isZeroSet(row, 'value', null))
      fault(`segments[${k}].value is null`);
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
  for (const [k, { start, end, kind, ...numbers }] of segments.entries()) {
    const isShown = kind === 'shown';
    const among = (
      name: string,
      isWrong: (x: unknown) => boolean,
    ): readonly [number, unknown] | undefined => {
      const list = row[name];
      const own = isList(list) ? Array.prototype.slice.call(list, Number(start), Number(end)) : [];
      const at = own.findIndex(isWrong);
      return at < 0 ? undefined : [Number(start) + at, own[at]];
    };
    const bit = among('completion_mask', (x) => Number(x) !== (isShown ? 0 : 1));
    if (bit !== undefined)
      fault(
        `completion_mask[${bit[0]}] is ${bit[1]}, and segments[${k}] is ${isShown ? 'shown' : 'of the policy'}`,
      );
    if (!isShown) continue;
    for (const name of ['logprobs', 'entropies', 'sigma']) {
      const own = among(name, (x) => x !== 0);
      if (own !== undefined) fault(`${name}[${own[0]}] is ${own[1]}, expected 0 for what was shown`);
    }
    for (const name of ['entropy', 'delta', 'sigma'])
      if ((numbers[name] ?? 0) !== 0)
        fault(`segments[${k}].${name} is ${numbers[name]}, expected 0 for what was shown`);
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
    const isLast = segments.slice(k + 1).every((other) => other.kind === 'shown');
    if (kind !== 'thought' && kind !== 'shown' && !(kind === 'answer' && isLast))
      fault(`segments[${k}].kind is ${kind}, expected thoughts and at most one answer behind them`);
    if (tokens === null || charStart !== null || charTo !== null) {
      if (charStart !== charEnd || typeof charTo !== 'number' || charTo < charEnd)
        return fault(`segments[${k}] is characters ${charStart}–${charTo}, expected them from ${charEnd} on`);
      charEnd = charTo;
    }
    for (const name of ['entropy', 'value', 'delta', 'sigma']) {
      const value = segment[name] ?? null;
      if (value === null || Number.isFinite(value) || isZeroSet(row, name, value)) continue;
      fault(`segments[${k}].${name} is ${value}, expected a finite number`);
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
  return Array.isArray(segments) ? segments : [];
}

/** The one infinity there may be, which JSON has as null: the logarithm of a value to which no reference contributes. */
function isZeroSet({ reference_utilities: utilities }: Cells, name: string, value: unknown): boolean {
  if (name !== 'value' && name !== 'value_start') return false;
  if (value !== null && value !== Number.NEGATIVE_INFINITY) return false;
  return isList(utilities) && Array.from(utilities).every((utility) => utility === 0);
}
