// Checks METHOD's invariants in a stored row, as any reader of the file can: its structure, and numbers that cannot be.
import { plural } from '../plural.js';
import { UNREAD } from '../scored.js';
import { statusFaults } from './status-codes.js';
import { type Cells, isList } from './stored-rows.js';

/** What of a run its rows are held against. */
export interface RowRules {
  /** whether the rows were scored; undefined: where they have a σ */
  readonly isScored?: boolean | undefined;
  /** the policy's vocabulary */
  readonly vocab?: number | undefined;
}

type Fault = (text: string) => void;

/** METHOD §4: |Σσ − 1| ≤ 1e-6·max(1, Σ|σ|), float32 as stored, summed in float64 */
const SIGMA_TOLERANCE = 1e-6;
/** log p and entropies come from sums of some thousand floats */
const LOGIT_TOLERANCE = 1e-4;
/** ids of 32 bits, where the policy's vocabulary is not known */
const MOST_TOKENS = 2 ** 31;
/** lists with one entry a completion token; `--columns` may leave out any of them */
const TOKEN_LISTS = ['completion_ids', 'completion_mask', 'logprobs', 'entropies', 'sigma'] as const;
const SCALARS = ['value_start', 'reward', 'baseline', 'sigma_ess', 'sigma_max_weight', 'sigma_gain'] as const;
const SEGMENT_SCALARS = ['entropy', 'value', 'delta', 'sigma'] as const;
/** Columns that no scored row lacks. */
const NEVER_NULL = [
  ...['sigma', 'value_start', 'reference_logprobs', 'reference_utilities', 'reference_tokens'],
  ...['sigma_ess', 'sigma_max_weight'],
];
/** And none that a policy has read, nor has one that none has read them. */
const OF_A_PASS = ['logprobs', 'entropies'];

/**
 * Checks one row of a scored or segmented file; columns that the file lacks are not asked for.
 * @param row our columns
 * @returns its faults, and what it says about itself that its file must bear out too; `tokens` of its completion are null where no column
 * tells
 */
export function checkRow(row: Cells, { isScored = 'sigma' in row, vocab }: RowRules = {}) {
  const faults: string[] = [];
  const fault: Fault = (text) => void faults.push(text);
  const { id, source_row: source, status, group = null } = row;
  if ('id' in row && typeof id !== 'string') fault('has no id');
  const sourceRow = typeof source === 'bigint' || typeof source === 'number' ? Number(source) : null;
  if ('source_row' in row && sourceRow === null) fault('has no source_row');
  if ('source_file' in row && typeof row.source_file !== 'string') fault('has no source_file');
  if ('status' in row && (typeof status !== 'string' || status === '')) fault('has no status');
  else if (typeof status === 'string') faults.push(...statusFaults(status));
  if (group !== null && typeof group !== 'string') fault('has a group that is no text');
  const known = { faults, sourceRow, id: typeof id === 'string' ? id : '' };

  // cut by length: token columns there are the input's own
  if (typeof status === 'string' ? hasStatus(row, 'segments:by-length') : !hasTokens(row)) {
    checkSegments(row, null, fault);
    return { ...known, tokens: 0 };
  }
  const tokens = checkTokens(row, fault);
  for (const name of SCALARS) {
    const value = row[name] ?? null;
    if (value === null || Number.isFinite(Number(value)) || isZeroBank(row, name, value)) continue;
    fault(`${name} is ${value}, expected a finite number`);
  }
  const isUnread = hasStatus(row, UNREAD);
  if (isUnread)
    for (const name of OF_A_PASS)
      if ((row[name] ?? null) !== null) fault(`${name} is there, and status is ${status}`);
  const ofPass = isUnread ? [] : [...OF_A_PASS, 'prompt_ids'];
  for (const name of ['completion_ids', ...ofPass, ...(isScored ? NEVER_NULL : [])])
    if (name in row && row[name] === null && !isZeroBank(row, name, Number.NEGATIVE_INFINITY))
      fault(`${name} is null`);
  checkRanges(row, vocab, fault);
  if (isList(row.sigma)) checkSigma(row.sigma, fault);
  checkTurns(row, fault);
  if (isScored) checkNulls(row, fault);
  checkSegments(row, tokens ?? lastEnd(row), fault);
  checkReferences(row, fault);
  return { ...known, tokens };
}

