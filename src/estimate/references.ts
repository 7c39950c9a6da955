// A trace's references: its row's or its group's answers, as a set, and what is scored of them at every exit point.

import { CORRECT, type Nature, NO_REFERENCES } from '../credit/nature.js';
import { dataError, TraceRejected } from '../errors.js';
import { sharedTokens } from '../model/text/encode.js';
import type { ExitTemplate } from '../model/text/templates.js';
import type { Continuation } from '../question.js';
import { thoughtText } from '../segment/span.js';
import type { Reference, Trace } from '../trace.js';
import { type AnswerMarks, ownAnswer, plainAnswer, plainReferences } from './answer-text.js';

// ------ where they come from

export const REFERENCE_SOURCES = ['row', 'group'] as const;
/** Where references come from: the trace's row, or its group's completions: the correct ones, for `snis` the wrong ones too. */
export type ReferenceSource = (typeof REFERENCE_SOURCES)[number];

/** Distinct entries a group, right ones and wrong ones apart: every one is scored at every exit. */
const MAX_ENTRIES = 64;
/** Characters of all groups' entries together, about as many bytes. */
const MAX_CHARACTERS = 2 ** 26;

/** What several completions of a group answered alike. */
interface ReferenceEntry extends Omit<Reference, 'utility'> {
  /** the two largest utilities: one of them may be the trace's own */
  readonly best: number;
  readonly next?: number | undefined;
}

/** Reference sets of all groups in sight; entries are kept once however many completions agree on them. */
export class GroupReferences {
  private readonly groups = new Map<string, Map<string, ReferenceEntry>>();
  private length = 0;
  private reached: string | undefined;

  constructor(
    private readonly marks: AnswerMarks,
    private readonly nature: Nature,
    private readonly textOf: (trace: Trace) => string,
    private readonly maxLength = MAX_CHARACTERS,
  ) {}

  /**
   * Takes note of a trace's answer, where it has a group and is correct; of a wrong one where the estimator sets it against the right ones.
   * @throws RredcotError (exit 65) where the entries take too much memory
   */
  add(trace: Trace, reward: number | null): void {
    const { group } = trace;
    const own = this.entryOf(trace, reward);
    if (group === undefined || own === undefined) return;
    const referenceSet = this.groups.get(group) ?? new Map<string, ReferenceEntry>();
    this.groups.set(group, referenceSet);
    const key = keyOf(own);
    const found = referenceSet.get(key);
    if (found === undefined) {
      // right ones and wrong ones apart
      const alike = [...referenceSet.values()].filter(({ best }) => best > CORRECT === own.best > CORRECT);
      if (alike.length >= MAX_ENTRIES) return;
      this.length += key.length;
    }
    const [best, next] = [own.best, found?.best, found?.next]
      .filter((utility) => utility !== undefined)
      .sort((a, b) => b - a);
    referenceSet.set(key, { ...own, best: best as number, next });
    if (this.length > this.maxLength)
      throw dataError(
        `--references group: the answers and solutions of the groups have over ${this.maxLength} characters`,
        'score the input in parts, whole groups in each, or use --estimator pr',
      );
  }

