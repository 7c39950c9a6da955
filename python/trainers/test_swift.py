"""ms-swift: a step of its own GRPO with our plugin, on text that it generates."""
import json

import pytest

swift = pytest.importorskip("swift")
import torch  # noqa: E402
from conftest import POLICY  # noqa: E402
from swift import RLHFArguments, rlhf_main  # noqa: E402
from swift.rewards import ORM, orms  # noqa: E402

import rredcot  # noqa: E402
import rredcot.swift  # noqa: E402
from rredcot.swift import GRPOTrainer  # noqa: E402


class Digits(ORM):
    def __call__(self, completions, **_):
        return [float(sum(map(ord, text)) % 5) for text in completions]


def test_what_reaches_the_loss_is_its_own_times_the_weights(tmp_path, rows, monkeypatch):
    monkeypatch.setenv("RREDCOT", json.dumps({"policy": str(POLICY), "threads": 1}))
    rredcot.swift.of_environment.cache_clear()
    orms["digits"] = Digits
    lines = dict.fromkeys((row["prompt"], row["answer"]) for row in rows)
    said = [json.dumps({"messages": [{"role": "user", "content": prompt}], "answer": answer}) for prompt, answer in lines]
    (tmp_path / "data.jsonl").write_text("\n".join(said) + "\n")
    batches, seen = [], []
    plain, loss = rredcot.swift.plain, GRPOTrainer._compute_loss_and_metrics

    def before(self, samples, encoded):
        plain(self, samples, encoded)
        for own, inputs in zip(self.split_by_mini_batches(samples), encoded):
            batches.append((own, inputs["grpo_batch"].advantages.clone(), inputs["grpo_batch"].completion_mask.bool().clone()))

    def at_loss(self, model, inputs, batch):
        seen.append(batch.advantages.clone())
        return loss(self, model, inputs, batch)

    monkeypatch.setattr(rredcot.swift, "plain", before)
    monkeypatch.setattr(GRPOTrainer, "_compute_loss_and_metrics", at_loss)
    rlhf_main(RLHFArguments(
        rlhf_type="grpo", model=str(POLICY), model_type="llama", template="dummy", dataset=[str(tmp_path / "data.jsonl")], reward_funcs=["digits"],
        num_generations=4, per_device_train_batch_size=4, gradient_accumulation_steps=1, max_completion_length=48, max_length=128, max_steps=1,
        tuner_type="full", torch_dtype="float32", bf16=False, fp16=False, use_cpu=True, use_vllm=False, output_dir=str(tmp_path / "out"),
        report_to=[], save_strategy="no", eval_strategy="no", loss_type="grpo", temperature=3.0, split_dataset_ratio=0, logging_steps=1,
        dataset_num_proc=1, attn_impl="eager", gradient_checkpointing=False,
    ))
    [(samples, plain_of, mask)], [found] = batches, seen
    moved = 0
    for i, sample in enumerate(samples):
        labels, ids = sample.encoded["labels"], sample.encoded["input_ids"]
        start = next(at for at, label in enumerate(labels) if label != -100)
        value = plain_of[i][mask[i]][0].item()
        row = {"prompt_ids": list(ids[:start]), "completion_ids": list(ids[start:]), "reference": sample.extra["answer"], "reward": float(value > 0)}
        [sigma] = rredcot.score([row], policy=POLICY, baseline=0.5, threads=1)["sigma"].to_pylist() if value else [[1 / mask[i].sum().item()] * int(mask[i].sum())]
        hand = value * torch.tensor(sigma) * len(sigma)
        assert found[i][mask[i]].tolist() == pytest.approx(hand.tolist(), abs=1e-3)
        moved = max(moved, (hand - value).abs().max().item())
    assert moved > 0.01
