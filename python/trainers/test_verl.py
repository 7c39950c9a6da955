"""verl's own parts: its configuration, trainer class, dataset, agent-loop worker, TransferQueue on Ray, padding and advantages. No step of the
actor, no engine, on a CPU."""
import asyncio
import json
import os

import pytest

verl = pytest.importorskip("verl")
tq = pytest.importorskip("transfer_queue")
import numpy as np  # noqa: E402
import pyarrow.parquet  # noqa: E402
import ray  # noqa: E402
import torch  # noqa: E402
from conftest import POLICY, advantage, expected  # noqa: E402
from hydra import compose, initialize_config_dir  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402
from verl import DataProto  # noqa: E402
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput  # noqa: E402
from verl.trainer.ppo import ray_trainer  # noqa: E402
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size  # noqa: E402
from verl.trainer.ppo.v1 import get_trainer_cls  # noqa: E402
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ  # noqa: E402
from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn  # noqa: E402

import rredcot.exports  # noqa: E402
import rredcot.verl  # noqa: E402


@pytest.fixture(scope="module")
def queue(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ray")
    for left in range(4):  # Ray gives its own helpers 15 s to start, which a busy machine may need more than once
        try:
            ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=200 * 2**20, _temp_dir=str(folder)[:60])
            break
        except Exception:
            if left == 3:
                raise
            ray.shutdown()
    tq.init(OmegaConf.create({"backend": {"SimpleStorage": {"num_data_storage_units": 1}}}))
    yield
    tq.close()
    ray.shutdown()


def configuration(files, mode="rredcot", *more):
    flags = [
        *(f"data.{which}_files={files}" for which in ("train", "val")),
        *("data.shuffle=False", "trainer.val_before_train=False", "data.train_batch_size=16", "actor_rollout_ref.rollout.name=vllm"),
        *("algorithm.adv_estimator=grpo", f"trainer.v1.trainer_mode={mode}", "algorithm.rollout_correction.bypass_mode=True"),
        *(f"actor_rollout_ref.model.path={POLICY}", "data.max_prompt_length=64", "data.max_response_length=256"),
    ]
    with initialize_config_dir(config_dir=os.path.join(os.path.dirname(verl.__file__), "trainer/config"), version_base=None):
        return compose("ppo_trainer", overrides=[*flags, *more])


def close_to(found, hand):
    assert len(found) == len(hand)
    assert found.tolist() == pytest.approx(hand, abs=1e-4)


def of_uids(uids):
    """What lies in the queue, of these prompts."""
    known = tq.kv_list(partition_id="train")["train"]
    keys = [key for key, tag in known.items() if tag.get("status") == "success" and key.rsplit("_", 2)[0] in uids]
    return tq.KVBatchMeta(keys=keys, tags=[known[key] for key in keys], partition_id="train")


class Worker:
    """verl's agent-loop worker in this process."""

    def __init__(self, config):
        self.own = AgentLoopWorkerTQ.__ray_metadata__.modified_class(config, None)

    def generate_sequences(self, batch):
        async def whole():
            await self.own.generate_sequences(batch)
            await asyncio.gather(*list(self.own.background_tasks))

        asyncio.run(whole())


def test_v1_replays(queue, scored, rows, tmp_path):
    pyarrow.parquet.write_table(rredcot.exports.verl(scored), tmp_path / "replay.parquet")
    agent = ["actor_rollout_ref.rollout.n=1", "actor_rollout_ref.rollout.agent.default_agent_loop=rredcot_replay"]
    config = configuration(tmp_path / "replay.parquet", "rredcot", *agent)
    trainer, worker = get_trainer_cls("rredcot")(config), Worker(config)
    dataset = RLHFDataset(data_files=config.data.train_files, tokenizer=worker.own.tokenizer, config=config.data, processor=None)
    trainer.train_dataloader = torch.utils.data.DataLoader(dataset, batch_size=len(rows), shuffle=False, collate_fn=collate_fn)
    trainer.train_dataloader_it, trainer.global_steps, trainer.agent_loop_manager = None, 1, worker
    trainer._submit_batch_to_rollout(trainer._next_train_batch())
    batch = of_uids({key.rsplit("_", 2)[0] for key in tq.kv_list(partition_id="train")["train"]})
    batch = upsample_batch_to_divisible_size(batch, 24, 512)
    batch = trainer._compute_old_log_prob(batch, {})
    trainer._compute_advantage(batch, {})
    stored = tq.kv_batch_get(keys=batch.keys, partition_id="train", select_fields=["advantages", "responses", "old_log_probs"])
    by_ids = {tuple(row["completion_ids"]): row for row in rows}
    padding = 0
    for ids, found, old, tag in zip(*(stored[name].unbind() for name in ("responses", "advantages", "old_log_probs")), batch.tags):
        if tag.get("is_padding"):
            padding += 1
            assert (found == 0).all()
            continue
        row = by_ids[tuple(ids.tolist())]
        close_to(found, expected(row, rows))
        assert old.tolist() == pytest.approx(row["logprobs"], abs=1e-6)
    assert (len(batch.keys), padding) == (24, 8)


