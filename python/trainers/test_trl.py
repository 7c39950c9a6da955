"""TRL's own trainer: eq. 11 by hand, uniform σ against TRL alone, and credit by the weights of each step."""
import json
import os
import random
import re
import runpy
import subprocess
import sys

import pytest

trl = pytest.importorskip("trl")
import torch  # noqa: E402
from conftest import CHECKOUT, POLICY, expected  # noqa: E402
from datasets import Dataset  # noqa: E402

import rredcot  # noqa: E402
import rredcot.trl  # noqa: E402
from rredcot.trl import GRPOTrainer, Replay  # noqa: E402

STEPS, CLIP = 3, 0.2
LIVE = {"exit_template": POLICY / "exit_template.json"}


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


def ids_of(batch, i):
    return tuple(batch["completion_ids"][i][batch["completion_mask"][i].bool()].tolist())


class Checked:
    """Beside a trainer: TRL's loss and eq. 11 at every step, and their gradients' largest difference, relative to the largest number."""

    def _generate_and_score_completions(self, inputs):
        out = super()._generate_and_score_completions(inputs)
        # by the ids, since TRL shuffles a batch before it takes steps on it
        self.sigma_by_ids = {ids_of(out, i): example["sigma"] for i, example in enumerate(inputs)}
        return out

    def _compute_loss(self, model, inputs):
        loss = super()._compute_loss(model, inputs)
        sigmas = [self.sigma_by_ids[ids_of(inputs, i)] for i in range(len(inputs["completion_ids"]))]
        new = logprobs_of(model, inputs, self.temperature)
        old = inputs.get("old_per_token_logps", new.detach())
        # A of a trace is A·w of a token over its w; the mean over a trace of w is 1
        kept = inputs["completion_mask"]
        hand = equation_11(new, old, (inputs["advantages"] * kept).sum(1) / kept.sum(1), sigmas)
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        theirs, ours = (torch.autograd.grad(each, weights, retain_graph=True, allow_unused=True) for each in (loss, hand))
        pairs = [(a, b) for a, b in zip(theirs, ours) if a is not None]
        off = max((a - b).abs().max() for a, b in pairs) / max(a.abs().max() for a, _ in pairs)
        self.checked.append((loss.item(), hand.item(), off.item()))
        return loss


class WithStoredOld(trl.GRPOTrainer):
    """TRL's own advantages, clipped against the stored log-probabilities."""

    def _generate_and_score_completions(self, inputs):
        out = super()._generate_and_score_completions(inputs)
        out.setdefault("old_per_token_logps", out["sampling_per_token_logps"])
        return out


class Random:
    """σ for what TRL itself has generated: random numbers that sum to 1, or uniform."""

    is_uniform = False

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        for example, ids in zip(inputs, completion_ids_list):
            dice = random.Random(str(ids))
            parts = [1.0] * len(ids) if self.is_uniform else [dice.uniform(-0.5, 1.5) for _ in ids]
            example["sigma"] = [part / (sum(parts) or 1.0) for part in parts]
        return super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)


class Uniform(Random):
    is_uniform = True


def odd_reward(completion_ids, **_):
    return [float(sum(ids) % 5) for ids in completion_ids]


def config(folder, of=trl.GRPOConfig, **options):
    return of(**{
        **{"output_dir": str(folder), "loss_type": "grpo", "learning_rate": 1e-3, "max_steps": STEPS, "bf16": False, "use_cpu": True},
        **{"seed": 7, "report_to": [], "save_strategy": "no", "logging_steps": 1, "disable_tqdm": True, "temperature": 1.0},
        **options,
    })


def run(kind, folder, dataset, reward, rollout=None, more=None, **options):
    trainer = kind(str(POLICY), reward, config(folder, **options), dataset, **({"rollout_func": rollout} if rollout else {}), **(more or {}))
    trainer.checked = []
    trainer.train()
    return trainer


def weights(trainer):
    return {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}


def far(one, other):
    return max((one[name] - other[name]).abs().max().item() for name in one)


@pytest.fixture(scope="module", params=["stored", "text"])
def runs(request, tmp_path_factory, scored, rows):
    """Ours, one of uniform σ, and TRL's own; of stored completions and of text that TRL generates."""
    folder = tmp_path_factory.mktemp("trl")
    if request.param == "text":
        dataset = Dataset.from_list([{"prompt": prompt} for prompt in dict.fromkeys(row["prompt"] for row in rows)])
        # each batch is trained on three times, so that the ratio is not 1; the embedded policy is sure of itself: without heat all traces would be one
        options = {"num_generations": 4, "per_device_train_batch_size": 4, "max_completion_length": 16, "num_iterations": STEPS, "temperature": 3.0}
        kinds = {"ours": (Checked, Random, GRPOTrainer), "uniform": (Uniform, GRPOTrainer), "plain": (trl.GRPOTrainer,)}
        return {name: run(type(name, bases, {}), folder, dataset, odd_reward, **options) for name, bases in kinds.items()}

    def made(kind, data):
        replay = Replay(data)
        size = replay.num_generations
        options = {"num_generations": size, "per_device_train_batch_size": size, "max_completion_length": 200}
        return run(kind, folder, replay.dataset, replay.reward, replay, **options)

    uniform = rredcot.redistribute(scored, sigma="uniform")
    return {
        "ours": made(type("Ours", (Checked, GRPOTrainer), {}), scored),
        "uniform": made(GRPOTrainer, uniform),
        "plain": made(WithStoredOld, uniform),
    }


