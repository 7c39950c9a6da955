import { describe, expect, it } from 'vitest';
import { hiveKeys, withHiveKeys } from '../../../dist/io/read/find-files.js';

describe('hive keys', () => {
  it.each([
    ['data/step=3/part.jsonl', { step: '3' }],
    ['/a/step=3/lr=1e-3/x.parquet', { step: '3', lr: '1e-3' }],
    ['a/name=a%20b%2Fc/x', { name: 'a b/c' }],
    ['a/name=100%/x', { name: '100%' }],
    ['a/name=a=b/x', { name: 'a=b' }],
    ['a/name=/x', { name: '' }],
    ['a/name=__HIVE_DEFAULT_PARTITION__/x', { name: null }],
    ['a/step=1/step=2/x', { step: '2' }],
    // a file's own name and what has no name are none
    ['data/step=3.jsonl', {}],
    ['a/=3/x.jsonl', {}],
    ['x.jsonl', {}],
    ['-', {}],
  ])('of %s', (path, keys) => {
    expect(hiveKeys(path)).toEqual(keys);
  });

  it('of several inputs are those of all, and null where a path has none', () => {
    const inputs = withHiveKeys([{ path: 'a=1/x' }, { path: 'b=2/x' }]);
    expect(inputs.map(({ keys }) => keys)).toEqual([
      { a: '1', b: null },
      { a: null, b: '2' },
    ]);
  });
});
