"""TRL's GRPOTrainer with an advantage for every token: its own advantage times σ·T.

    from rredcot.trl import GRPOTrainer                     # in place of trl's; a column `answer` in the dataset

Live, each batch is scored between generation and loss. The model in training answers, with the weights of this step; or a policy's
graph, where `policy` names its folder. Replayed, nothing is generated:

    replay = rredcot.trl.Replay("scored.parquet")
    GRPOTrainer(model, replay.reward, args, replay.dataset, rollout_func=replay)

`loss_type="grpo"` makes the update RREDCoT's eq. 11; dapo, bnpo and dr_grpo keep their own weights of lengths.
"""
from __future__ import annotations

import itertools
import json
import os
import subprocess
import tempfile
from typing import Any

import torch
import trl

from rredcot import _node
from rredcot._credit import Live, spread, tokens_of, weigh, weights_of
from rredcot._errors import Error
from rredcot._scored import NEEDED, by_group, scored_rows
from rredcot.answerers import Model


class Credit:
    """Goes before a class that derives from TRL's GRPOTrainer: `class Trainer(rredcot.trl.Credit, AxolotlGRPOTrainer)`.

    rredcot  `reference`, the dataset's column with the right answer (default: answer); `policy`, a folder whose graph answers in the
             model's place, read again when it has changed; `exit_template`, a file; and flags of `rredcot score`
    """

    def __init__(self, *args: Any, rredcot: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        refuse(self.args, type(self))
        flags = dict(rredcot or {})
        self._reference = flags.pop("reference", "answer")
        self._score_flags, self._live = flags, None

    def _generate_and_score_completions(self, inputs):
        out = super()._generate_and_score_completions(inputs)
        if not self.model.training:
            return out
        out["advantages"] = out["advantages"][:, None].expand(out["completion_ids"].shape)
        # what rollout_func returned beside the tokens is in each input
        out["advantages"] = self._replayed(inputs, out) if "sigma" in inputs[0] else self._scored(inputs, out)
        return out

    def _replayed(self, inputs, out):
        # the traces are off-policy from the second step on: without this the ratio would be taken as 1
        if "sampling_per_token_logps" in out:
            out.setdefault("old_per_token_logps", out["sampling_per_token_logps"])
        kept = out["completion_mask"].sum(1).tolist()
        for example, length in zip(inputs, kept):
            if length not in (0, len(example["sigma"])):
                raise ValueError(f"{length} tokens in the batch and {len(example['sigma'])} σ: the completion was cut, or tokenized again")
        # of a trace that TRL has masked whole, no token
        weights = [weights_of(example["sigma"] if length else [1.0])[:length] for example, length in zip(inputs, kept)]
        return spread(out["advantages"], weights, out["completion_mask"])

    def _scored(self, inputs, out):
        if self._live is None:
            self._live = self._open()
        if any(self._reference not in example for example in inputs):
            raise ValueError(f"the dataset has no column {self._reference!r}: rredcot={{'reference': <its name>}}")
        ids, seen = (torch.cat([out[f"prompt_{kind}"], out[f"completion_{kind}"]], dim=1) for kind in ("ids", "mask"))
        # what a tool has said the policy was shown
        acted = out["completion_mask"].bool() & out.get("tool_mask", out["completion_mask"]).bool()
        references = [example[self._reference] for example in inputs]
        found = weigh(self._live, tokens_of(ids, seen, acted), acted, out["advantages"], references)
        for name, value in self._live.told.items():
            self._metrics["train"][f"rredcot/{name}"].append(float(value))
        return found

    def _open(self):
        flags = self._score_flags
        if "policy" in flags:
            return Live(**flags)
        if self.is_fsdp_enabled or (self.is_deepspeed_enabled and self.accelerator.state.deepspeed_plugin.zero_stage == 3):
            raise ValueError("FSDP and ZeRO-3 leave a process a part of the weights, which cannot answer alone: rredcot={'policy': <folder>}")
        self._text = tempfile.TemporaryDirectory(prefix="rredcot-")
        template = flags.pop("exit_template", None)
        text = text_folder(self.processing_class, self.model, self._text.name, template)
        # the same weights as the trainer's, without what spreads or compiles them
        model = self.accelerator.unwrap_model(self.model)
        return Live(text, Model(model, temperature=self.temperature), **flags)


class GRPOTrainer(Credit, trl.GRPOTrainer):
    """TRL's, with `rredcot`, a dict as of `Credit`."""


def refuse(args, kind):
    """Raises ValueError for options under which advantages of tokens have no effect, and TRL says nothing."""
    for option, value in (("importance_sampling_level", "sequence"), ("loss_type", "luspo")):
        if getattr(args, option, None) == value:
            raise ValueError(
                f'{option}="{value}" averages a trace\'s tokens, so σ would have no effect: use loss_type="grpo" with importance_sampling_level="token"'
            )
    # from TRL 1.16 on Liger replaces layers alone; before, a loss that takes one advantage a trace
    if getattr(args, "use_liger_kernel", False) and hasattr(kind, "compute_liger_loss"):
        raise ValueError("use_liger_kernel=True has a loss of its own before TRL 1.16, which takes one advantage a trace: leave it off")


def text_folder(tokenizer, model, folder, exit_template=None):
    """A policy's folder without a graph, of what is in memory: tokenizer, templates, vocabulary. Returns its path."""
    checkpoint, text = os.path.join(folder, "checkpoint"), os.path.join(folder, "text")
    getattr(tokenizer, "tokenizer", tokenizer).save_pretrained(checkpoint)
    model.config.save_pretrained(checkpoint)
    words = ["policy", "build", checkpoint, "-o", text, "--tokenizer-only", *(["--exit-template", os.fspath(exit_template)] if exit_template else [])]
    done = subprocess.run(_node.command(words), env=_node.environment(), capture_output=True, text=True, encoding="utf8", check=False)
    if done.returncode != 0:
        raise Error(done.returncode, done.stderr.strip())
    return text


class Replay:
    """A `rollout_func` that gives the stored traces of a scored table or file, those of each prompt in turn.

    dataset, reward   what the trainer takes beside it: each prompt once; the stored rewards
    num_generations   for GRPOConfig: traces of the prompt that has fewest

    Each process has its own: make per_device_train_batch_size a multiple of num_generations, so that one process asks for all traces
    of a prompt; otherwise two train on the same ones.
    """

    def __init__(self, scored: Any) -> None:
        from datasets import Dataset

        groups = by_group(scored_rows(scored), lambda row: _key(row["prompt"]))
        self._traces = {key: itertools.cycle(rows) for key, rows in groups.items()}
        self.dataset = Dataset.from_list([{"prompt": rows[0]["prompt"]} for rows in groups.values()])
        alone = min(groups, key=lambda key: len(groups[key]))
        self.num_generations = len(groups[alone])
        if self.num_generations < 2:
            raise ValueError(f"only one trace with a known reward has the prompt {alone!r:.60}: GRPO's baseline needs several")

    def __call__(self, prompts, trainer):
        rows = [next(self._traces[_key(prompt)]) for prompt in prompts]
        return {name: [row[name] for row in rows] for name in NEEDED}

    @staticmethod
    def reward(completions, reward, **_):
        return reward


def _key(prompt):
    return prompt if isinstance(prompt, str) else json.dumps(prompt, sort_keys=True)