/** Lists with an entry for each token have as many, all of them finite. @returns how many; null where there is none */
function checkTokens(row: Cells, fault: Fault): number | null {
  let first: { readonly name: string; readonly length: number } | undefined;
  for (const name of TOKEN_LISTS) {
    const list = row[name];
    if (!isList(list)) continue;
    first ??= { name, length: list.length };
    if (list.length !== first.length)
      fault(
        `${name} has ${plural(list.length, 'entry', 'entries')}, ${first.name} ${first.length}, expected as many`,
      );
    const at = firstBroken(list);
    if (at >= 0) fault(`${name}[${at}] is ${list[at]}, expected a finite number`);
  }
  return first?.length ?? null;
}

/** Numbers that no policy and no reward can give. */
function checkRanges(row: Cells, vocab: number | undefined, fault: Fault): void {
  const most = Math.log(vocab ?? MOST_TOKENS) + LOGIT_TOLERANCE;
  const ids = (vocab ?? MOST_TOKENS) - 1;
  const ranges = [
    ['prompt_ids', 0, ids],
    ['completion_ids', 0, ids],
    ['logprobs', Number.NEGATIVE_INFINITY, LOGIT_TOLERANCE],
    ['entropies', -LOGIT_TOLERANCE, most],
    ['reference_utilities', 0, 1],
    ['reference_tokens', 1, MOST_TOKENS - 1],
  ] as const;
  for (const [name, low, high] of ranges) {
    const list = row[name];
    const at = isList(list) ? firstOutside(list, low, high) : -1;
    if (at >= 0)
      fault(`${name}[${at}] is ${(list as ArrayLike<unknown>)[at]}, expected ${rangeText(low, high)}`);
  }
  for (const [k, exit] of exitsOf(row).entries()) {
    const at = isList(exit) ? firstOutside(exit, Number.NEGATIVE_INFINITY, LOGIT_TOLERANCE) : -1;
    if (at >= 0) fault(`reference_logprobs[${k}][${at}] is above 0`);
  }
  const { reward } = row;
  if (typeof reward === 'number' && !(reward >= 0 && reward <= 1))
    fault(`reward is ${reward}, expected 0 to 1`);
}

function rangeText(low: number, high: number): string {
  return low === Number.NEGATIVE_INFINITY
    ? 'at most 0'
    : `${Math.round(low)} to ${Number(high.toPrecision(6))}`;
}

function firstOutside(list: ArrayLike<unknown>, low: number, high: number): number {
  for (let i = 0; i < list.length; i++) if (Number(list[i]) < low || Number(list[i]) > high) return i;
  return -1;
}

/** Where the first entry is that is no finite number; −1 where all are. Ids of an input may be 64 bits wide. */
function firstBroken(list: ArrayLike<unknown>): number {
  for (let i = 0; i < list.length; i++)
    if (!Number.isFinite(list[i]) && typeof list[i] !== 'bigint') return i;
  return -1;
}

