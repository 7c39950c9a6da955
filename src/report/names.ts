// Finds what stands against traces' names: ids that come twice, groups of several prompts, completions under several ids.

import { are, plural } from '../plural.js';
import { HashSet } from './hash-set.js';
import type { Warning } from './warnings.js';

/** What of a trace is looked at. */
export interface Named {
  readonly id: string;
  readonly group?: string | undefined;
  /** the same for traces of one prompt; null where nobody knows it */
  readonly prompt: string | null;
  /** the same for traces of one completion; absent where a trace's completion does not matter */
  readonly completion?: string | undefined;
}

/** What has been seen of the ids and groups of traces, in 128 bytes a trace at most. */
export class SeenNames {
  private readonly ids = new HashSet();
  private readonly groups = new HashSet();
  private readonly prompts = new HashSet();
  private readonly completions = new HashSet();
  private readonly same = { traces: 0, first: '' };
  private readonly mixed = { traces: 0, first: '' };
  private readonly alike = { traces: 0, first: '' };

  /** @param isGrouped something follows of a trace's group: a group of which nothing does may hold anything */
  constructor(private readonly isGrouped: boolean) {}

  /** @param isWritten whether the trace is one of the output, where an id counts */
  add({ id, group, prompt, completion }: Named, isWritten = true): void {
    const isNew = !isWritten || this.ids.add(id);
    if (!isNew) count(this.same, id);
    if (!this.isGrouped || group === undefined || prompt === null) return;
    const isNewGroup = this.groups.add(group);
    const isNewPrompt = this.prompts.add(`${group}\0${prompt}`);
    if (isNewPrompt && !isNewGroup) count(this.mixed, group);
    // of one id it is the same trace, which has been told
    if (completion !== undefined && !this.completions.add(`${group}\0${prompt}\0${completion}`) && isNew)
      count(this.alike, id);
  }

  get warnings(): Warning[] {
    const { same, mixed, alike } = this;
    const warnings: Warning[] = [];
    if (same.traces > 0)
      warnings.push({
        code: 'same_id',
        message: `${plural(same.traces, 'trace')} ${same.traces === 1 ? 'has' : 'have'} the id of an earlier one, first ${JSON.stringify(same.first)}: what joins rows by id mixes them, and verify finds them; --map id=<column> names a column that tells them apart`,
      });
    if (mixed.traces > 0)
      warnings.push({
        code: 'mixed_groups',
        message: `${plural(mixed.traces, 'prompt')} ${are(mixed.traces)} in a group with other prompts, first in ${JSON.stringify(mixed.first)}: what follows of a group, such as its mean reward, is meant for completions of one prompt; --map group=<column> names one that holds a prompt together`,
      });
    if (alike.traces > 0)
      warnings.push({
        code: 'same_completion',
        message: `${plural(alike.traces, 'trace')} ${alike.traces === 1 ? 'has' : 'have'} the completion of an earlier one of the same group and prompt, first ${JSON.stringify(alike.first)}: they are one peer, and none of each other, which counts once where nobody would draw it twice (docs/method.md); where they are one trace under several ids, leave the others out`,
      });
    return warnings;
  }
}

function count(found: { traces: number; first: string }, name: string): void {
  if (found.traces++ === 0) found.first = name;
}
