// Checks METHOD's invariants in a stored row, as any reader of the file can.

import { plural } from '../../plural.js';
import { UNREAD } from '../../scored.js';
import { checkRanges, type Numbers, numbers } from './check-ranges.js';
import { statusFault } from './status-codes.js';
import type { StoredRow } from './stored-rows.js';

/** What a row says about itself that its file must bear out too. */
export interface CheckedRow {
  readonly faults: readonly string[];
  /** completion tokens; null where no column tells */
  readonly tokens: number | null;
  readonly sourceRow: number | null;
  readonly id: string;
}

/** METHOD §4: |Σσ − 1| ≤ 1e-6·max(1, Σ|σ|), float32 as stored, summed in float64 */
const SIGMA_TOLERANCE = 1e-6;
/** lists with one entry a completion token; `--columns` may leave out any of them */
const TOKEN_LISTS = ['completion_ids', 'logprobs', 'entropies', 'sigma'] as const;
const SCALARS = ['value_start', 'reward', 'baseline', 'sigma_ess', 'sigma_max_weight', 'sigma_gain'] as const;
const SEGMENT_SCALARS = ['entropy', 'value', 'delta', 'sigma'] as const;

/** What of a run its rows are held against. */
export interface RowRules {
  /** whether the rows were scored; undefined: where they have a σ */
  readonly isScored?: boolean | undefined;
  /** the policy's vocabulary */
  readonly vocab?: number | undefined;
}

/** Columns that no scored row lacks. */
const NEVER_NULL = [
  'sigma',
  'value_start',
  'reference_logprobs',
  'reference_utilities',
  'reference_tokens',
  'sigma_ess',
  'sigma_max_weight',
] as const;
/** And none that a policy has read, nor has one that none has read them. */
const OF_A_PASS = ['logprobs', 'entropies'] as const;

/** Checks one row of a scored or segmented file; columns that the file lacks are not asked for. */
export function checkRow(row: StoredRow, rules: RowRules = {}): CheckedRow {
  const faults: string[] = [];
  const fault = (text: string): void => void faults.push(text);
  const id = row.cell('id');
  if (row.has('id') && typeof id !== 'string') fault('has no id');
  const source = row.cell('source_row');
  const sourceRow = typeof source === 'bigint' || typeof source === 'number' ? Number(source) : null;
  if (row.has('source_row') && sourceRow === null) fault('has no source_row');
  if (row.has('source_file') && typeof row.cell('source_file') !== 'string') fault('has no source_file');
  const status = row.cell('status');
  if (row.has('status') && (typeof status !== 'string' || status === '')) fault('has no status');
  else if (typeof status === 'string') {
    const text = statusFault(status);
    if (text !== undefined) fault(text);
  }
  if (row.has('group') && row.cell('group') !== null && typeof row.cell('group') !== 'string')
    fault('has a group that is no text');
  const known = { faults, sourceRow, id: typeof id === 'string' ? id : '' };

  // cut by length: token columns there are the input's own
  if (typeof status === 'string' ? status.split(';').includes('segments:by-length') : !hasTokens(row)) {
    checkSegments(row, null, null, fault);
    return { ...known, tokens: 0 };
  }
  const lists = TOKEN_LISTS.flatMap((name) => {
    const list = numbers(row.cell(name));
    return list === null ? [] : [{ name, list }];
  });
  const [first] = lists;
  const tokens = first?.list.length ?? null;
  for (const { name, list } of lists) {
    if (list.length !== tokens)
      fault(
        `${name} has ${plural(list.length, 'entry', 'entries')}, ${first?.name} ${tokens}, expected as many`,
      );
    const at = firstBroken(list);
    if (at >= 0) fault(`${name}[${at}] is ${list[at]}, expected a finite number`);
  }
  for (const name of SCALARS) {
    const value = row.cell(name);
    if (value === null || Number.isFinite(Number(value)) || isZeroBank(row, name, value)) continue;
    fault(`${name} is ${value}, expected a finite number`);
  }
  const isScored = rules.isScored ?? row.has('sigma');
  const isUnread = hasStatus(row, UNREAD);
  if (isUnread)
    for (const name of OF_A_PASS)
      if (row.cell(name) !== null) fault(`${name} is there, and status is ${status}`);
  const ofPass = isUnread ? [] : [...OF_A_PASS, 'prompt_ids'];
  for (const name of ['completion_ids', ...ofPass, ...(isScored ? NEVER_NULL : [])])
    if (row.has(name) && row.cell(name) === null && !isZeroBank(row, name, Number.NEGATIVE_INFINITY))
      fault(`${name} is null`);
  checkRanges(row, rules.vocab, fault);
  const sigma = numbers(row.cell('sigma'));
  if (sigma !== null) checkSigma(sigma, fault);
  if (isScored) checkNulls(row, fault);
  checkSegments(row, tokens ?? lastEnd(row), sigma, fault);
  checkReferences(row, fault);
  return { ...known, tokens };
}