  /** What the other completions of the trace's group answered, in the order first seen. */
  peers(trace: Trace, reward: number | null): Reference[] {
    const referenceSet = trace.group === undefined ? undefined : this.groups.get(trace.group);
    if (referenceSet === undefined) return [];
    const own = this.entryOf(trace, reward);
    const ownKey = own && keyOf(own);
    const peers: Reference[] = [];
    for (const [key, { best, next, ...entry }] of referenceSet) {
      // the trace's own part in an entry is taken out: an entry that is its alone goes
      const utility = key !== ownKey ? best : own?.best === best ? next : best;
      if (utility !== undefined) peers.push({ ...entry, utility });
    }
    return peers;
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

  private entryOf(trace: Trace, reward: number | null): ReferenceEntry | undefined {
    if (reward === null || (reward <= CORRECT && !this.nature.isContrast)) return undefined;
    const whole = this.textOf(trace);
    const found = ownAnswer(whole, this.marks);
    if (!found) return undefined;
    const isWhole = this.nature.scores === 'continuations';
    return {
      answer: plainAnswer(found),
      // u of METHOD eq. (3)
      ...(isWhole && { solution: thoughtText(whole, this.marks.thoughtTags) }),
      best: reward > CORRECT ? Math.fround(reward) : 0,
    };
  }
}

/**
 * A trace's references: its row's, or with `groupReferences` its peers' answers; the row's again, beside the wrong ones of its peers,
 * where none is right.
 */
export function referencesOf(trace: Trace, reward: number | null, groupReferences?: GroupReferences) {
  const peers = groupReferences?.peers(trace, reward) ?? [];
  if (peers.some(({ utility }) => utility > CORRECT)) return { references: peers, referenceStatus: [] };
  const code = trace.references.length > 0 ? 'references:row' : NO_REFERENCES;
  const own = plainReferences(trace.references);
  const references = own.length > 0 ? [...own, ...peers] : [];
  return { references, referenceStatus: groupReferences === undefined ? [] : [code] };
}

function keyOf({ answer, solution }: ReferenceEntry): string {
  return JSON.stringify(solution === undefined ? [answer] : [answer, solution]);
}

// ------ what is scored of them

/** Token ids of a text that continues a sequence. */
type Encode = (text: string) => Int32Array | Promise<Int32Array>;

/**
 * The referenceSet is a set (METHOD §3): identical (y, u) count once, with the largest utility they were given. Estimators that
 * score answers do not read u, so for them one entry an answer is left.
 */
export function referenceSetOf(references: readonly Reference[], { scores }: Pick<Nature, 'scores'>) {
  const referenceSet = new Map<string, Reference>();
  for (const reference of references) {
    const { answer, solution, utility } = reference;
    const key = scores === 'continuations' ? JSON.stringify([answer, solution ?? '']) : answer;
    if (utility > (referenceSet.get(key)?.utility ?? -1)) referenceSet.set(key, reference);
  }
  return [...referenceSet.values()];
}

/**
 * Makes a reference set's continuations, `close {u} open {y} closer` (METHOD §3), each tokenised as one text: a tokenizer may have
 * `{\` or `}}` as a single token, and apart an answer would get tokens that no policy writes. `joint` and `joint-log`
 * score everything. What scores answers leaves u out, and scores from the first token in which an answer of the reference set, or
 * an empty one, differs from the bare template, to the end of the closer: what a merge may swallow of the template counts
 * for every answer alike, at every exit.
 * @returns the maker; it throws TraceRejected (`no_reference`) where nothing would be scored: an empty answer before an empty closer
 */
export async function continuationMaker(
  { close, open, closer }: ExitTemplate,
  { scores }: Pick<Nature, 'scores'>,
  encode: Encode,
): Promise<(referenceSet: readonly Reference[]) => Promise<Continuation[]>> {
  const isWhole = scores === 'continuations';
  const bare = await encode(close + open);
  const least = sharedTokens(bare, await encode(close + open + closer));
  return async (referenceSet) => {
    const branches: Int32Array[] = [];
    for (const { answer, solution = '' } of referenceSet)
      branches.push(await encode(`${close}${isWhole ? solution : ''}${open}${answer}${closer}`));
    const scoredFrom = isWhole ? 0 : Math.min(least, ...branches.map((ids) => sharedTokens(bare, ids)));
    return referenceSet.map(({ answer }, n) => {
      const ids = branches[n] as Int32Array;
      if (ids.length <= scoredFrom || (!isWhole && answer + closer === ''))
        throw new TraceRejected('no_reference', 'the reference and the closer have no token to score');
      return { ids, scoredFrom };
    });
  };
}

/** What is scored of a trace's references: the reference set as a set, and each entry's continuation. */
export interface ScoredReferences {
  /** (N) */
  readonly referenceSet: readonly Reference[];
  /** (N) */
  readonly continuations: readonly Continuation[];
  /** what the user should know of the reference set: status codes */
  readonly status: readonly string[];
}

/**
 * Makes the continuations of traces under one policy.
 * @throws TraceRejected (`no_reference`) from the returned function, where a trace has nothing to score
 */
export async function referenceSetMaker(
  template: ExitTemplate,
  nature: Nature,
  encode: Encode,
): Promise<(references: readonly Reference[]) => Promise<ScoredReferences>> {
  const continuationsOf = await continuationMaker(template, nature, encode);
  const isWhole = nature.scores === 'continuations';
  return async (references) => {
    if (nature.scores === 'nothing') return { referenceSet: [], continuations: [], status: [] };
    // u = "" is no solution: it would be far likelier than any, and outweigh them
    const usable = isWhole ? references.filter(({ solution = '' }) => solution.trim() !== '') : references;
    if (isWhole && !usable.some(({ utility }) => utility > 0))
      throw new TraceRejected(
        'no_reference',
        `no reference has a solution and a utility above 0, expected one for --estimator ${nature.name}: --map solution=<path>`,
      );
    const status = usable.length < references.length ? ['references:no-solution'] : [];
    const referenceSet = referenceSetOf(usable, nature);
    return { referenceSet, continuations: await continuationsOf(referenceSet), status };
  };
}
