// The bank of a group: what its completions answered, as references for their mates (METHOD §3, `--bank group`).
import { dataError } from '../errors.js';
import { ANSWER_PATTERN, closeOf, type ThoughtTags, tagsOf } from '../segment/span.js';
import type { Reference, Trace } from '../trace.js';
import type { Nature } from './nature.js';
import { type AnswerMarks, ownAnswer } from './reward.js';

export const BANKS = ['row', 'group'] as const;
/** Where references come from: the trace's row, or its group's completions: the correct ones, for `snis` the wrong ones too. */
export type BankSource = (typeof BANKS)[number];

/** Status of a trace without any reference: its values are 0, and mean nothing. */
export const NO_BANK = 'uniform:no-bank';

/** A completion counts as correct above this reward [ours]; its reward is its utility, and 0 that of a wrong one. */
export const CORRECT = 0.5;
/** Distinct entries a group, right ones and wrong ones apart: every one is scored at every exit. */
const MAX_ENTRIES = 64;
/** Characters of all groups' entries together, about as many bytes. */
const MAX_CHARACTERS = 2 ** 26;

/** What several completions of a group answered alike. */
interface BankEntry {
  readonly answer: string;
  readonly solution?: string;
  /** the two largest utilities: one of them may be the trace's own */
  readonly best: number;
  readonly next?: number | undefined;
}

export type BankDump = readonly (readonly [group: string, entries: readonly BankEntry[]])[];

/** Banks of all groups in sight; entries are kept once however many completions agree on them. */
export class GroupBanks {
  private readonly groups = new Map<string, Map<string, BankEntry>>();
  private length = 0;
  private reached: string | undefined;

  constructor(
    private readonly marks: AnswerMarks,
    private readonly nature: Nature,
    private readonly textOf: (trace: Trace) => () => string,
    private readonly maxLength = MAX_CHARACTERS,
  ) {}

  /**
   * Takes note of a trace's answer, where it has a group and is correct; of a wrong one where the estimator sets it against the right ones.
   * @throws RredcotError (exit 65) where the entries take too much memory
   */
  add(trace: Trace, reward: number | null): void {
    const { group } = trace;
    const own = group === undefined ? undefined : this.entryOf(trace, reward);
    if (group === undefined || own === undefined) return;
    const bank = this.groups.get(group) ?? new Map<string, BankEntry>();
    this.groups.set(group, bank);
    const key = keyOf(own);
    const found = bank.get(key);
    if (found === undefined && sizeOf(bank, own.best) >= MAX_ENTRIES) return;
    if (found === undefined) this.length += key.length;
    const [best, next] = [own.best, found?.best, found?.next]
      .filter((utility) => utility !== undefined)
      .sort((a, b) => b - a);
    bank.set(key, { ...own, best: best as number, next });
    if (this.length > this.maxLength)
      throw dataError(
        `--bank group: the answers and solutions of the groups have over ${this.maxLength} characters`,
        'score the input in parts, whole groups in each, or use --estimator pr',
      );
  }

  /** What the other completions of the trace's group answered, in the order first seen. */
  mates(trace: Trace, reward: number | null): Reference[] {
    const bank = trace.group === undefined ? undefined : this.groups.get(trace.group);
    if (bank === undefined) return [];
    const own = this.entryOf(trace, reward);
    const ownKey = own && keyOf(own);
    const mates: Reference[] = [];
    for (const [key, { best, next, ...entry }] of bank) {
      // the trace's own part in an entry is taken out: an entry that is its alone goes
      const utility = key !== ownKey ? best : own?.best === best ? next : best;
      if (utility !== undefined) mates.push({ ...entry, utility });
    }
    return mates;
  }

  /** A stream has come to a group: the one before it is over, and forgotten. */
  reach(group: string | undefined): void {
    const before = this.reached;
    if (before === group) return;
    this.reached = group;
    if (before === undefined) return;
    for (const key of this.groups.get(before)?.keys() ?? []) this.length -= key.length;
    this.groups.delete(before);
  }

  /** Everything, as JSON can hold it: for the other processes of a run. */
  dump(): BankDump {
    return Array.from(this.groups, ([group, bank]) => [group, [...bank.values()]]);
  }

  /** Takes up what {@link dump} has written. */
  restore(dump: BankDump): void {
    for (const [group, entries] of dump)
      this.groups.set(group, new Map(entries.map((entry) => [keyOf(entry), entry])));
  }

  private entryOf(trace: Trace, reward: number | null): BankEntry | undefined {
    if (reward === null || (reward <= CORRECT && !this.nature.isContrast)) return undefined;
    const whole = this.textOf(trace)();
    const answer = ownAnswer(whole, this.marks);
    if (!answer) return undefined;
    const solution =
      this.nature.scores === 'continuations' ? { solution: thoughtOf(whole, this.marks.thoughtTags) } : {};
    const best = reward > CORRECT ? Math.fround(reward) : 0;
    return { answer, ...solution, best, next: undefined };
  }
}

/** Entries of a bank that are right, or wrong, as one of such a utility is. */
function sizeOf(bank: ReadonlyMap<string, BankEntry>, utility: number): number {
  return [...bank.values()].filter(({ best }) => best > CORRECT === utility > CORRECT).length;
}

/**
 * A trace's references: its row's, or with `banks` its mates' answers; the row's again, beside the wrong ones of the mates,
 * where no mate is right.
 */
export function referencesOf(
  trace: Trace,
  reward: number | null,
  banks: GroupBanks | undefined,
): { readonly references: readonly Reference[]; readonly bankStatus: readonly string[] } {
  const mates = banks?.mates(trace, reward) ?? [];
  if (mates.some(({ utility }) => utility > CORRECT)) return { references: mates, bankStatus: [] };
  const code = trace.references.length > 0 ? 'bank:row' : NO_BANK;
  const references = trace.references.length > 0 ? [...trace.references, ...mates] : [];
  return { references, bankStatus: banks === undefined ? [] : [code] };
}

/** Status of a bank that is set against itself without right and wrong answers: its values cannot move. */
export const ONE_SIDED = 'uniform:one-sided-bank';

/** Why the values of a bank mean nothing; undefined where they do. */
export function bankFault(utilities: Float32Array, { scores, isContrast }: Nature): string | undefined {
  if (scores === 'nothing') return undefined;
  if (utilities.length === 0) return NO_BANK;
  const right = utilities.filter((utility) => utility > CORRECT).length;
  return isContrast && (right === 0 || right === utilities.length) ? ONE_SIDED : undefined;
}

function keyOf({ answer, solution }: BankEntry): string {
  return JSON.stringify(solution === undefined ? [answer] : [answer, solution]);
}

/** The text of a completion's thought, its last line break included: u of METHOD eq. (3), as it was sampled. */
function thoughtOf(text: string, named: ThoughtTags | undefined): string {
  const tags = tagsOf(text, named);
  const close = closeOf(text, tags)?.[0] ?? -1;
  const last = close < 0 ? [...text.matchAll(ANSWER_PATTERN)].at(-1)?.index : undefined;
  // the whole line that an answer stands in is the answer
  const end = close >= 0 ? close : last === undefined ? text.length : text.lastIndexOf('\n', last) + 1;
  const thought = text.slice(0, end);
  const from = thought.search(/\S|$/);
  if (tags === undefined || !thought.startsWith(tags[0], from)) return thought;
  return thought.slice(from + tags[0].length).replace(/^[\r\n]+/, '');
}
