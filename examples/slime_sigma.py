"""slime: GRPO on scored traces, each token's advantage times w = σ·T.

NOT RUN END TO END. Written for slime of August 2026 (commit 624b824a); hooks/slime.json has its names and signatures, and
`npm run hooks -- <checkout>` says what a newer slime has changed. rredcot's tests run it on stand-ins made from that record.

    rredcot score traces.jsonl --policy ./policy -o scored.jsonl
    PYTHONPATH=examples python examples/slime_sigma.py scored.jsonl replay/ 4
    export PYTHONPATH=examples RREDCOT_SCORED=$PWD/scored.jsonl
    python train.py --custom-advantage-function-path slime_sigma.advantages --load-debug-rollout-data replay/{rollout_id}.pt \\
        --advantage-estimator grpo --rollout-batch-size 4 --n-samples-per-prompt <group> --num-rollout <files> …

Nothing is generated: slime trains on the stored rollouts, here of 4 groups each. Its trainer gets a sample's tokens without its
metadata, so σ is looked up by the ids of prompt and completion; a trace that was not scored ends the run. Both environment
variables must reach slime's workers: add them to --runtime-env-json of `ray job submit`. The loss is a mean over a trace's tokens,
then over traces, so the update is RREDCoT's eq. 11; --calculate-per-token-loss weights by length. --use-rollout-logprobs takes the
stored log-probabilities as the old ones. Leave out --normalize-advantages: its shift of the mean breaks Σσ = 1.
"""
import functools
import os
import sys

try:
    import torch
except ImportError as error:
    raise SystemExit(f"slime_sigma.py: {error}: run it in slime's environment (written for commit 624b824a)") from None

from scored_rows import scored_rows
from sigma_weights import sigma_weights


@functools.lru_cache(maxsize=None)
def sigma_of_tokens():
    """σ by the token ids of prompt and completion, the only key that the trainer has."""
    rows = scored_rows(os.environ["RREDCOT_SCORED"], ("group",))
    return {tuple(row["prompt_ids"] + row["completion_ids"]): row["sigma"] for row in rows}


def advantages(args, rollout_data):
    """For `--custom-advantage-function-path`: sets advantages and returns, a tensor (tokens on this rank,) for each sample.

    `rewards` are slime's, with the group's mean subtracted. Under context parallelism a rank has two pieces of each trace; slime's
    own function slices the weights as it slices log-probabilities.
    """
    from slime.backends.megatron_utils.cp_utils import slice_log_prob_with_cp

    known = sigma_of_tokens()
    found = []
    columns = ("tokens", "rewards", "response_lengths", "total_lengths", "kl")
    for tokens, reward, length, total, kl in zip(*(rollout_data[name] for name in columns)):
        sigma = known.get(tuple(tokens.tolist()))
        if sigma is None:
            raise ValueError(f"a trace of {total} tokens, {length} of them sampled, is not among those of {os.environ['RREDCOT_SCORED']}")
        weights = sigma_weights([sigma], torch.ones(1, length))[0]
        found.append(reward * slice_log_prob_with_cp(weights, total, length).to(kl))
    rollout_data["advantages"] = found
    rollout_data["returns"] = found


def write_rollouts(scored, folder, each):
    """Writes `<n>.pt` for every `each` groups, as slime's --save-debug-rollout-data does. Returns how many, and the group size."""
    from slime.utils.types import Sample

    groups = {}
    for row in scored_rows(scored, ("id", "group")):
        groups.setdefault(row["id"] if row["group"] is None else row["group"], []).append(row)
    sizes = {len(rows) for rows in groups.values()}
    if len(sizes) > 1:
        raise SystemExit(f"{scored}: has groups of {min(sizes)} to {max(sizes)} traces with a known reward, but slime needs one size")
    rollouts = len(groups) // each
    if rollouts == 0:
        raise SystemExit(f"{scored}: has {len(groups)} groups, but a rollout takes {each}")
    if left := len(groups) % each:
        print(f"{scored}: the last {left} of {len(groups)} groups do not fill a rollout of {each} and are left out", file=sys.stderr)
    os.makedirs(folder, exist_ok=True)
    size = sizes.pop()
    numbered = list(enumerate(groups.values()))
    for n in range(rollouts):
        samples = [
            Sample(
                group_index=g,
                index=g * size + i,
                prompt=row["prompt"],
                tokens=row["prompt_ids"] + row["completion_ids"],
                response=row["completion"],
                response_length=len(row["completion_ids"]),
                reward=row["reward"],
                rollout_log_probs=row["logprobs"],
                status=Sample.Status.COMPLETED,
            ).to_dict()
            for g, rows in numbered[n * each : (n + 1) * each]
            for i, row in enumerate(rows)
        ]
        torch.save({"rollout_id": n, "samples": samples}, os.path.join(folder, f"{n}.pt"))
    return rollouts, size


if __name__ == "__main__":
    if len(sys.argv) != 4 or not sys.argv[3].isdecimal() or int(sys.argv[3]) == 0:
        raise SystemExit("usage: slime_sigma.py <scored file> <folder> <groups a rollout>")
    rollouts, size = write_rollouts(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    print(f"--num-rollout {rollouts} --n-samples-per-prompt {size} --rollout-batch-size {sys.argv[3]}")