def test_loss_and_gradient_of_every_step_are_equation_11(runs):
    checked = runs["ours"].checked
    assert len(checked) == STEPS
    for loss, hand, gradient in checked:
        assert loss == pytest.approx(hand, abs=1e-6) and gradient < 1e-4
    # the policy has moved away from the old one by the second step
    assert max(abs(loss) for loss, _, _ in checked) > 1e-3


def test_uniform_sigma_is_trl_s_own_run_to_the_last_digit(runs):
    losses = [[entry["loss"] for entry in runs[name].state.log_history if "loss" in entry] for name in ("uniform", "plain")]
    assert len(losses[0]) == STEPS and losses[0] == losses[1]
    assert far(weights(runs["uniform"]), weights(runs["plain"])) == 0
    assert far(weights(runs["ours"]), weights(runs["plain"])) > 1e-4


@pytest.mark.parametrize(("option", "value"), [("importance_sampling_level", "sequence"), ("loss_type", "luspo")])
def test_what_would_have_no_effect_is_refused(tmp_path, option, value):
    with pytest.raises(ValueError, match=f'{option}="{value}" averages a trace'):
        GRPOTrainer(str(POLICY), odd_reward, config(tmp_path, **{option: value}), Dataset.from_list([{"prompt": "p", "answer": "1"}]))


def test_liger_is_refused_where_it_has_a_loss_of_its_own():
    class Old:
        def compute_liger_loss(self):
            pass

    class Args:
        use_liger_kernel = True

    rredcot.trl.refuse(Args, trl.GRPOTrainer)
    with pytest.raises(ValueError, match="before TRL 1.16"):
        rredcot.trl.refuse(Args, Old)


# ------ live


def right(completions, answer, **_):
    return [float(f"answer: {each}" in text) for text, each in zip(completions, answer)]


def questions(rows):
    return Dataset.from_list([{"prompt": p, "answer": a} for p, a in dict.fromkeys((row["prompt"], row["answer"]) for row in rows)])


class Told(GRPOTrainer):
    """Keeps each batch, and the weights of its step as a checkpoint."""

    def _calculate_rewards(self, inputs, *rest):
        self.rewards = super()._calculate_rewards(inputs, *rest)
        return self.rewards

    def _generate_and_score_completions(self, inputs):
        out = super()._generate_and_score_completions(inputs)
        folder = f"{self.args.output_dir}/{len(self.checked)}"
        self.model.save_pretrained(folder)
        self.processing_class.save_pretrained(folder)
        group = self.rewards.view(-1, self.num_generations)
        plain = ((group - group.mean(1, keepdim=True)) / (group.std(1, keepdim=True) + 1e-4)).flatten()
        self.checked.append((folder, inputs, {name: each.clone() for name, each in out.items() if hasattr(each, "clone")}, plain))
        return out


def test_live_each_step_is_scored_by_the_weights_that_it_begins_with(tmp_path, rows):
    options = {"num_generations": 8, "per_device_train_batch_size": 16, "max_completion_length": 130, "learning_rate": 3e-4}
    trainer = run(Told, tmp_path / "run", questions(rows), right, more={"rredcot": dict(LIVE)}, **options)
    assert len(trainer.checked) == STEPS
    moved, scored = [], 0
    for folder, inputs, out, plain in trainer.checked:
        built = rredcot._node.command(["policy", "build", folder, "-o", f"{folder}/policy", "--exit-template", str(LIVE["exit_template"])])
        rredcot.trl.subprocess.run(built, check=True, capture_output=True)
        asked = [
            {
                "id": str(i), "prompt_ids": out["prompt_ids"][i][out["prompt_mask"][i].bool()].tolist(), "completion_ids": list(ids_of(out, i)),
                "reference": inputs[i]["answer"], "reward": float(plain[i] > 0),
            }
            for i in range(len(inputs))
        ]
        by_built, by_first = (
            {row["id"]: row["sigma"] for row in rredcot.score(asked, policy=policy, estimator="pr", baseline=0.5, max_rejects="100%").to_pylist()}
            for policy in (f"{folder}/policy", POLICY)
        )
        for i, row in enumerate(asked):
            length = len(row["completion_ids"])
            if plain[i] == 0 or str(i) not in by_built:
                assert (out["advantages"][i, :length] == plain[i]).all()
                continue
            scored += 1
            hand = plain[i] * torch.tensor(by_built[str(i)]) * length
            assert out["advantages"][i, :length] == pytest.approx(hand, abs=2e-3)
            moved.append((hand - plain[i] * torch.tensor(by_first[str(i)]) * length).abs().max().item())
            assert (out["advantages"][i, length:] == 0).all()
    assert scored > 8
    # by the weights that training began with it would have been another one
    assert max(moved) > 0.02
    logged = [entry for entry in trainer.state.log_history if "rredcot/seconds" in entry]
    assert len(logged) == STEPS and sum(entry["rredcot/scored"] for entry in logged) == scored


