// What a model family says of itself, and the operators that its layers are made of.
import type { z } from 'zod';
import type { Graph } from './onnx.js';

/** The sizes of a model that its layers depend on. */
export interface LayerSizes {
  readonly vocab: number;
  readonly hidden: number;
  readonly heads: number;
  /** key/value heads */
  readonly kvHeads: number;
  readonly headDim: number;
  readonly intermediate: number;
}

/** Operators on single rows in a graph, or a body of it. Each names its weight, and says what shape that has. */
export interface Operators {
  readonly g: Graph;
  readonly sizes: LayerSizes;
  /** a weight as it is, for nodes of the family's own */
  weight(name: string, shape: readonly number[]): string;
  /** rows [N,d] of a matrix by number [N] */
  rowsOf(name: string, shape: readonly number[], ids: string): string;
  add(a: string, b: string): string;
  multiply(a: string, b: string): string;
  silu(x: string): string;
  /** RMS norm of x [N,d] */
  norm(x: string, name: string): string;
  /** the same of each head on its own: x [N,heads·hd], weight [hd] */
  normHeads(x: string, name: string, heads: number): string;
  /** x [N,in] by the matrix `<name>.weight` [out,in], plus `<name>.bias` [out] */
  linear(x: string, name: string, shape: readonly [out: number, from: number], hasBias?: boolean): string;
}

/** What a config.json says of sliding windows. */
export interface WindowConfig {
  readonly use_sliding_window: boolean;
  readonly max_window_layers: number;
  readonly layer_types?: readonly string[] | null | undefined;
}

/** A family: what its config.json may say and leave out, and its layers, which name their weights. */
export interface Family {
  /** what config.json has to say for these layers to be the model's; extends the fields of all families */
  readonly config: z.ZodRawShape;
  /** the defaults of transformers' config class, where they are not the query heads and hidden / heads */
  readonly defaults: {
    readonly kvHeads?: number;
    readonly headDim?: number;
    readonly slidingWindow?: number;
  };
  /** which layers have a sliding window; absent: none */
  readonly windows?: (config: WindowConfig) => (layer: number) => boolean;
  /** names of the matrix of the embedding, and of that of an output head of its own, [vocab,d] */
  readonly embedding: string;
  readonly head: string;
  /** tensors of a layer whose shapes tell the other sizes, and the family */
  layerShapes(sizes: LayerSizes, layer: number): Readonly<Record<string, readonly number[]>>;
  /** ids [N] → [N,d] */
  embed(o: Operators, ids: string): string;
  /** x [N,d] → q [N,heads·hd], k and v [N,kvHeads·hd], before rotation */
  project(
    o: Operators,
    layer: number,
    x: string,
  ): { readonly q: string; readonly k: string; readonly v: string };
  /** what stands behind the attention: x [N,d], attended [N,heads·hd] → [N,d] */
  finish(o: Operators, layer: number, x: string, attended: string): string;
  /** x [N,d] → what the output head multiplies */
  last(o: Operators, x: string): string;
}
