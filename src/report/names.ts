// Scored traces in, what stands against their names out: ids that come twice, groups of several prompts.
import { HashSet } from '../io/table/hash-set.js';
import { are, plural } from '../plural.js';
import type { OutputRow } from '../scored.js';
import type { Warning } from './run-figures.js';

/** What a process has seen of the ids and groups of its traces, in 96 bytes a trace at most. */
export class SeenNames {
  private readonly ids = new HashSet();
  private readonly groups = new HashSet();
  private readonly prompts = new HashSet();
  private readonly same = { traces: 0, first: '' };
  private readonly mixed = { traces: 0, first: '' };

  /** @param isGrouped something follows of a trace's group: a group of which nothing does may hold anything */
  constructor(private readonly isGrouped: boolean) {}

  add({ trace: { id, group }, promptIds }: OutputRow): void {
    if (!this.ids.add(id)) count(this.same, id);
    if (!this.isGrouped || group === undefined || promptIds === null) return;
    const isNewGroup = this.groups.add(group);
    const isNewPrompt = this.prompts.add(`${group}\0${promptIds.join()}`);
    if (isNewPrompt && !isNewGroup) count(this.mixed, group);
  }

  get warnings(): Warning[] {
    const { same, mixed } = this;
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
    return warnings;
  }
}

function count(found: { traces: number; first: string }, name: string): void {
  if (found.traces++ === 0) found.first = name;
}