def test_v1_scores_what_it_has_generated(queue, rows, monkeypatch):
    monkeypatch.setenv("RREDCOT", json.dumps({"policy": str(POLICY)}))
    rredcot.verl.of_environment.cache_clear()
    worker = AgentLoopWorkerTQ.__ray_metadata__.modified_class
    own = object.__new__(worker)
    own.processor = own.tokenizer = own.reward_loop_worker_handles = None
    own.distillation_enabled = False

    async def put():
        for n, row in enumerate(rows):
            output = AgentLoopOutput(
                prompt_ids=row["prompt_ids"], response_ids=row["completion_ids"], response_mask=[1] * len(row["completion_ids"]),
                response_logprobs=row["logprobs"], reward_score=row["reward"], num_turns=2, metrics={},
                extra_fields={"min_global_steps": 0, "max_global_steps": 0},
            )
            # as rollout.n=8 does: one uid a prompt
            about = {"uid": row["group"].replace("_", "-"), "session_id": n % 8, "global_steps": 0, "raw_prompt": [{"role": "user", "content": "x"}]}
            await worker._agent_loop_postprocess(own, output, False, reward_model={"ground_truth": row["answer"]}, **about)

    asyncio.run(put())
    trainer = object.__new__(get_trainer_cls("rredcot"))
    trainer.config = configuration("none.parquet", "rredcot", "actor_rollout_ref.rollout.n=8")
    batch = of_uids({row["group"].replace("_", "-") for row in rows})
    assert len(batch.keys) == 16
    trainer._compute_old_log_prob(batch, {})
    metrics = {}
    trainer._compute_advantage(batch, metrics)
    stored = tq.kv_batch_get(keys=batch.keys, partition_id="train", select_fields=["advantages", "responses"])
    by_ids = {tuple(row["completion_ids"]): row for row in rows}
    scored = 0
    for ids, found in zip(stored["responses"].unbind(), stored["advantages"].unbind()):
        row = by_ids[tuple(ids.tolist())]
        close_to(found, expected(row, rows))
        scored += advantage(row, rows, 1e-6) != 0
    assert (metrics["rredcot/scored"], metrics["rredcot/rejected"]) == (scored, 0) and scored >= 8


@pytest.mark.parametrize("mode", ["colocate_async", "separate_async"])
def test_asynchronous_modes_are_refused_by_name(mode):
    with pytest.raises(ValueError, match=f"trainer_mode={mode}: .*trainer_mode=rredcot"):
        get_trainer_cls(mode)(config=configuration("none.parquet", mode))


def test_an_estimator_that_gives_each_token_its_own_is_refused():
    with pytest.raises(ValueError, match="an advantage of its own"):
        rredcot.verl.row_of([1], [2, 3], [1, 1], torch.tensor([0.1, 0.2]), reference="4")


@pytest.mark.parametrize("kind", ["replayed", "live"])
def test_the_older_trainer(kind, rows, monkeypatch):
    monkeypatch.setenv("RREDCOT", json.dumps({"policy": str(POLICY)}))
    rredcot.verl.of_environment.cache_clear()
    width, before = (max(len(row[name]) for row in rows) for name in ("completion_ids", "prompt_ids"))
    responses, mask, rewards = (torch.zeros(len(rows), width) for _ in range(3))
    prompts, seen = torch.zeros(len(rows), before), torch.zeros(len(rows), before)
    for i, row in enumerate(rows):
        length, start = len(row["completion_ids"]), before - len(row["prompt_ids"])
        mask[i, :length], rewards[i, length - 1] = 1, row["reward"]  # where verl puts it
        responses[i, :length], prompts[i, start:], seen[i, start:] = torch.tensor(row["completion_ids"]), torch.tensor(row["prompt_ids"]), 1
    objects = lambda values: np.array([*values, None], dtype=object)[:-1]  # noqa: E731
    # each replayed row is a prompt of its own
    own = {"sigma": [row["sigma"] for row in rows], "group": [row["group"] for row in rows], "uid": [str(i) for i in range(len(rows))]}
    if kind == "live":
        own = {"uid": [row["group"] for row in rows], "reward_model": [{"ground_truth": row["answer"]} for row in rows]}
    tensors = {"prompts": prompts.long(), "responses": responses.long(), "attention_mask": torch.cat([seen, mask], 1), "token_level_rewards": rewards}
    data = DataProto.from_dict(tensors=tensors, non_tensors={name: objects(values) for name, values in own.items()})
    found = ray_trainer.compute_advantage(data, adv_estimator=rredcot.verl.NAME, config=None).batch["advantages"]
    for i, row in enumerate(rows):
        close_to(found[i, : len(row["sigma"])], expected(row, rows))
        assert (found[i, len(row["sigma"]) :] == 0).all()