/** A scored row says why something is missing, and lacks nothing else. */
function checkNulls(row: StoredRow, fault: (text: string) => void): void {
  const status = row.cell('status');
  if (typeof status !== 'string') return;
  const codes = status.split(';');
  if (row.has('reward') && (row.cell('reward') === null) !== codes.includes('reward:unknown'))
    fault(`reward is ${row.cell('reward')}, and status is ${status}`);
  if (codes.includes('truncated') && row.has('reward') && row.cell('reward') !== 0)
    fault(`reward is ${row.cell('reward')}, and status is ${status}`);
  for (const [k, { entropy, value, delta, sigma, kind }] of segmentsOf(row).entries()) {
    const never = codes.includes(UNREAD) ? { delta, sigma } : { entropy, delta, sigma };
    for (const [name, cell] of Object.entries(never))
      if (typeof cell !== 'number') fault(`segments[${k}].${name} is ${cell}`);
    const isNone = value === null || value === undefined;
    if (kind === 'answer' && !isNone)
      fault(`segments[${k}].value is ${value}, expected none after the answer`);
    if (kind === 'thought' && isNone && !isZeroBank(row, 'value', Number.NEGATIVE_INFINITY))
      fault(`segments[${k}].value is null`);
  }
}

function checkSigma(sigma: Numbers, fault: (text: string) => void): void {
  let sum = 0;
  let size = 0;
  for (let t = 0; t < sigma.length; t++) {
    sum += sigma[t] as number;
    size += Math.abs(sigma[t] as number);
  }
  const bound = SIGMA_TOLERANCE * Math.max(1, size);
  // a NaN is no sum either, but has been told already
  if (Math.abs(sum - 1) > bound) fault(`Σσ is ${sum}, expected 1 ± ${bound.toPrecision(2)}`);
}

/**
 * Segments tile 0..T, and the characters; each one's σ is the sum over its tokens.
 * @param tokens T; null where there are none but characters
 */
function checkSegments(
  row: StoredRow,
  tokens: number | null,
  sigma: Numbers | null,
  fault: (text: string) => void,
): void {
  if (!row.has('segments')) return;
  const segments = row.cell('segments');
  if (!Array.isArray(segments) || segments.length === 0) {
    fault('has no segments');
    return;
  }
  let end = 0;
  let charEnd = 0;
  for (const [k, segment] of (segments as Record<string, unknown>[]).entries()) {
    const { start, end: to, char_start: charStart, char_end: charTo, sigma: share } = segment;
    if (tokens !== null) {
      if (start !== end || typeof to !== 'number' || to <= end) {
        fault(`segments[${k}] is tokens ${start}–${to}, expected them from ${end} on`);
        return;
      }
      if (sigma !== null && to <= sigma.length && !isSum(share, sigma, end, to))
        fault(`segments[${k}].sigma is ${share}, which is not the sum of σ over its tokens`);
      end = to;
    }
    const isLast = k === segments.length - 1;
    if (segment.kind !== 'thought' && !(segment.kind === 'answer' && isLast))
      fault(`segments[${k}].kind is ${segment.kind}, expected thoughts and at most one answer behind them`);
    const isUnspelled = tokens !== null && charStart === null && charTo === null;
    if (!isUnspelled) {
      if (charStart !== charEnd || typeof charTo !== 'number' || charTo < charEnd) {
        fault(`segments[${k}] is characters ${charStart}–${charTo}, expected them from ${charEnd} on`);
        return;
      }
      charEnd = charTo;
    }
    for (const name of SEGMENT_SCALARS) {
      const value = segment[name] ?? null;
      if (value === null || Number.isFinite(value) || isZeroBank(row, name, value)) continue;
      fault(`segments[${k}].${name} is ${value}, expected a finite number`);
    }
  }
  if (tokens !== null && end !== tokens) fault(`segments end at token ${end}, expected ${tokens}`);
  const nulls = (segments as Record<string, unknown>[]).filter(({ char_end: at }) => at === null).length;
  if (nulls > 0 && nulls < segments.length && !hasStatus(row, 'text:normalized'))
    fault('some of its segments have characters, some have none');
}

