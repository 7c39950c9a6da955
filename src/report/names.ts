// Finds what stands against traces' names: ids that come twice, groups of several prompts, completions under several ids.

import { hash } from 'node:crypto';
import { are, plural } from '../plural.js';
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

/** Remembers the ids and groups of traces, in some 300 bytes a trace at most, and what stands against them. */
export interface SeenNames {
  /** @param isWritten whether the trace is one of the output, where an id counts (default: true) */
  add(trace: Named, isWritten?: boolean): void;
  warnings(): Warning[];
}

/** @param isGrouped something follows of a trace's group: a group of which nothing does may hold anything */
export function seenNames(isGrouped: boolean): SeenNames {
  // by 72 bits of a hash; a set of Node holds 16 million: there is one for each beginning
  const sets = new Map<string, Set<string>>();
  const isNew = (...names: readonly string[]): boolean => {
    const key = hash('sha1', names.join('\0'), 'base64').slice(0, 12);
    const set = sets.get(key.slice(0, 1)) ?? new Set();
    sets.set(key.slice(0, 1), set);
    return set.size < set.add(key).size;
  };
  const same = { traces: 0, first: '' };
  const mixed = { traces: 0, first: '' };
  const alike = { traces: 0, first: '' };
  return {
    add({ id, group, prompt, completion }, isWritten = true) {
      const isNewId = !isWritten || isNew('id', id);
      if (!isNewId) count(same, id);
      if (!isGrouped || group === undefined || prompt === null) return;
      const isNewGroup = isNew('group', group);
      if (isNew('prompt', group, prompt) && !isNewGroup) count(mixed, group);
      // of one id it is the same trace, which has been told
      if (completion !== undefined && !isNew('completion', group, prompt, completion) && isNewId)
        count(alike, id);
    },
    warnings() {
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
    },
  };
}

function count(found: { traces: number; first: string }, name: string): void {
  if (found.traces++ === 0) found.first = name;
}
