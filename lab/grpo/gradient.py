"""The gradient of GRPO's loss with an advantage for each token, and what it needs of the policy."""
import numpy as np
import torch
import torch.nn.functional as F
import setting  # noqa: F401 (the recipe's folder, for the next line)
from model import seen

MICRO = 16  # traces a forward pass: small ones stay in the cache


def batches(rows, chosen, size=MICRO):
    """Indices of the chosen rows in batches of like length."""
    order = sorted(chosen, key=lambda i: len(rows[i]["prompt_ids"]) + len(rows[i]["completion_ids"]))
    return [order[i:i + size] for i in range(0, len(order), size)]


def causal(width):
    index = torch.arange(width)
    return seen(index[None, None, :] <= index[None, :, None])


def outputs(model, rows):
    """Token ids [B,T] of traces padded behind, and the policy's logits [B,T-1,V] for all but the first."""
    traces = [r["prompt_ids"] + r["completion_ids"] for r in rows]
    width = max(map(len, traces))
    ids = torch.tensor([t + [0] * (width - len(t)) for t in traces])
    positions = torch.arange(width - 1).expand(len(rows), -1)
    hidden = model(ids[:, :-1], positions, causal(width - 1))
    return ids, model.logits(hidden)


def logprobs(model, rows):
    """Log-probabilities [B,T-1] of every token but the first, of traces padded behind."""
    ids, logits = outputs(model, rows)
    return -F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none").view(len(rows), -1)


def entropy(model, rows):
    """Mean entropy of the policy over the completion tokens of the rows, in nats."""
    total = 0.0
    for batch in batches(rows, range(len(rows))):
        picked = [rows[i] for i in batch]
        with torch.no_grad():
            _, logits = outputs(model, picked)
        logp = F.log_softmax(logits, -1)
        there = spread(picked, [np.ones(len(r["completion_ids"]), np.float32) for r in picked], logits.shape[1])
        total -= float(((logp.exp() * logp).sum(-1) * there).sum())
    return total / sum(len(r["completion_ids"]) for r in rows)


def spread(rows, weights, width):
    """Weights of completion tokens [B,width], in the places of `logprobs`."""
    table = np.zeros((len(rows), width), np.float32)
    for line, row, weight in zip(table, rows, weights):
        start = len(row["prompt_ids"]) - 1
        line[start:start + len(weight)] = weight
    return torch.from_numpy(table)


def accumulate(model, rows, token_advantages):
    """Adds the gradient of −Σ_i Σ_t a_it log π(o_it) to the parameters' `grad`; `token_advantages` is a list of arrays [|o_i|].

    With a_it = A_i w_it / (N |o_i|) this is the gradient of GRPO's loss over N traces at the policy that wrote them, where the
    ratio is 1 and nothing is clipped. Returns the loss. Traces whose advantages are all 0 are not run.
    """
    total = 0.0
    moving = [i for i, a in enumerate(token_advantages) if np.any(a)]
    for batch in batches(rows, moving):
        picked = [rows[i] for i in batch]
        logp = logprobs(model, picked)
        loss = -(logp * spread(picked, [token_advantages[i] for i in batch], logp.shape[1])).sum()
        loss.backward()
        total += loss.item()
    return total


def flat(model):
    """The parameters' gradients as one array; they are set to nothing."""
    found = np.concatenate([p.grad.numpy().ravel() for p in model.parameters()])
    model.zero_grad(set_to_none=True)
    return found
