"""A complete GRPO trainer with σ: trains a small Llama checkpoint on scored traces as they arrive.

    rredcot score traces.jsonl --policy ./policy --format jsonl -o - | python3 examples/reinforce_torch.py --policy ./checkpoint

Needs only PyTorch 1.13 or newer (Debian: apt-get install python3-torch). rredcot's tests run it.
Reads stdin or a .jsonl file; each batch of complete groups is one step of AdamW. --credit uniform is plain GRPO.
--save writes a checkpoint folder that `rredcot policy build` reads.
"""
import argparse
import json
import sys
import time

try:
    import torch
except ImportError as error:
    raise SystemExit(f"reinforce_torch.py: {error}: pip install torch, or apt-get install python3-torch") from None

from sigma_weights import sigma_weights
from small_llama import SmallLlama


def group_advantages(rewards, groups):
    """GRPO's advantages: reward minus the group's mean, over the group's standard deviation."""
    rewards = torch.tensor(rewards, dtype=torch.float32)
    advantages = torch.zeros_like(rewards)
    for group in set(groups):
        at = torch.tensor([g == group for g in groups])
        mine = rewards[at]
        spread = mine.std() if len(mine) > 1 else torch.tensor(0.0)
        advantages[at] = (mine - mine.mean()) / (spread + 1e-4)
    return advantages


def grpo_loss(logprobs, old_logprobs, advantages, mask, weights=None, clip=0.2):
    """Mean over traces of the mean over tokens of −min(ρ A w, clip(ρ) A w), ρ = π/π_old; all (B, T) but advantages (B).

    With w = σ·T the mean over tokens has gradient Σ_t σ_t A ∇log π, RREDCoT's eq. 11; w = 1 is plain GRPO.
    """
    per_token = advantages[:, None] * (torch.ones_like(logprobs) if weights is None else weights)
    # padding has no meaningful ratio
    ratio = ((logprobs - old_logprobs) * mask).exp()
    gain = torch.minimum(ratio * per_token, ratio.clamp(1 - clip, 1 + clip) * per_token)
    return -((gain * mask).sum(1) / mask.sum(1)).mean()


def batches(lines, size):
    """Batches of at least `size` rows that never split a group; a group's rows must be consecutive."""
    batch = []
    for line in lines:
        row = json.loads(line)
        if row["reward"] is None:
            continue  # the reward is unknown
        if len(batch) >= size and row["group"] != batch[-1]["group"]:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def padded(lists, width):
    return torch.tensor([values + [0.0] * (width - len(values)) for values in lists])


def step(model, rows, credit, clip, by_gain=False):
    """The loss of a batch, and the largest difference between the policy's log-probabilities and the stored ones."""
    completions = [row["completion_ids"] for row in rows]
    logprobs, mask = model.completion_logprobs([row["prompt_ids"] for row in rows], completions)
    old = padded([row["logprobs"] for row in rows], mask.shape[1])
    advantages = group_advantages([row["reward"] for row in rows], [row["group"] for row in rows])
    gains = [row["sigma_gain"] for row in rows] if by_gain else None
    weights = sigma_weights([row["sigma"] for row in rows], mask, gains) if credit == "sigma" else None
    loss = grpo_loss(logprobs, old, advantages, mask, weights, clip)
    return loss, float(((logprobs.detach() - old) * mask).abs().max())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="?", help="JSONL from rredcot score (default: stdin)")
    parser.add_argument("--policy", required=True, help="checkpoint folder to train: the one that scored the traces")
    parser.add_argument("--credit", choices=("sigma", "uniform"), default="sigma")
    parser.add_argument("--by-gain", action="store_true", help="divide the weights of a batch by its mean sigma_gain")
    parser.add_argument("--batch", type=int, default=64, help="at least this many traces per step (default: 64)")
    parser.add_argument("--lr", type=float, default=1e-5)
    parser.add_argument("--clip", type=float, default=0.2)
    parser.add_argument("--save", help="folder for the trained checkpoint")
    args = parser.parse_args()

    model = SmallLlama(args.policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.0)
    with open(args.traces, encoding="utf-8") if args.traces else sys.stdin as lines:
        for n, rows in enumerate(batches(lines, args.batch), 1):
            started = time.monotonic()
            loss, drift = step(model, rows, args.credit, args.clip, args.by_gain)
            optimizer.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            seconds = time.monotonic() - started
            print(f"step {n}: {len(rows)} traces, loss {loss.item():+.6f}, gradient {norm:.4f}, log p off by {drift:.1e}, {seconds:.1f} s", flush=True)
            if n == 1 and drift > 1e-2:
                print("the stored log-probabilities are not this policy's: were the traces scored by another one?", file=sys.stderr)
    if args.save:
        model.save(args.save)


if __name__ == "__main__":
    main()
