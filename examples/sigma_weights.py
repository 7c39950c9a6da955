"""w = σ·T in a trainer's padded layout: what its advantages are multiplied by. Shared by the examples beside it."""
import torch


def sigma_weights(sigmas, mask, gains=None):
    """Weights (B, L) of mean 1 over each trace, 0 wherever `mask` (B, L) has no completion token.

    `sigmas` holds a list of T_i numbers for each trace, which sum to 1. The mask may have its ones anywhere: at the start (TRL, verl) or
    behind a prompt (OpenRLHF). Uniform σ gives 1 at every completion token, and so the trainer's own loss.
    `gains`, the column `sigma_gain` of the same traces: all weights are divided by their mean, one constant for the batch, so that a
    gradient that weights on unsure tokens make larger is not cut where the trainer clips it. A trace without a gain (null) counts as 1.
    """
    weights = torch.zeros(mask.shape, dtype=torch.float32, device=mask.device)
    for i, sigma in enumerate(sigmas):
        completion = mask[i].bool()
        length = int(completion.sum())
        if length != len(sigma):
            raise ValueError(
                f"trace {i}: {length} completion tokens in the batch, but sigma has {len(sigma)}: "
                "a completion that was cut or tokenised again has another sigma"
            )
        sigma = torch.as_tensor(sigma, dtype=torch.float64)
        total = sigma.sum()
        if abs(total - 1) > 1e-3 * max(1, sigma.abs().sum()):
            raise ValueError(f"trace {i}: sigma sums to {total:.6g}, expected 1")
        # by the sum, which is 1 but for float32: equal numbers give 1 then, to the last digit
        weights[i, completion] = (sigma * length / total).to(weights)
    return weights if gains is None else weights / (sum(1.0 if gain is None else gain for gain in gains) / len(gains))
