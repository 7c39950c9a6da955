"""w = σ·T in a trainer's padded layout, to multiply its advantages by. Shared by the other examples."""
import torch


def sigma_weights(sigmas, mask, gains=None):
    """Weights (B, L) with mean 1 over each trace, 0 wherever `mask` (B, L) has no completion token.

    `sigmas` has a list of T_i numbers for each trace, which sum to 1. The mask's ones may be anywhere: at the start (TRL, verl) or
    after a prompt (OpenRLHF). Uniform σ gives 1 at every completion token, which is the trainer's own loss.
    `gains` is the column `sigma_gain` of the same traces. Weights are divided by its mean, one constant per batch, so that a gradient
    made larger by weights on uncertain tokens is not clipped. A trace without a gain (null) counts as 1.
    """
    weights = torch.zeros(mask.shape, dtype=torch.float32, device=mask.device)
    for i, sigma in enumerate(sigmas):
        completion = mask[i].bool()
        length = int(completion.sum())
        if length != len(sigma):
            raise ValueError(
                f"trace {i}: {length} completion tokens in the batch, but sigma has {len(sigma)}: "
                "sigma does not fit a completion that was truncated or tokenized again"
            )
        sigma = torch.as_tensor(sigma, dtype=torch.float64)
        total = sigma.sum()
        if abs(total - 1) > 1e-3 * max(1, sigma.abs().sum()):
            raise ValueError(f"trace {i}: sigma sums to {total:.6g}, expected 1")
        # the sum is 1 up to float32: dividing by it makes uniform σ exactly 1
        weights[i, completion] = (sigma * length / total).to(weights)
    return weights if gains is None else weights / (sum(1.0 if gain is None else gain for gain in gains) / len(gains))
