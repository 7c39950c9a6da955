// Numbers that no policy and no reward can give: each bound itself is given, what lies beyond it is a finding.
import { describe, expect, it } from 'vitest';
import { checkRanges } from '../../../dist/io/scored/check-ranges.js';

function faultsOf(cells: Readonly<Record<string, unknown>>, vocab: number | null = 100): string[] {
  const faults: string[] = [];
  const row = {
    number: 0,
    has: (name: string) => name in cells,
    cell: (name: string) => cells[name] ?? null,
  };
  checkRanges(row, vocab ?? undefined, (text) => void faults.push(text));
  return faults;
}

describe('checkRanges', () => {
  it('takes the bounds themselves', () => {
    const bounds = {
      prompt_ids: [0, 99],
      completion_ids: Int32Array.of(0, 99),
      logprobs: [-1e30, 0],
      entropies: [0, Math.log(100)],
      reference_utilities: [0, 1],
      reference_tokens: [1, 2 ** 31 - 1],
      reference_logprobs: [[0], [-50]],
    };
    expect(faultsOf(bounds)).toEqual([]);
    for (const reward of [0, 1, null]) expect(faultsOf({ reward })).toEqual([]);
  });

  it.each([
    ['prompt_ids', [-1, 5], 'prompt_ids[0] is -1, expected 0 to 99'],
    ['completion_ids', [5, 100], 'completion_ids[1] is 100, expected 0 to 99'],
    ['logprobs', [-1, 0.01], 'logprobs[1] is 0.01, expected at most 0'],
    ['entropies', [-0.01], 'entropies[0] is -0.01, expected 0 to 4.60527'],
    ['entropies', [4.7], 'entropies[0] is 4.7, expected 0 to 4.60527'],
    ['reference_utilities', [0.5, 1.5], 'reference_utilities[1] is 1.5, expected 0 to 1'],
    ['reference_tokens', [0], 'reference_tokens[0] is 0, expected 1 to 2147480000'],
    ['reference_logprobs', [[-1], [-1, 0.5]], 'reference_logprobs[1][1] is above 0'],
    ['reward', -0.5, 'reward is -0.5, expected 0 to 1'],
    ['reward', 1.5, 'reward is 1.5, expected 0 to 1'],
  ])('%s of %j', (name, cell, fault) => {
    expect(faultsOf({ [name]: cell })).toEqual([fault]);
  });

  it('has a bound where the vocabulary is not known', () => {
    expect(faultsOf({ completion_ids: [2 ** 31 - 1], entropies: [21] }, null)).toEqual([]);
    expect(faultsOf({ entropies: [22] }, null)).toHaveLength(1);
  });
});
