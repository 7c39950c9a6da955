"""TRL's own trainer with the hook of examples/trl_sigma.py: trl_real.py <checkpoint> <scored.jsonl> <scratch>, one JSON object.

Three steps each, of stored completions and of text that TRL generates: what TRL's loss is and eq. 11 by hand, their gradients, and how far
uniform σ is from TRL's own run. Run on a CPU.
"""
import json
import os
import random
import sys

os.environ.update(TRL_EXPERIMENTAL_SILENCE="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples"))

import torch  # noqa: E402
from datasets import Dataset  # noqa: E402
from scored_rows import scored_rows  # noqa: E402
from trl import GRPOConfig, GRPOTrainer  # noqa: E402
from trl_sigma import Replay, SigmaGRPOTrainer, stored_reward  # noqa: E402

STEPS, CLIP = 3, 0.2


def logprobs_of(model, inputs, temperature):
    """Log-probabilities (B, T) of the completions, by a plain forward pass."""
    ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
    mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
    length = inputs["completion_ids"].size(1)
    logits = model(input_ids=ids, attention_mask=mask).logits[:, -length - 1 : -1]
    return (logits / temperature).log_softmax(-1).gather(-1, inputs["completion_ids"].unsqueeze(-1)).squeeze(-1)


def equation_11(new, old, advantages, sigmas):
    """−1/B Σ_i Σ_t min(ρ σ A, clip(ρ) σ A): each A (B,) of a trace, σ a list for each."""
    total = 0.0
    for i, sigma in enumerate(sigmas):
        ratio = (new[i, : len(sigma)] - old[i, : len(sigma)]).exp()
        gain = advantages[i] * torch.tensor(sigma)
        total = total - torch.minimum(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain).sum()
    return total / len(sigmas)


class Checked:
    """Beside a trainer: TRL's loss and eq. 11 at every step, and their gradients' largest difference, relative to the largest number."""

    def _generate_and_score_completions(self, inputs):
        out = super()._generate_and_score_completions(inputs)
        # by the ids, since TRL shuffles a batch before it takes steps on it
        self.sigma_by_ids = {self.ids_of(out, i): example["sigma"] for i, example in enumerate(inputs)}
        return out

    def ids_of(self, batch, i):
        return tuple(batch["completion_ids"][i][batch["completion_mask"][i].bool()].tolist())

    def _compute_loss(self, model, inputs):
        loss = super()._compute_loss(model, inputs)
        sigmas = [self.sigma_by_ids[self.ids_of(inputs, i)] for i in range(len(inputs["completion_ids"]))]
        new = logprobs_of(model, inputs, self.temperature)
        old = inputs.get("old_per_token_logps", new.detach())
        # A of a trace is A·w of a token over its w; the mean over a trace of w is 1
        kept = inputs["completion_mask"]
        trace = (inputs["advantages"] * kept).sum(1) / kept.sum(1)
        hand = equation_11(new, old, trace, sigmas)
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        theirs, ours = (torch.autograd.grad(each, weights, retain_graph=True, allow_unused=True) for each in (loss, hand))
        pairs = [(a, b) for a, b in zip(theirs, ours) if a is not None]
        largest = max(a.abs().max() for a, _ in pairs)
        off = max((a - b).abs().max() for a, b in pairs) / largest
        self.checked.append({"loss": loss.item(), "hand": hand.item(), "gradient": off.item(), "largest": largest.item()})
        return loss


class WithStoredOld(GRPOTrainer):
    """TRL's own advantages, clipped against the stored log-probabilities."""

    def _generate_and_score_completions(self, inputs):
        out = super()._generate_and_score_completions(inputs)
        out.setdefault("old_per_token_logps", out["sampling_per_token_logps"])
        return out


class Generated:
    """σ for what TRL itself has generated: random numbers that sum to 1, or uniform."""

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        for example, ids in zip(inputs, completion_ids_list):
            dice = random.Random(str(ids))
            parts = [1.0] * len(ids) if self.is_uniform else [dice.uniform(-0.5, 1.5) for _ in ids]
            example["sigma"] = [part / (sum(parts) or 1.0) for part in parts]
        return super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)