/** A scored row says why something is missing, and lacks nothing else. */
function checkNulls(row: Cells, fault: Fault): void {
  const { status, reward } = row;
  if (typeof status !== 'string') return;
  const codes = status.split(';');
  if ('reward' in row && (reward === null) !== codes.includes('reward:unknown'))
    fault(`reward is ${reward}, and status is ${status}`);
  if (codes.includes('truncated') && 'reward' in row && reward !== 0)
    fault(`reward is ${reward}, and status is ${status}`);
  for (const [k, { entropy, value = null, delta, sigma, kind }] of segmentsOf(row).entries()) {
    const never = codes.includes(UNREAD) ? { delta, sigma } : { entropy, delta, sigma };
    for (const [name, cell] of Object.entries(never))
      if (typeof cell !== 'number') fault(`segments[${k}].${name} is ${cell}`);
    if (kind !== 'thought' && value !== null)
      fault(
        `segments[${k}].value is ${value}, expected none after ${kind === 'answer' ? 'the answer' : 'what was shown'}`,
      );
    if (kind === 'thought' && value === null && !isZeroBank(row, 'value', Number.NEGATIVE_INFINITY))
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
  const { completion_mask: mask } = row;
  const segments = segmentsOf(row);
  for (const [k, { start, end, kind, ...numbers }] of segments.entries()) {
    const isShown = kind === 'shown';
    const bits = isList(mask) ? Array.prototype.slice.call(mask, Number(start), Number(end)) : [];
    const wrong = bits.findIndex((bit) => Number(bit) !== (isShown ? 0 : 1));
    if (wrong >= 0)
      fault(
        `completion_mask[${Number(start) + wrong}] is ${bits[wrong]}, and segments[${k}] is ${isShown ? 'shown' : 'of the policy'}`,
      );
    if (!isShown) continue;
    for (const name of ['logprobs', 'entropies', 'sigma']) {
      const list = row[name];
      const own = isList(list) ? Array.prototype.slice.call(list, Number(start), Number(end)) : [];
      const at = own.findIndex((x) => x !== 0);
      if (at >= 0) fault(`${name}[${Number(start) + at}] is ${own[at]}, expected 0 for what was shown`);
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
    for (const name of SEGMENT_SCALARS) {
      const value = segment[name] ?? null;
      if (value === null || Number.isFinite(value) || isZeroBank(row, name, value)) continue;
      fault(`segments[${k}].${name} is ${value}, expected a finite number`);
    }
  }
  if (tokens !== null && end !== tokens) fault(`segments end at token ${end}, expected ${tokens}`);
  const nulls = segments.filter(({ char_end: at }) => at === null).length;
  if (nulls > 0 && nulls < segments.length && !hasStatus(row, 'text:normalized'))
    fault('some of its segments have characters, some have none');
}

/** K+1 exits by N references. */
function checkReferences(row: Cells, fault: Fault): void {
  const { reference_utilities: utilities, reference_tokens: counts } = row;
  const N = isList(utilities) ? utilities.length : undefined;
  if (isList(counts) && N !== undefined && counts.length !== N)
    fault(
      `reference_tokens has ${plural(counts.length, 'entry', 'entries')}, reference_utilities ${N}, expected as many`,
    );
  const exits = exitsOf(row);
  const expected = segmentsOf(row).filter(({ kind }) => kind === 'thought').length + 1;
  if (isList(row.reference_logprobs) && 'segments' in row && exits.length !== expected)
    fault(
      `reference_logprobs has ${exits.length} exits, expected ${expected}: one before and one after each thought segment`,
    );
  for (const [k, exit] of exits.entries()) {
    const list = isList(exit) ? exit : undefined;
    if ('reference_utilities' in row && list?.length !== N)
      fault(
        `reference_logprobs[${k}] has ${list === undefined ? 'no entries' : plural(list.length, 'entry', 'entries')}, reference_utilities ${N ?? 'none'}, expected as many`,
      );
    const at = list === undefined ? -1 : firstBroken(list);
    if (at >= 0) fault(`reference_logprobs[${k}][${at}] is ${list?.[at]}, expected a finite number`);
  }
}

function hasStatus({ status }: Cells, code: string): boolean {
  return typeof status === 'string' && status.split(';').includes(code);
}

function segmentsOf({ segments }: Cells): readonly Cells[] {
  return Array.isArray(segments) ? segments : [];
}

function exitsOf({ reference_logprobs: exits }: Cells): readonly unknown[] {
  return Array.isArray(exits) ? exits : [];
}

/** Whether segments are counted in tokens; so they are where there is no telling. */
function hasTokens(row: Cells): boolean {
  return typeof (segmentsOf(row)[0]?.start ?? 0) === 'number' && segmentsOf(row)[0]?.start !== null;
}

/** T where nothing but the segments tells it. */
function lastEnd(row: Cells): number {
  return Number(segmentsOf(row).at(-1)?.end ?? 0);
}

/** The one infinity there may be: the logarithm of a value to which no reference contributes. */
function isZeroBank({ reference_utilities: utilities }: Cells, name: string, value: unknown): boolean {
  if (value !== Number.NEGATIVE_INFINITY || (name !== 'value' && name !== 'value_start')) return false;
  return isList(utilities) && Array.from(utilities).every((utility) => utility === 0);
}
