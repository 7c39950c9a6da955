// Runs a graph that attributes: a number for each token of a trace with its references.
import { type InferenceSession, Tensor } from 'onnxruntime-node';
import type { RopeTables } from '../build/rope.js';
import { floats, int64, ropeFeeds } from './onnx-session.js';

/** A trace, and behind it references that each see the trace and themselves: S tokens, n of which are scored. */
export interface Sequence {
  /** (S) */
  readonly ids: Int32Array;
  /** (S) positions */
  readonly pos: Int32Array;
  /** (S) −1: the trace's; else its reference's number */
  readonly number: Int32Array;
  /** (n) rows that predict a scored token, and these tokens */
  readonly rows: Int32Array;
  readonly targets: Int32Array;
  /** (n) what each counts for */
  readonly weights: Float32Array;
}

/** @param ropeFor tables for so many positions @returns (S) */
export async function runAttribution(
  session: InferenceSession,
  { ids, pos, number, rows, targets, weights }: Sequence,
  ropeFor: (positions: number) => RopeTables,
): Promise<Float32Array> {
  const tables = ropeFor(1 + pos.reduce((most, p) => Math.max(most, p), 0));
  const headDim = (2 * tables.cos.length) / tables.positions;
  const list = (values: Int32Array) => int64(BigInt64Array.from(values, BigInt), [values.length]);
  const feeds: Record<string, Tensor> = {
    ...{
      ids: list(ids),
      pos: list(pos),
      number: list(number),
      rows: list(rows),
      targets: list(targets),
    },
    weights: new Tensor('float32', weights, [weights.length]),
    ...ropeFeeds(tables, headDim),
  };
  const given = Object.fromEntries(session.inputNames.map((name) => [name, feeds[name] as Tensor]));
  const out = await session.run(given);
  return floats(out[session.outputNames[0] as string] as Tensor, ids.length);
}
