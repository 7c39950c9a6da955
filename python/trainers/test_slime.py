"""slime's own `compute_advantages_and_returns` on rollouts that we wrote and its code read, in one process and under context parallelism of
two. Its package is in no registry (PyPI's slime is another): RREDCOT_SLIME names a checkout."""
import json
import types

import pytest
from conftest import absent, checkout, expected

checkout("SLIME", "")
import torch  # noqa: E402

# what the rollout manager imports to start engines
absent("sglang", "sglang.srt", "sglang.srt.constants", "sglang.srt.server_args", "sglang.srt.utils")
from megatron.core import mpu  # noqa: E402
from slime.backends.megatron_utils import cp_utils, loss  # noqa: E402
from slime.observability.rollout_data_utils import load_debug_rollout_data, tensorize_rollout_data_for_training  # noqa: E402
from slime.ray.rollout import RolloutManager  # noqa: E402

import rredcot.slime  # noqa: E402
from rredcot._credit import of_environment  # noqa: E402

FLAGS = {"advantage_estimator": "grpo", "rewards_normalization": True, "grpo_std_normalization": True, "n_samples_per_prompt": 8, "rollout_batch_size": 2}
LOSS = {"kl_coef": 0, "use_opd": False, "normalize_advantages": False, "custom_advantage_function_path": "rredcot.slime.advantages"}


def advantages(rank, size, scored, folder):
    """The advantages of each sample, whole, as slime gathers them from a process."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet-{size}", rank=rank, world_size=size)
    mpu.initialize_model_parallel(context_parallel_size=size)
    try:
        args = types.SimpleNamespace(**FLAGS, **LOSS, use_rollout_logprobs=True, reward_key=None)
        samples = load_debug_rollout_data(f"{folder}/{{rollout_id}}.pt", rollout_id=0)
        manager = object.__new__(RolloutManager.__ray_metadata__.modified_class)
        manager.args, manager.custom_convert_samples_to_train_data_func, manager.custom_reward_post_process_func = args, None, None
        data = manager._convert_samples_to_train_data(samples)
        data["total_lengths"] = [len(each) for each in data["tokens"]]
        tensorize_rollout_data_for_training(data)
        whole = list(zip(data["total_lengths"], data["response_lengths"]))
        # as the actor cuts them
        data["rollout_log_probs"] = [cp_utils.slice_log_prob_with_cp(each, *of) for each, of in zip(data["rollout_log_probs"], whole)]
        loss.compute_advantages_and_returns(args, data)
        assert data["returns"] is data["advantages"] and (size == 1 or len(data["advantages"][0]) < whole[0][1])
        found = [cp_utils.all_gather_with_cp(each, *of).tolist() for each, of in zip(data["advantages"], whole)]
        ids = [each.tolist()[-length:] for each, (_, length) in zip(data["tokens"], whole)]
        torch.save((ids, found), f"{folder}/found-{size}-{rank}.pt")
    finally:
        mpu.destroy_model_parallel()
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("size", [1, 2])
def test_advantages_are_its_own_times_the_weights(size, scored, rows, tmp_path, monkeypatch):
    monkeypatch.setenv("RREDCOT", json.dumps({"scored": str(scored)}))
    assert rredcot.slime.write_rollouts(scored, tmp_path, 2) == (1, 8)
    torch.multiprocessing.spawn(advantages, (size, str(scored), str(tmp_path)), nprocs=size)
    for rank in range(size):
        ids, found = torch.load(tmp_path / f"found-{size}-{rank}.pt")
        assert ids == [row["completion_ids"] for row in rows]
        for row, own in zip(rows, found):
            assert own == pytest.approx(expected(row, rows), abs=1e-4)


def test_groups_of_other_sizes_and_traces_of_others_are_refused(scored, rows, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="has 2 groups, but a rollout takes 3"):
        rredcot.slime.write_rollouts(scored, tmp_path, 3)
    monkeypatch.setenv("RREDCOT", json.dumps({"scored": str(scored)}))
    of_environment.cache_clear()
    other = {"tokens": [torch.tensor([1, 2, 3])], "rewards": [1.0], "response_lengths": [2], "total_lengths": [3], "kl": [torch.zeros(2)]}
    with pytest.raises(ValueError, match="its 2 tokens are none of .*scored.parquet"):
        rredcot.slime.advantages(None, other)
