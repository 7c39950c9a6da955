// What a model family says of itself, and the operators that its layers are made of.
import { z } from 'zod';
import type { Graph } from './onnx.js';

export const size = z.number().int().positive();

/** Of a model whose tokens go to some experts each, in the layers named. */
export const MixtureSchema = z
  .strictObject({
    experts: size,
    /** of them, those that a token goes to */
    chosen: size,
    /** inner size of an expert */
    intermediate: size,
    /** what a token takes from its experts sums to 1 */
    normalized: z.boolean(),
    layers: z.array(z.number().int().nonnegative()),
    /** inner size of an expert that every token goes to; absent: there is none */
    shared: size.exactOptional(),
  })
  .refine(({ chosen, experts }) => chosen <= experts, 'more experts for a token than there are');

/** Delta nets: layers that keep a state of one size in the place of every token's keys and values. */
const deltaSizes = z.strictObject({
  layers: z.array(z.number().int().nonnegative()).nonempty(),
  ...{ keyHeads: size, keyDim: size },
  /** value heads; valueHeads / keyHeads of them share a key head, each with a state [keyDim,valueDim] of its own */
  ...{ valueHeads: size, valueDim: size },
  /** tokens that the convolution before it sees, the row's own among them */
  taps: size,
});
export type DeltaSizes = Readonly<z.infer<typeof deltaSizes>>;

export const MULTIPLIED = ['embedding', 'attention', 'residual', 'logits'] as const;

export const layerSizes = {
  hidden: size,
  heads: size,
  /** key/value heads; heads / kvHeads queries share one (grouped-query attention) */
  kvHeads: size,
  headDim: size,
  intermediate: size,
  vocab: size,
  rmsNormEps: z.number().positive(),
  /** of what a family multiplies; absent: of nothing */
  multipliers: z.record(z.enum(MULTIPLIED), z.number().positive()).exactOptional(),
  /** absent: all layers are dense */
  mixture: MixtureSchema.exactOptional(),
  /** of the layers that are delta nets; absent: none is */
  delta: deltaSizes.exactOptional(),
};
export type LayerSizes = Readonly<z.infer<z.ZodObject<typeof layerSizes>>>;

/** The matrix of the embedding, and that of an output head of its own, [vocab,d]. */
export const [EMBEDDING, HEAD] = ['model.embed_tokens.weight', 'lm_head.weight'];

export type Shape = readonly number[];
type NamedShape = readonly [name: string, shape: Shape];

/** The experts of a layer, and where their weights lie. */
export interface Experts extends Readonly<z.infer<typeof MixtureSchema>> {
  readonly router: NamedShape; // [experts,d]
  readonly gateUp: NamedShape; // [experts,2·inner,d], rows of gate and up in turns
  readonly down: NamedShape; // [experts,d,inner]
}

/** Some rows of a matrix, from one on. */
export interface RowsOf {
  readonly first: number;
  /** rows of the whole */
  readonly of: number;
}

/** Where weights come from, by the names and shapes that layers give them. */
export interface WeightSource {
  /** in the graph's precision */
  weight(name: string, shape: Shape, part?: RowsOf): string;
  /** a number, in the graph's precision */
  number(value: number): string;
  /** rows [N,d] of a matrix by number [N]: only these are cast */
  rowsOf(name: string, shape: Shape, ids: string): string;
  /** what a layer's experts make of x [N,d] */
  experts(x: string, of: Experts): string;
}

export type Operators = ReturnType<typeof operators>;

/**
 * Operators on single rows in a graph, or a body of it. Each names its weight as it is called in its layer, and says what shape that has.
 * @param layer its number; -1 outside of all @param one what norms multiply by is 1 more than their weights
 */
