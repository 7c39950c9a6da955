"""axolotl's GRPO trainer, which derives from TRL's, with our part of it before."""
import pytest

pytest.importorskip("axolotl")
from axolotl.core.trainers.grpo.args import AxolotlGRPOConfig  # noqa: E402
from axolotl.core.trainers.grpo.trainer import AxolotlGRPOTrainer  # noqa: E402
from conftest import POLICY, expected  # noqa: E402

import rredcot.trl  # noqa: E402


class Trainer(rredcot.trl.Credit, AxolotlGRPOTrainer):
    def _compute_loss(self, model, inputs):
        self.seen = inputs
        return super()._compute_loss(model, inputs)


def test_a_step_s_advantages_are_its_own_times_the_weights(scored, rows, tmp_path):
    replay = rredcot.trl.Replay(scored)
    options = {"num_generations": 8, "per_device_train_batch_size": 8, "max_completion_length": 200, "max_steps": 1, "loss_type": "grpo"}
    args = AxolotlGRPOConfig(output_dir=str(tmp_path), bf16=False, use_cpu=True, report_to=[], save_strategy="no", **options)
    trainer = Trainer(str(POLICY), replay.reward, args, replay.dataset, rollout_func=replay)
    trainer.train()
    by_ids = {tuple(row["completion_ids"]): row for row in rows}
    for ids, mask, found in zip(*(trainer.seen[name] for name in ("completion_ids", "completion_mask", "advantages"))):
        row = by_ids[tuple(ids[mask.bool()].tolist())]
        assert found[mask.bool()].tolist() == pytest.approx(expected(row, rows, 1e-4), abs=1e-4)
