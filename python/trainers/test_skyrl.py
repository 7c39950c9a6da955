"""SkyRL's own `compute_advantages_and_returns`, on a batch of its own kind, with our trainer around it."""
import json
import types
import typing

import pytest
import typing_extensions

# below Python 3.12 pydantic refuses typing.TypedDict, which SkyRL 0.3 uses there
typing.TypedDict = typing_extensions.TypedDict
pytest.importorskip("skyrl")
import torch  # noqa: E402
from conftest import POLICY, expected  # noqa: E402
from skyrl.backends.skyrl_train.training_batch import TrainingInputBatch  # noqa: E402

import rredcot.skyrl  # noqa: E402


@pytest.mark.parametrize("kind", ["stored", "live"])
def test_advantages_are_its_own_times_the_weights(kind, scored, rows, monkeypatch):
    monkeypatch.setenv("RREDCOT", json.dumps({"scored": str(scored)} if kind == "stored" else {"policy": str(POLICY)}))
    rredcot.skyrl.of_environment.cache_clear()
    before, width = (max(len(row[name]) for row in rows) for name in ("prompt_ids", "completion_ids"))
    sequences, seen = (torch.zeros(len(rows), before + width, dtype=torch.long) for _ in range(2))
    mask, rewards = torch.zeros(len(rows), width, dtype=torch.long), torch.zeros(len(rows), width)
    for i, row in enumerate(rows):
        start, length = before - len(row["prompt_ids"]), len(row["completion_ids"])
        sequences[i, start : before + length] = torch.tensor(row["prompt_ids"] + row["completion_ids"])
        seen[i, start : before + length] = 1
        mask[i, :length], rewards[i, length - 1] = 1, row["reward"]
    batch = TrainingInputBatch(
        {"sequences": sequences, "attention_mask": seen, "response_mask": mask, "loss_mask": mask, "rewards": rewards, "values": None}
    )
    batch.metadata = {"uids": [row["group"] for row in rows], "response_length": width, "avg_response_length": 1.0, "pad_size": 0}
    kind_of = type("Trainer", (rredcot.skyrl.Trainer,), {"references": lambda self, data: [row["answer"] for row in rows]})
    trainer = object.__new__(kind_of)
    trainer.all_metrics = {}
    algorithm = types.SimpleNamespace(advantage_estimator="grpo", gamma=1.0, lambd=1.0, grpo_norm_by_std=True)
    trainer.cfg = types.SimpleNamespace(
        generator=types.SimpleNamespace(step_wise_trajectories=False), trainer=types.SimpleNamespace(algorithm=algorithm)
    )
    found = trainer.compute_advantages_and_returns(batch)["advantages"]
    for i, row in enumerate(rows):
        assert found[i, : len(row["sigma"])].tolist() == pytest.approx(expected(row, rows), abs=1e-4)
        assert (found[i, len(row["sigma"]) :] == 0).all()
