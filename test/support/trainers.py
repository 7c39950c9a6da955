"""What test/system/trainers.long.test.ts checks of the examples, as one JSON object: their losses and weights."""
import json
import os
import sys

import torch

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
sys.path.insert(0, EXAMPLES)

from reinforce_torch import batches, group_advantages, grpo_loss, padded  # noqa: E402
from sigma_weights import sigma_weights  # noqa: E402
from small_llama import SmallLlama, read_safetensors, write_safetensors  # noqa: E402

POLICY = os.path.join(EXAMPLES, "..", "models", "embedded")


def error(action):
    try:
        action()
    except ValueError as raised:
        return str(raised)
    return None


def losses():
    """Three traces of 5, 2 and 3 tokens, σ with both signs, a policy that has moved away from the old one."""
    torch.manual_seed(1)
    lengths = [5, 2, 3]
    mask = torch.tensor([[t < n for t in range(5)] for n in lengths])
    old = -3 * torch.rand(3, 5)
    new = (old + 0.6 * torch.randn(3, 5)).requires_grad_()
    sigma = [[0.6, -0.3, 0.2, 0.4, 0.1], [1.5, -0.5], [0.0, 0.25, 0.75]]
    uniform = [[1 / n] * n for n in lengths]
    advantages = torch.tensor([1.5, -0.5, 0.8])
    weights = sigma_weights(sigma, mask)
    loss = grpo_loss(new, old, advantages, mask, weights)
    # at the old policy itself the ratio is 1 and the gradient is eq. 11's
    (gradient,) = torch.autograd.grad(grpo_loss(new, new.detach(), advantages, mask, weights), new)
    # what lies in the padding must not matter
    noise = torch.where(mask, new, torch.full_like(new, 50.0))
    return {
        "lengths": lengths,
        "old": old.tolist(),
        "new": new.tolist(),
        "sigma": sigma,
        "advantages": advantages.tolist(),
        "weights": weights.tolist(),
        "loss": loss.item(),
        "loss_with_noise_in_padding": grpo_loss(noise, old, advantages, mask, weights).item(),
        "gradient": gradient.tolist(),
        "plain": grpo_loss(new, old, advantages, mask).item(),
        "uniform": grpo_loss(new, old, advantages, mask, sigma_weights(uniform, mask)).item(),
        "group_advantages": group_advantages([1.0, 0.0, 1.0, 1.0, 0.0], ["a", "a", "a", "b", "c"]).tolist(),
        "batches": [
            [row["n"] for row in batch]
            for batch in batches(
                [json.dumps({"n": n, "group": "aabbbc"[n], "reward": None if n == 3 else 1}) for n in range(6)], 2
            )
        ],
    }


def weights():
    prompt_first = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]])
    return {
        "behind_a_prompt": sigma_weights([[0.5, 0.25, 0.25], [2.0, -1.0]], prompt_first).tolist(),
        "by_gain": sigma_weights([[0.5, 0.25, 0.25], [2.0, -1.0]], prompt_first, [3.0, None]).tolist(),
        "cut": error(lambda: sigma_weights([[0.5, 0.5], [1.0]], torch.tensor([[1, 1], [1, 1]]))),
        "no_sigma": error(lambda: sigma_weights([[0.25, 0.25]], torch.tensor([[1, 1]]))),
        "uniform": sorted(
            {each for n in range(1, 3000) for each in sigma_weights([(torch.ones(n) / n).tolist()], torch.ones(1, n)).unique().tolist()}
        ),
    }


def forward(path):
    """The small Llama's log-probabilities of scored traces beside the stored ones; and a checkpoint written and read."""
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    model = SmallLlama(POLICY)
    with torch.no_grad():
        logprobs, mask = model.completion_logprobs(
            [row["prompt_ids"] for row in rows], [row["completion_ids"] for row in rows]
        )
    stored = padded([row["logprobs"] for row in rows], mask.shape[1])
    copy = os.path.join(os.path.dirname(path), "copy.safetensors")
    write_safetensors(copy, model.weights)
    again = read_safetensors(copy)
    return {
        "off": ((logprobs - stored) * mask).abs().max().item(),
        "tokens": int(mask.sum()),
        "same": all(torch.equal(again[name], tensor) for name, tensor in model.weights.items()),
    }


if __name__ == "__main__":
    print(json.dumps({"losses": losses(), "weights": weights(), "forward": forward(sys.argv[1])}))