export function operators(g: Graph, sizes: LayerSizes, source: WeightSource, layer: number, one = false) {
  const at = layer < 0 ? 'model.' : `model.layers.${layer}.`;
  const named = ([name, shape]: NamedShape): NamedShape => [at + name, shape];
  const weight = (name: string, shape: Shape, part?: RowsOf) => source.weight(at + name, shape, part);
  const { number } = source;
  const rmsNorm = (x: string, name: string, size: number, isMore = one) => {
    const stored = weight(`${name}.weight`, [size]);
    const scale = isMore ? g.node('Add', [stored, number(1)]) : stored;
    const epsilon = { float: sizes.rmsNormEps };
    return g.node('SimplifiedLayerNormalization', [x, scale], { axis: -1, epsilon });
  };
  return {
    ...{ sizes, layer, weight },
    rowsOf: (name: string, shape: Shape, ids: string) => source.rowsOf(at + name, shape, ids),
    experts: (x: string, { router, gateUp, down, ...mixture }: Experts) =>
      source.experts(x, { ...mixture, router: named(router), gateUp: named(gateUp), down: named(down) }),
    add: (a: string, b: string) => g.node('Add', [a, b]),
    multiply: (a: string, b: string) => g.node('Mul', [a, b]),
    scaled: (x: string, by: number) => g.node('Mul', [x, number(by)]),
    sigmoid: (x: string) => g.node('Sigmoid', [x]),
    silu: (x: string) => g.node('Mul', [x, g.node('Sigmoid', [x])]),
    /** RMS norm of x [N,d] */
    norm: (x: string, name: string, size = sizes.hidden) => rmsNorm(x, name, size),
    /** the same of each head on its own: x [N,heads·hd], weight [hd] */
    normHeads(x: string, name: string, heads: number, headDim = sizes.headDim, isMore = one) {
      const perHead = g.node('Reshape', [x, g.ints([-1, headDim])]);
      return g.node('Reshape', [rmsNorm(perHead, name, headDim, isMore), g.ints([-1, heads * headDim])]);
    },
    /** a half of each head: x [N,heads·2·hd] → [N,heads·hd] */
    half(x: string, which: 0 | 1, { heads, headDim } = sizes) {
      const perHead = g.node('Reshape', [x, g.ints([-1, heads, 2, headDim])]);
      return g.node('Reshape', [
        g.node('Gather', [perHead, g.ints([which])], { axis: 2 }),
        g.ints([-1, heads * headDim]),
      ]);
    },
    /** x [N,in] by the matrix `<name>.weight` [out,in], or so many rows of it, plus `<name>.bias` [out] */
    linear(x: string, name: string, shape: readonly [number, number], hasBias = false, part?: RowsOf) {
      const bias = () => weight(`${name}.bias`, [shape[0]]);
      const inputs = [x, weight(`${name}.weight`, shape, part), ...(hasBias ? [bias()] : [])];
      return g.node('Gemm', inputs, { transB: 1 });
    },
  };
}

/** What a config.json says of layers that differ: sliding windows, delta nets, and those that read no positions. */
interface LayerConfig {
  readonly use_sliding_window: boolean;
  readonly max_window_layers: number;
  readonly full_attention_interval: number;
  readonly layer_types?: readonly string[] | null | undefined;
  /** of each layer 1 where it reads positions */
  readonly no_rope_layers?: readonly number[] | null | undefined;
  readonly no_rope_layer_interval: number;
}
export type LayerRule = (config: LayerConfig, layer: number) => boolean;

/**
 * What rows go through a delta net with: `mixed` [N,C] queries, keys and values, C = 2·keyHeads·keyDim + valueHeads·valueDim, before
 * the convolution by `taps` [C,1,taps]; sigmoid(`rate`) [N,valueHeads], how much of a value is written; softplus(`decay`)
 * [N,valueHeads] · exp(`logSpeed`) [valueHeads], how much of the state fades.
 */
export type DeltaInputs = Readonly<Record<'mixed' | 'taps' | 'rate' | 'decay' | 'logSpeed', string>>;

type Projected = Readonly<Record<'q' | 'k' | 'v', string>> & { readonly gate?: string };

/** A family: what its config.json may leave out, and its layers, which name their weights. */
export interface Family {
  /** the defaults of transformers' config class, where they are not the query heads and hidden / heads */
  readonly defaults: {
    readonly kvHeads?: number;
    readonly headDim?: number;
    readonly slidingWindow?: number;
    readonly tiedHead?: boolean;
    /** share of a head that is rotated; absent: all of it, whatever a config.json says */
    readonly rotated?: number;
    /** what a token takes from its experts sums to 1, whatever a config.json says */
    readonly normalized?: true;
  };
  /** which layers have a sliding window; absent: none */
  readonly windows?: LayerRule;
  /** which layers read no positions; absent: none */
  readonly unrotated?: LayerRule;
  readonly hasMultipliers?: true;
  /** its tokens go to some experts each; `shared`: and to one more that has all of them */
  readonly hasExperts?: 'chosen' | 'shared';
  /** norms multiply by 1 + weight */
  readonly addsOneToNorms?: true;
  /** tensors of a checkpoint that scoring has no use for; absent: there are none */
  readonly unread?: RegExp;
  /** ids [N] → [N,d] */
  embed(o: Operators, ids: string): string;
  /** x [N,d] → q [N,heads·hd], k and v [N,kvHeads·hd], before rotation; gate [N,heads·hd], whose sigmoid multiplies what is attended to */
  project(o: Operators, x: string): Projected;
  /** layers whose rows are read one after the other into a state, and have no keys; absent: there are none */
  readonly delta?: {
    readonly layers: LayerRule;
    /** x [N,d] → all that a later run has to know of the rows [N,d] */
    read(o: Operators, x: string): string;
    /** that → what goes into convolution and state */
    project(o: Operators, h: string): DeltaInputs;
  };
  /** what stands behind attention or delta net: x [N,d], attended [N,heads·hd], or [N,valueHeads·valueDim] → [N,d] */
  finish(o: Operators, x: string, attended: string): string;
  /** x [N,d] → what the output head multiplies */
  last(o: Operators, x: string): string;
}