def odd_reward(completion_ids, **_):
    return [float(sum(ids) % 5) for ids in completion_ids]


def run(kind, checkpoint, folder, rows, rollout, **options):
    config = GRPOConfig(
        output_dir=folder, loss_type="grpo", learning_rate=1e-3, max_steps=STEPS, bf16=False, use_cpu=True, seed=7,
        report_to=[], save_strategy="no", logging_steps=1, disable_tqdm=True, **options,
    )
    prompts = list({row["prompt"]: {"prompt": row["prompt"]} for row in rows}.values())
    trainer = kind(
        model=checkpoint,
        args=config,
        reward_funcs=stored_reward if rollout else odd_reward,
        train_dataset=Dataset.from_list(prompts),
        **({"rollout_func": rollout} if rollout else {}),
    )
    trainer.checked = []
    trainer.train()
    logged = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return trainer.checked, logged, {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}


def moved(one, other):
    return max((one[name] - other[name]).abs().max().item() for name in one)


def stored(checkpoint, scored, scratch):
    rows = scored_rows(scored)
    group = sum(row["prompt"] == rows[0]["prompt"] for row in rows)
    options = {"temperature": 1.0, "num_generations": group, "per_device_train_batch_size": group, "max_completion_length": max(len(row["completion_ids"]) for row in rows)}
    flat = [{**row, "sigma": [1 / len(row["sigma"])] * len(row["sigma"])} for row in rows]
    with open(os.path.join(scratch, "flat.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in flat)
    flat = scored_rows(os.path.join(scratch, "flat.jsonl"))
    checked, _, ours = run(type("Stored", (Checked, SigmaGRPOTrainer), {}), checkpoint, scratch, rows, Replay(rows), **options)
    _, uniform_losses, uniform = run(SigmaGRPOTrainer, checkpoint, scratch, flat, Replay(flat), **options)
    _, plain_losses, plain = run(WithStoredOld, checkpoint, scratch, rows, Replay(rows), **options)
    return {"steps": checked, "uniform": moved(uniform, plain), "moved": moved(ours, plain), "losses": [uniform_losses, plain_losses]}


def text(checkpoint, scored, scratch):
    rows = scored_rows(scored)
    # each batch is trained on three times, so that the ratio is not 1
    # the embedded policy is sure of itself: without heat all traces would be one
    options = {"temperature": 3.0, "num_generations": 4, "per_device_train_batch_size": 4, "max_completion_length": 16, "num_iterations": STEPS}
    kinds = {
        "ours": type("Ours", (Checked, Generated, SigmaGRPOTrainer), {"is_uniform": False}),
        "uniform": type("Uniform", (Generated, SigmaGRPOTrainer), {"is_uniform": True}),
        "plain": GRPOTrainer,
    }
    done = {name: run(kind, checkpoint, scratch, rows, None, **options) for name, kind in kinds.items()}
    weights = {name: each[2] for name, each in done.items()}
    return {
        "steps": done["ours"][0],
        "uniform": moved(weights["uniform"], weights["plain"]),
        "moved": moved(weights["ours"], weights["plain"]),
        "losses": [done["uniform"][1], done["plain"][1]],
    }


def refused(checkpoint, scratch):
    """What the hook says of options under which σ would have no effect."""
    said = {}
    for option, value in (("importance_sampling_level", "sequence"), ("loss_type", "luspo")):
        config = GRPOConfig(output_dir=scratch, report_to=[], use_cpu=True, bf16=False, **{option: value})
        try:
            SigmaGRPOTrainer(model=checkpoint, args=config, reward_funcs=stored_reward, train_dataset=Dataset.from_list([{"prompt": "p"}]))
        except ValueError as error:
            said[option] = str(error)
    return said


if __name__ == "__main__":
    checkpoint, scored, scratch = sys.argv[1:]
    printed, sys.stdout = sys.stdout, sys.stderr
    found = {"stored": stored(checkpoint, scored, scratch), "text": text(checkpoint, scored, scratch), "refused": refused(checkpoint, scratch)}
    print(json.dumps(found), file=printed)
