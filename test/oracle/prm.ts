/** The head of a process reward model in float64, over the families' hidden states: one linear layer, or two with a ReLU (arXiv 2501.07301). */
import { type FamilyModel, familyHidden } from './families.js';

/** P(label) at every token: softmax over the labels' logits, the logistic of a single one. */
export function rewardShares(model: FamilyModel, ids: readonly number[], label: number): number[] {
  const { tensors } = model;
  return familyHidden(model, ids).map((row) => {
    let h = [...row];
    const inner = tensors.get('score.0.weight');
    if (inner !== undefined) {
      const bias = tensors.get('score.0.bias') as Float64Array;
      h = h.map((_, r) => Math.max(0, dot(inner, r, h) + (bias[r] as number)));
    }
    const name = inner === undefined ? 'score' : 'score.2';
    const [weight, bias] = [tensors.get(`${name}.weight`) as Float64Array, tensors.get(`${name}.bias`)];
    const logits = Array.from(
      { length: weight.length / h.length },
      (_, r) => dot(weight, r, h) + (bias?.[r] ?? 0),
    );
    if (logits.length === 1) return 1 / (1 + Math.exp(-(logits[0] as number)));
    const total = logits.reduce((sum, z) => sum + Math.exp(z), 0);
    return Math.exp(logits[label] as number) / total;
  });
}

function dot(matrix: Float64Array, row: number, x: readonly number[]): number {
  return x.reduce((sum, value, c) => sum + value * (matrix[row * x.length + c] as number), 0);
}
