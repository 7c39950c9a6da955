// `--shard`.
import { describe, expect, it } from 'vitest';
import { parseShard } from '../../dist/io/write/target.js';

describe('a shard', () => {
  it.each(['', '1', '1/1', '3/2', '-1/2', '0/0', 'a/b', '1/2/3', '0.5/2'])(
    '--shard %j is refused',
    (text) => {
      expect(() => parseShard(text)).toThrow(/expected i\/n/);
    },
  );
});
