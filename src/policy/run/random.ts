// Random numbers that depend on nothing but what they are for: a seed, names, and a position.
import { createHash } from 'node:crypto';

/** Two words that stand for a row's names: the same ones everywhere, whatever else is drawn. */
export type RowKey = readonly [high: number, low: number];

/** @param names e.g. the seed, a trace's id, the number of its exit, the number of the sample */
export function rowKey(...names: readonly (string | number)[]): RowKey {
  const digest = createHash('sha256').update(JSON.stringify(names)).digest();
  return [digest.readUInt32LE(0), digest.readUInt32LE(4)];
}

/** The number of a position: in [0, 1), a multiple of 2^-24, so that float32 holds it. */
export function uniformAt([high, low]: RowKey, position: number): number {
  const first = mixed(low ^ Math.imul(position + 1, 0x9e3779b1));
  return (mixed(first ^ high ^ Math.imul(position, 0x85ebca6b)) >>> 8) / 2 ** 24;
}

/** The last step of MurmurHash3 (Austin Appleby, public domain): every bit of x reaches every bit of the result. */
function mixed(x: number): number {
  let h = x;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}
