"""One step of rredcot.trl on a group of stored completions, scored live, in as many processes as torchrun starts: its part of the group in
each. Writes what each trained on, and the gradient of all: trl_processes.py <folder> <rredcot of the trainer, as JSON> [option=JSON…]"""
import json
import os
import sys

import torch
import trl
from conftest import CHECKOUT, POLICY
from datasets import Dataset
from transformers import TrainerCallback

from rredcot.trl import GRPOTrainer

TRACES = [json.loads(line) for line in (CHECKOUT / "fixtures/chains.jsonl").read_text().splitlines()[8:16]]


def rollout(prompts, trainer):
    start = trainer.accelerator.process_index * len(prompts)
    own = TRACES[start : start + len(prompts)]
    given = {name: [row[name] for row in own] for name in ("prompt_ids", "completion_ids")}
    return {**given, "logprobs": [[0.0] * len(ids) for ids in given["completion_ids"]], "stored": [row["reward"] for row in own]}


def reward(completions, stored, **_):
    return stored


class Told(TrainerCallback):
    def on_pre_optimizer_step(self, args, state, control, model=None, **_):
        if state.is_world_process_zero:
            torch.save([each.grad.clone() for each in model.parameters()], f"{folder}/gradient.pt")


class Trainer(GRPOTrainer):
    def _generate_and_score_completions(self, inputs):
        out = super()._generate_and_score_completions(inputs)
        kept = out["completion_mask"].bool()
        told = [(ids[own].tolist(), value[own].tolist()) for ids, value, own in zip(out["completion_ids"], out["advantages"], kept)]
        torch.save((told, self._live.told["scored"]), f"{folder}/{self.accelerator.process_index}.pt")
        return out


folder, ours = sys.argv[1:]
world = int(os.environ.get("WORLD_SIZE", "1"))
args = trl.GRPOConfig(
    output_dir=folder, loss_type="grpo", num_generations=8, per_device_train_batch_size=8 // world, max_completion_length=200, max_steps=1,
    max_grad_norm=1e9, bf16=False, use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True,
)
data = Dataset.from_list([{"prompt": TRACES[0]["prompt"], "answer": TRACES[0]["answer"]}])
Trainer(str(POLICY), reward, args, data, rollout_func=rollout, callbacks=[Told()], rredcot=json.loads(ours)).train()
