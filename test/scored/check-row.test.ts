// Where verify draws the line: METHOD §4 allows Σσ, and a segment's share of it, 1e-6 for rounding, and no more.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkRow, isStatus, STATUS_CODES } from '../../dist/scored/check-row.js';
import { ROOT } from '../support/program.js';

function faultsOf(cells: Readonly<Record<string, unknown>>): readonly string[] {
  return checkRow(cells, false);
}

describe('σ', () => {
  const segment = (start: number, end: number, sigma: number) => ({
    ...{ start, end, char_start: start, char_end: end, kind: 'thought' },
    ...{ entropy: null, value: null, delta: null, sigma },
  });
  const sums = (sigma: readonly number[]) =>
    faultsOf({ sigma }).filter((fault) => fault.startsWith('Σσ is '));
  const shares = ([first = 0, ...rest]: readonly number[], off: number) => {
    const share = rest.reduce((sum, s) => sum + s, off);
    const segments = [segment(0, 1, first), segment(1, 1 + rest.length, share)];
    return faultsOf({ sigma: [first, ...rest], segments }).filter((fault) => fault.includes('sum of σ over'));
  };

  it.each([
    [[0.25, 0.5, 0.25], 0.9e-6, 0],
    [[0.25, 0.5, 0.25], -0.9e-6, 0],
    [[0.25, 0.5, 0.25], 1.2e-6, 1],
    [[0.25, 0.5, 0.25], -1.2e-6, 1],
    // of large weights within 1e-6 of Σ|σ|
    [[0, 3, -2], 4.5e-6, 0],
    [[0, 3, -2], 5.5e-6, 1],
  ])('of %j that is %f off, as a whole and in a segment', (sigma, off, faults) => {
    expect(sums([...sigma.slice(0, 2), (sigma[2] as number) + off])).toHaveLength(faults);
    expect(shares(sigma, off)).toHaveLength(faults);
  });
});

describe('numbers that no policy and no reward can give', () => {
  const outside = (cells: Readonly<Record<string, unknown>>) =>
    faultsOf(cells).filter((fault) => /expected -?(Infinity|\d)/.test(fault));

  it('takes the bounds themselves', () => {
    const bounds = {
      ...{ prompt_ids: [0, 2 ** 31 - 1], completion_ids: Int32Array.of(0, 99), logprobs: [-1e30, 0] },
      ...{ entropies: [0, 21], reference_utilities: [0, 1], reference_tokens: [1, 2 ** 31 - 1] },
      reference_logprobs: [0, -50].map((lowest) => [lowest, 0]),
    };
    expect(outside(bounds)).toEqual([]);
    for (const reward of [0, 1, null]) expect(outside({ reward })).toEqual([]);
  });

  it.each([
    ['prompt_ids', [-1, 5], 'prompt_ids[0] is -1, expected 0 to 2147480000'],
    ['logprobs', [-1, 0.01], 'logprobs[1] is 0.01, expected -Infinity to 0.0001'],
    ['entropies', [-0.01], 'entropies[0] is -0.01, expected -0.0001 to 21.4877'],
    ['entropies', [22], 'entropies[0] is 22, expected -0.0001 to 21.4877'],
    ['reference_utilities', [0.5, 1.5], 'reference_utilities[1] is 1.5, expected 0 to 1'],
    ['reference_tokens', [0], 'reference_tokens[0] is 0, expected 1 to 2147480000'],
    [
      'reference_logprobs',
      [[-1], [-1, 0.5]],
      'reference_logprobs[1][1] is 0.5, expected -Infinity to 0.0001',
    ],
    ['reward', -0.5, 'reward is -0.5, expected 0 to 1'],
    ['reward', 1.5, 'reward is 1.5, expected 0 to 1'],
  ])('%s of %j', (name, cell, fault) => {
    expect(outside({ [name]: cell })).toEqual([fault]);
  });
});

it('lists of references have an entry for each', () => {
  const faults = (reference_tokens: readonly number[]) =>
    faultsOf({ reference_utilities: [1, 0], reference_tokens }).filter((fault) => fault.includes('as many'));
  expect(faults([3, 4])).toEqual([]);
  expect(faults([3])).toEqual(['reference_tokens has 1 entries, reference_utilities 2, expected as many']);
});

describe('status codes', () => {
  it('are those of the table of statuses in docs/output.md', async () => {
    const text = await readFile(join(ROOT, 'docs/output.md'), 'utf8');
    const [section = ''] = text.slice(text.indexOf('## Statuses')).split('\n## ');
    const listed = [...section.matchAll(/^\|([^|]*)\|/gm)].flatMap(([, cell]) =>
      [...(cell as string).matchAll(/`([a-z0-9:-]+)`/g)].map(([, code]) => code),
    );
    expect(listed.length).toBeGreaterThan(10);
    expect(['ok', ...listed].sort()).toEqual([...STATUS_CODES].sort());
  });

  it('that nobody knows, two in the wrong order, and ok beside another are faults', () => {
    for (const status of ['okay', 'uniform:*', 'truncated;references:row', 'ok;truncated'])
      expect(faultsOf({ status }).join()).toContain(status);
    for (const status of [...STATUS_CODES, 'rudder:no-gain']) expect(faultsOf({ status })).toEqual([]);
    const some = ['uniform:*', 'rudder:no*', 'unifrom:*', 'x:no-gain'];
    expect(some.filter(isStatus)).toEqual(some.slice(0, 2));
  });
});
