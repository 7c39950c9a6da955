"""TRL: GRPO on scored traces, each token's advantage times w = σ·T.

rredcot's tests run three steps with TRL 1.16.0 (torch 2.13.0) in one CPU process, where pip has them: each step's loss equals eq. 11
to 1e-6, and uniform σ trains the same weights, bit for bit, as TRL alone, both on text that TRL generates and on stored completions
(with the stored log-probabilities as the old ones; TRL alone takes the ratio as 1). Not run on a GPU or in several processes.
hooks/trl.json lists the names in TRL that it relies on.

    rredcot score traces.jsonl --policy ./policy -o scored.jsonl
    PYTHONPATH=examples python examples/trl_sigma.py ./checkpoint scored.jsonl

The scored file is JSONL, gzipped or not, or Parquet, which needs pyarrow.

Nothing is generated: `rollout_func` gives TRL the stored completions. `loss_type="grpo"` makes the update RREDCoT's eq. 11;
dapo, bnpo and dr_grpo keep their own length weighting. importance_sampling_level="sequence" and luspo are refused: they average over a
trace before the loss, so that σ would have no effect. vespo and off_policy_mask_threshold decide by the sign of one advantage per trace:
their formulas do not hold with σ. TRL before 1.16 has a fused loss behind use_liger_kernel=True that takes one advantage per trace: leave it off.
"""
import json
import sys
from collections import defaultdict, deque

try:
    import torch
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer
except ImportError as error:
    raise SystemExit(f"trl_sigma.py: {error}: pip install trl datasets torch requests (run with TRL 1.16.0)") from None

from scored_rows import scored_rows
from sigma_weights import sigma_weights

REPLAYED = ("prompt_ids", "completion_ids", "logprobs", "sigma", "reward")


def weight_advantages(advantages, completion_ids, sigmas):
    """Advantages (B,) of traces → (B, T) of tokens: A·σ·T, 0 beyond the completion. `completion_ids` (B, T), padded right."""
    lengths = torch.tensor([len(sigma) for sigma in sigmas], device=completion_ids.device)
    places = torch.arange(completion_ids.size(1), device=completion_ids.device)
    return advantages[:, None] * sigma_weights(sigmas, places < lengths[:, None])


class SigmaGRPOTrainer(GRPOTrainer):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        for option, value in (("importance_sampling_level", "sequence"), ("loss_type", "luspo")):
            if getattr(self.args, option, None) == value:
                raise ValueError(f'{option}="{value}" averages a trace\'s tokens, so σ would have no effect: use loss_type="grpo" with importance_sampling_level="token"')

    def _generate_and_score_completions(self, inputs):
        out = super()._generate_and_score_completions(inputs)
        # extra keys that rollout_func returned are now in each input
        sigmas = [example["sigma"] for example in inputs]
        out["advantages"] = weight_advantages(out["advantages"], out["completion_ids"], sigmas)
        # from the second step on the traces are off-policy: without this the ratio would be taken as 1
        if "sampling_per_token_logps" in out:
            out.setdefault("old_per_token_logps", out["sampling_per_token_logps"])
        return out


def key(prompt):
    return prompt if isinstance(prompt, str) else json.dumps(prompt, sort_keys=True)


class Replay:
    """A `rollout_func` that cycles through the stored traces of each prompt.

    Each process has its own: make per_device_train_batch_size a multiple of num_generations, so that one process asks for all
    traces of a prompt; otherwise two processes train on the same ones.
    """

    def __init__(self, rows):
        self.traces = defaultdict(deque)
        for row in rows:
            self.traces[key(row["prompt"])].append(row)
        self.prompts = {key(row["prompt"]): row["prompt"] for row in rows}

    def __call__(self, prompts, trainer):
        rows = []
        for prompt in prompts:
            traces = self.traces[key(prompt)]
            rows.append(traces[0])
            traces.rotate(-1)
        return {name: [row[name] for row in rows] for name in REPLAYED}


def stored_reward(completions, reward, **_):
    return reward


def main(checkpoint, scored):
    rows = scored_rows(scored)
    replay = Replay(rows)
    fewest = min(replay.traces, key=lambda prompt: len(replay.traces[prompt]))
    group = len(replay.traces[fewest])
    if group < 2:
        raise SystemExit(f"{scored}: only one trace with a known reward has the prompt {fewest!r:.60}: GRPO's baseline needs several")
    config = GRPOConfig(
        output_dir="trl-sigma",
        loss_type="grpo",
        num_generations=group,
        per_device_train_batch_size=group,
        max_completion_length=max(len(row["completion_ids"]) for row in rows),
        temperature=1.0,
        learning_rate=1e-6,
        bf16=torch.cuda.is_available(),  # TRL defaults to bfloat16 and then refuses a CPU
    )
    trainer = SigmaGRPOTrainer(
        model=checkpoint,
        args=config,
        reward_funcs=stored_reward,
        train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in replay.prompts.values()]),
        rollout_func=replay,
    )
    trainer.train()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: trl_sigma.py <checkpoint> <scored file>")
    main(*sys.argv[1:])
