"""verl's own parts with the hook of examples/verl_sigma.py: verl_real.py <checkpoint> <scored file> <scratch>, one JSON object.

V1: verl's configuration with the flags of the example's docstring, its trainer class, dataset, agent-loop worker (our `Replay`), TransferQueue on
Ray, padding, and `_compute_advantage` (ours around verl's). Then the older trainer's `compute_advantage`. No step of the actor, no engine, on a CPU.
"""
import asyncio
import json
import os
import sys

CHECKPOINT, SCORED, SCRATCH = sys.argv[1:]
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
os.environ.update(PYTHONPATH=EXAMPLES, VERL_USE_EXTERNAL_MODULES="verl_sigma", HF_HUB_OFFLINE="1")
sys.path.insert(0, EXAMPLES)

import numpy as np  # noqa: E402
import ray  # noqa: E402
import torch  # noqa: E402
import transfer_queue as tq  # noqa: E402
import verl  # noqa: E402
import verl_sigma  # noqa: E402
from hydra import compose, initialize_config_dir  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402
from scored_rows import scored_rows  # noqa: E402
from verl import DataProto  # noqa: E402
from verl.trainer.ppo import ray_trainer  # noqa: E402
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size  # noqa: E402
from verl.trainer.ppo.v1 import get_trainer_cls  # noqa: E402
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ  # noqa: E402
from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn  # noqa: E402

ROWS = scored_rows(SCORED, ("id", "group"))
PADDED = len(ROWS) * 3 // 2


def configuration(replay):
    flags = [
        *(f"data.{which}_files={replay}" for which in ("train", "val")),
        *("data.shuffle=False", "trainer.val_before_train=False", f"data.train_batch_size={len(ROWS)}"),
        *("algorithm.adv_estimator=grpo", "trainer.v1.trainer_mode=rredcot", "algorithm.rollout_correction.bypass_mode=True"),
        *("actor_rollout_ref.rollout.n=1", "actor_rollout_ref.rollout.name=vllm"),
        f"actor_rollout_ref.rollout.agent.agent_loop_config_path={EXAMPLES}/verl_replay.yaml",
        "actor_rollout_ref.rollout.agent.default_agent_loop=rredcot_replay",
        *(f"actor_rollout_ref.model.path={CHECKPOINT}", "data.max_prompt_length=64", "data.max_response_length=256"),
    ]
    with initialize_config_dir(config_dir=os.path.join(os.path.dirname(verl.__file__), "trainer/config"), version_base=None):
        return compose("ppo_trainer", overrides=flags)


class Worker:
    """verl's agent-loop worker in this process."""

    def __init__(self, config):
        self.own = AgentLoopWorkerTQ.__ray_metadata__.modified_class(config, None)

    def generate_sequences(self, batch):
        async def whole():
            await self.own.generate_sequences(batch)
            await asyncio.gather(*list(self.own.background_tasks))

        asyncio.run(whole())


def start_ray(tries=4):
    """Ray gives its own helpers 15 s to start, which a busy machine may need more than once."""
    try:
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=200 * 2**20, _temp_dir=os.path.join(SCRATCH, "ray"))
    except Exception:
        if tries == 1:
            raise
        ray.shutdown()
        start_ray(tries - 1)


def v1(replay):
    """The advantages of each trace by its completion, and those of the rows that verl pads with."""
    config = configuration(replay)
    start_ray()
    tq.init(OmegaConf.create({"backend": {"SimpleStorage": {"num_data_storage_units": 1}}}))
    trainer, worker = get_trainer_cls("rredcot")(config), Worker(config)
    dataset = RLHFDataset(data_files=config.data.train_files, tokenizer=worker.own.tokenizer, config=config.data, processor=None)
    trainer.train_dataloader = torch.utils.data.DataLoader(dataset, batch_size=len(ROWS), shuffle=False, collate_fn=collate_fn)
    trainer.train_dataloader_it, trainer.global_steps, trainer.agent_loop_manager = None, 1, worker
    trainer._submit_batch_to_rollout(trainer._next_train_batch())
    known = tq.kv_list(partition_id="train")["train"]
    keys = [key for key, tag in known.items() if tag.get("status") == "success"]
    batch = tq.KVBatchMeta(keys=keys, tags=[known[key] for key in keys], partition_id="train")
    batch = upsample_batch_to_divisible_size(batch, PADDED, 512)
    batch = trainer._compute_old_log_prob(batch, {})
    trainer._compute_advantage(batch, {})
    stored = tq.kv_batch_get(keys=batch.keys, partition_id="train", select_fields=["advantages", "responses", "old_log_probs"])
    rows = list(zip(*(stored[name].unbind() for name in ("responses", "advantages", "old_log_probs")), batch.tags))
    tq.close()
    ray.shutdown()
    own = [[each.tolist() for each in values] for *values, tag in rows if not tag.get("is_padding")]
    return {"rows": own, "padding": [advantages.tolist() for _, advantages, _, tag in rows if tag.get("is_padding")]}


def older():
    """Advantages and returns of the estimator `grpo_sigma`, (B, T), and of verl's own beside it."""
    width = max(len(row["completion_ids"]) for row in ROWS)
    mask, rewards = torch.zeros(len(ROWS), width), torch.zeros(len(ROWS), width)
    for i, row in enumerate(ROWS):
        length = len(row["completion_ids"])
        mask[i, :length], rewards[i, length - 1] = 1, row["reward"]  # where verl puts it
    objects = {name: np.array([row[name] for row in ROWS] + [None], dtype=object)[:-1] for name in ("sigma", "group")}

    def advantages(estimator, groups, masks):
        data = DataProto.from_dict(
            tensors={"token_level_rewards": rewards.clone(), **masks},
            non_tensors={**objects, "uid": np.array(groups, dtype=object)},
        )
        return ray_trainer.compute_advantage(data, adv_estimator=estimator, config=None).batch["advantages"].tolist()

    alone = [str(i) for i in range(len(ROWS))]  # each row a prompt of its own, as verl replays
    return {
        "weighted": advantages(verl_sigma.NAME, alone, {"response_mask": mask}),
        "without_mask": advantages(verl_sigma.NAME, alone, {"attention_mask": mask, "responses": mask.long()}),
        "plain": advantages("grpo", [row["group"] for row in ROWS], {"response_mask": mask}),
    }


if __name__ == "__main__":
    replay = os.path.join(SCRATCH, "replay.parquet")
    verl_sigma.write_rows(SCORED, replay)
    printed, sys.stdout = sys.stdout, sys.stderr
    told = {"older": older(), "v1": v1(replay)}
    print(json.dumps(told), file=printed)
