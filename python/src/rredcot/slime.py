"""slime: advantages of scored traces, and its files of rollouts, which miles has too. Rollouts that it has saved are rows for a scorer:
rredcot.score(rredcot.slime.samples("0.pt"), policy=…).

    rredcot.slime.write_rollouts("scored.parquet", "replay", 4)          # or rollouts of its own, which were scored since
    RREDCOT='{"scored": "/path/scored.parquet"}' python train.py --load-debug-rollout-data replay/{rollout_id}.pt \\
        --custom-advantage-function-path rredcot.slime.advantages --advantage-estimator grpo --rollout-batch-size 4 …

The variable belongs into --runtime-env-json of `ray job submit`. The update is RREDCoT's eq. 11; --calculate-per-token-loss weights by
length, and --use-rollout-logprobs takes the stored log-probabilities as the old ones. Leave out --normalize-advantages: its shift of
the mean breaks Σσ = 1.
"""
import collections
import os
import pickle
import zipfile


def samples(*paths):
    """The Samples of `.pt` files, as rows of `Sample.to_dict()`, which the preset `slime` reads; without tensors, such as images and experts.

    Nothing of a file runs, and PyTorch is not needed. Raises ValueError for a file that is none, or holds other objects than Samples do.
    """
    return [row for path in paths for row in _read(os.fspath(path))]


def _read(path):
    try:
        with zipfile.ZipFile(path) as packed:
            [name] = [name for name in packed.namelist() if name.endswith("/data.pkl")]
            with packed.open(name) as file:
                said = _Plain(file).load()
        found = [{key: value for key, value in sample.items() if value is not None} for sample in said["samples"]]
    except (zipfile.BadZipFile, pickle.UnpicklingError, EOFError, KeyError, AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: no rollouts as slime's --save-debug-rollout-data writes them: {error}") from error
    missing = [n for n, sample in enumerate(found) if not {"tokens", "response_length", "response"} <= sample.keys()]
    if missing:
        raise ValueError(f"{path}: sample {missing[0]} has no tokens, response_length or response")
    return found


def _nothing(*_):
    return None


class _Plain(pickle.Unpickler):
    """Numbers, text, lists and dicts; what is of PyTorch becomes None."""

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if module.split(".")[0] == "torch":
            return _nothing
        raise pickle.UnpicklingError(f"it holds a {module}.{name}")

    persistent_load = _nothing


def advantages(args, rollout_data):
    """Sets advantages and returns, a tensor (tokens on this rank) of each sample: its reward, less the group's mean, times σ·T.

    Under context parallelism a rank has two pieces of each trace: slime cuts the weights as it cuts log-probabilities.
    """
    import torch
    from slime.backends.megatron_utils.cp_utils import slice_log_prob_with_cp

    from rredcot._credit import Stored, of_environment

    stored = of_environment()
    if not isinstance(stored, Stored):
        raise ValueError("RREDCOT has no `scored`: the trainer of slime has no right answers, so its samples have to be scored before")
    tokens, rewards, lengths, totals, kl = (rollout_data[name] for name in ("tokens", "rewards", "response_lengths", "total_lengths", "kl"))
    ids = [each.tolist() for each in tokens]
    found = stored([{"prompt_ids": each[:-length], "completion_ids": each[-length:]} for each, length in zip(ids, lengths)])
    rollout_data["returns"] = rollout_data["advantages"] = [
        reward * slice_log_prob_with_cp(torch.from_numpy(weights), total, length).to(each)
        for weights, reward, length, total, each in zip(found, rewards, lengths, totals, kl)
    ]


def write_rollouts(scored, folder, groups):
    """Writes `<n>.pt` of every so many groups, as --save-debug-rollout-data does. Returns the number of files, and of samples a group."""
    import torch
    from slime.utils.types import Sample

    from rredcot._errors import log
    from rredcot._scored import by_group, scored_rows

    found = list(by_group(scored_rows(scored)).values())
    sizes = {len(rows) for rows in found}
    if len(sizes) > 1:
        raise ValueError(f"{scored}: has groups of {min(sizes)} to {max(sizes)} traces with a known reward, but slime needs one size")
    if len(found) < groups:
        raise ValueError(f"{scored}: has {len(found)} groups, but a rollout takes {groups}")
    if left := len(found) % groups:
        log.warning("%s: the last %d of %d groups do not fill a rollout of %d and are left out", scored, left, len(found), groups)
    os.makedirs(folder, exist_ok=True)
    size, numbered = sizes.pop(), list(enumerate(found))
    for n in range(len(numbered) // groups):
        samples = [
            Sample(
                group_index=g, index=g * size + i, prompt=row["prompt"], response=row["completion"], tokens=row["prompt_ids"] + row["completion_ids"],
                response_length=len(row["completion_ids"]), reward=row["reward"], rollout_log_probs=row["logprobs"], status=Sample.Status.COMPLETED,
            ).to_dict()
            for g, rows in numbered[n * groups : (n + 1) * groups]
            for i, row in enumerate(rows)
        ]
        torch.save({"rollout_id": n, "samples": samples}, os.path.join(folder, f"{n}.pt"))
    return len(numbered) // groups, size