function isSum(share: unknown, sigma: Numbers, from: number, to: number): boolean {
  if (typeof share !== 'number') return false;
  let sum = 0;
  let size = 0;
  for (let t = from; t < to; t++) {
    sum += sigma[t] as number;
    size += Math.abs(sigma[t] as number);
  }
  return !(Math.abs(sum - share) > SIGMA_TOLERANCE * Math.max(1, size));
}

/** K+1 exits by N references. */
function checkReferences(row: StoredRow, fault: (text: string) => void): void {
  const exits = row.cell('reference_logprobs');
  const utilities = numbers(row.cell('reference_utilities'));
  const counts = numbers(row.cell('reference_tokens'));
  if (counts !== null && utilities !== null && counts.length !== utilities.length)
    fault(
      `reference_tokens has ${plural(counts.length, 'entry', 'entries')}, reference_utilities ${utilities.length}, expected as many`,
    );
  if (!Array.isArray(exits)) return;
  if (row.has('segments')) checkExits(row, exits.length, fault);
  for (const [k, exit] of exits.entries()) {
    const list = numbers(exit);
    if (row.has('reference_utilities') && list?.length !== utilities?.length)
      fault(
        `reference_logprobs[${k}] has ${list === null ? 'no entries' : plural(list.length, 'entry', 'entries')}, reference_utilities ${utilities?.length ?? 'none'}, expected as many`,
      );
    const at = list === null ? -1 : firstBroken(list);
    if (at >= 0) fault(`reference_logprobs[${k}][${at}] is ${list?.[at]}, expected a finite number`);
  }
}

function checkExits(row: StoredRow, exits: number, fault: (text: string) => void): void {
  const thoughts = segmentsOf(row).filter(({ kind }) => kind === 'thought').length;
  if (exits !== thoughts + 1)
    fault(
      `reference_logprobs has ${exits} exits, expected ${thoughts + 1}: one before and one after each thought segment`,
    );
}

function hasStatus(row: StoredRow, code: string): boolean {
  const status = row.cell('status');
  return typeof status === 'string' && status.split(';').includes(code);
}

function segmentsOf(row: StoredRow): Record<string, unknown>[] {
  const segments = row.cell('segments');
  return Array.isArray(segments) ? segments : [];
}

/** Whether segments are counted in tokens; so they are where there is no telling. */
function hasTokens(row: StoredRow): boolean {
  return typeof (segmentsOf(row)[0]?.start ?? 0) === 'number' && segmentsOf(row)[0]?.start !== null;
}

/** T where nothing but the segments tells it. */
function lastEnd(row: StoredRow): number {
  return Number(segmentsOf(row).at(-1)?.end ?? 0);
}

/** The one infinity there may be: the logarithm of a value to which no reference contributes. */
function isZeroBank(row: StoredRow, name: string, value: unknown): boolean {
  if (value !== Number.NEGATIVE_INFINITY || (name !== 'value' && name !== 'value_start')) return false;
  const utilities = numbers(row.cell('reference_utilities'));
  return utilities !== null && Array.from(utilities).every((utility) => utility === 0);
}

/** Where the first entry is that is no finite number; −1 where all are. Ids of an input may be 64 bits wide. */
function firstBroken(list: ArrayLike<unknown>): number {
  for (let i = 0; i < list.length; i++)
    if (!Number.isFinite(list[i]) && typeof list[i] !== 'bigint') return i;
  return -1;
}
