// A family's layers in a graph, with the weights that they name; and the matrix of the output head behind them.
import type { GraphParts } from './architecture.js';
import { expertNodes } from './experts.js';
import { FAMILIES } from './families.js';
import { EMBEDDING, type Experts, type Family, HEAD, operators, type RowsOf } from './family.js';
import { cast, type ExternalData, type Graph } from './onnx.js';
import { bytesOf, product, type StoredTensor } from './safetensors.js';

/** A tensor of the checkpoint with the file (beside the graph) that holds it. */
export type Weight = StoredTensor & ExternalData;

/** A family's layers in a graph, each weight put there when it is first asked for. */
export function rowLayers(
  { g, arch, precision }: Omit<GraphParts, 'rope'>,
  weights: ReadonlyMap<string, Weight>,
) {
  /** all are there: they were looked for by the names that the same layers give */
  const weightOf = (name: string): Weight => weights.get(name) as Weight;
  /** @param from first of the rows that `shape` has: of the same bytes of the same file, as a tensor of their own */
  const rowsFrom = (as: string, name: string, from: number, shape: readonly number[]): string => {
    const whole = weightOf(name);
    const offset = whole.offset + from * product(whole.shape.slice(1)) * bytesOf(whole);
    const { dtype, location } = whole;
    return g.weight(as, dtype, shape, { location, offset, length: product(shape) * bytesOf(whole) });
  };
  const stored = (name: string): string => rowsFrom(name, name, 0, weightOf(name).shape);
  const converted = new Map<string, string>();
  /** one of another type is cast in the graph itself, where bodies see it too */
  const weight = (name: string, shape = weightOf(name).shape, part?: RowsOf): string => {
    const as = part ? `${name}.${part.first}` : name;
    const value =
      converted.get(as) ??
      cast(g, rowsFrom(as, name, part?.first ?? 0, shape), weightOf(name).dtype, precision);
    converted.set(as, value);
    return value;
  };
  const gathered = (name: string, ids: string, graph = g) =>
    cast(graph, graph.node('Gather', [stored(name), ids]), weightOf(name).dtype, precision);

  /** what every expert of one layer after the other adds to every row, as a share [experts,N]; in a float32 graph */
  const shares: string[] = [];
  /** as it lies in its file, seen as a tensor of another shape of as many numbers */
  const seen = (name: string, shape = weightOf(name).shape) => ({
    value: rowsFrom(`${name}.${shape.join('x')}`, name, 0, shape),
    dtype: weightOf(name).dtype,
  });
  const experts = (x: string, of: Experts) => expertNodes({ g, precision, seen, shares }, x, of);
  const number = (value: number) => cast(g, g.float(value), 'f32', precision);

  const family: Family = FAMILIES[arch.family];
  const rowsOf = (name: string, _: readonly number[], ids: string) => gathered(name, ids);
  const source = { weight, rowsOf, number, experts };
  const within = (layer: number, graph = g) => operators(graph, arch, source, layer, family.addsOneToNorms);
  const headWeight = arch.tiedHead ? EMBEDDING : HEAD;
  return {
    family,
    shares,
    /** what its layers, and what stands outside of them (-1), are made of */
    within,
    /** the final norm of x [C,d], in a body graph */
    last: (x: string, body: Graph) => family.last(within(-1, body), x),
    /** the head's matrix [vocab,d] in the main graph, where bodies see it */
    headMatrix: () => weight(headWeight),
    /** some rows of it, from one on and in blocks or not, as a tensor of their own, of the same bytes of the same file */
    headSlice(name: string, first: number, shape: readonly number[]) {
      rowsFrom(name, headWeight, first, shape);
      return cast(g, name, weightOf(headWeight).dtype, precision);
    },
    /** rows [C,d] of it by token [C], in a body graph */
    headRows: (tokens: string, body: Graph) => gathered(headWeight, tokens, body),
  };
}

/** All of it is in the graph's precision. */
export type RowLayers = ReturnType<typeof rowLayers>;