def test_live_a_policy_s_graph_may_answer_and_a_column_may_have_another_name(tmp_path, rows):
    options = {"num_generations": 8, "per_device_train_batch_size": 16, "max_completion_length": 130, "max_steps": 1}
    data = questions(rows)
    own = run(Told, tmp_path / "own", data, right, more={"rredcot": dict(LIVE)}, **options)
    other = run(
        Told, tmp_path / "graph", data.add_column("solution", data["answer"]), right, more={"rredcot": {"policy": POLICY, "reference": "solution"}}, **options
    )
    assert (own.checked[0][2]["advantages"] - other.checked[0][2]["advantages"]).abs().max() < 1e-3
    with pytest.raises(ValueError, match="no column 'gold'"):
        run(GRPOTrainer, tmp_path, data, right, more={"rredcot": {**LIVE, "reference": "gold"}}, **options)
    with pytest.raises(ValueError, match="sigma=rudder: the trainer has the returns"):
        run(GRPOTrainer, tmp_path, data, right, more={"rredcot": {**LIVE, "sigma": "rudder"}}, **options)


def test_the_code_of_the_docs_trains(tmp_path, scored, rows, monkeypatch):
    [block] = re.findall(r"```python\n(.*?)```", (CHECKOUT / "docs/trainers.md").read_text(encoding="utf8"), re.S)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkpoint").symlink_to(POLICY)
    (tmp_path / "scored.parquet").symlink_to(scored)
    options = {"per_device_train_batch_size": 8, "max_completion_length": 130, "max_steps": 1}
    monkeypatch.setattr(trl, "GRPOConfig", lambda **given: config(tmp_path, **{**options, **given}))
    shapes, loss = [], GRPOTrainer._compute_loss
    monkeypatch.setattr(GRPOTrainer, "_compute_loss", lambda self, model, inputs: (shapes.append(inputs["advantages"].dim()), loss(self, model, inputs))[1])
    exec(block, {"data": questions(rows), "reward": right})  # noqa: S102
    assert shapes == [2, 2]


# ------ several processes


def test_a_group_spread_over_processes_trains_as_in_one(tmp_path, rows, monkeypatch):
    told, gradients = [], []
    script, ours = os.path.join(os.path.dirname(__file__), "trl_processes.py"), json.dumps({"threads": 1, **{name: str(path) for name, path in LIVE.items()}})
    for count in (1, 2):
        folder = tmp_path / str(count)
        folder.mkdir()
        if count == 1:
            monkeypatch.setattr(sys, "argv", [script, str(folder), ours])
            runpy.run_path(script)
        else:
            spread = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count), script, str(folder), ours]
            done = subprocess.run(spread, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"})
            assert done.returncode == 0, done.stderr[-3000:]
        parts = [torch.load(folder / f"{rank}.pt") for rank in range(count)]
        assert [(len(part), scored) for part, scored in parts] == [(8 // count, 8 // count)] * count
        told.append([each for part, _ in parts for each in part])
        gradients.append(torch.load(folder / "gradient.pt"))
    for (ids, one), (same, other), row in zip(*told, rows[8:16]):
        assert ids == same == row["completion_ids"]
        assert other == pytest.approx(one, abs=1e-5) and one == pytest.approx(expected(row, rows, 1e-4), abs=2e-3)
    largest = max(each.abs().max() for each in gradients[0])
    assert max((one - other).abs().max() for one, other in zip(*gradients)) < 1e-4 * largest and largest > 1e-3


def test_weights_that_are_spread_over_processes_cannot_answer(tmp_path, rows):
    trainer = GRPOTrainer(str(POLICY), right, config(tmp_path), questions(rows))
    assert not trainer.is_fsdp_enabled and not trainer.is_deepspeed_enabled
    trainer.is_fsdp_enabled = True
    with pytest.raises(ValueError, match="FSDP and ZeRO-3 .*: rredcot={'policy'"):
        trainer._open()
