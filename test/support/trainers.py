"""What test/system/trainers.long.test.ts checks of the examples, as one JSON object: their losses, weights and replays.

TRL, verl and OpenRLHF are not here: small stand-ins give what their examples import, under the same names.
"""
import asyncio
import json
import os
import sys
import types

import torch

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
sys.path.insert(0, EXAMPLES)

from reinforce_torch import batches, group_advantages, grpo_loss, padded  # noqa: E402
from sigma_weights import sigma_weights  # noqa: E402
from small_llama import SmallLlama, read_safetensors, write_safetensors  # noqa: E402

POLICY = os.path.join(EXAMPLES, "..", "models", "embedded")


def module(name, **members):
    """Puts a stand-in module, and its parents, where `import` finds them."""
    parts = name.split(".")
    for n in range(1, len(parts) + 1):
        path = ".".join(parts[:n])
        sys.modules.setdefault(path, types.ModuleType(path))
        if n > 1:
            setattr(sys.modules[".".join(parts[: n - 1])], parts[n - 1], sys.modules[path])
    vars(sys.modules[name]).update(members)


def error(action):
    try:
        action()
    except ValueError as raised:
        return str(raised)
    return None


def losses():
    """Three traces of 5, 2 and 3 tokens, σ with both signs, a policy that has moved away from the old one."""
    torch.manual_seed(1)
    lengths = [5, 2, 3]
    mask = torch.tensor([[t < n for t in range(5)] for n in lengths])
    old = -3 * torch.rand(3, 5)
    new = (old + 0.6 * torch.randn(3, 5)).requires_grad_()
    sigma = [[0.6, -0.3, 0.2, 0.4, 0.1], [1.5, -0.5], [0.0, 0.25, 0.75]]
    uniform = [[1 / n] * n for n in lengths]
    advantages = torch.tensor([1.5, -0.5, 0.8])
    weights = sigma_weights(sigma, mask)
    loss = grpo_loss(new, old, advantages, mask, weights)
    # at the old policy itself the ratio is 1 and the gradient is eq. 11's
    (gradient,) = torch.autograd.grad(grpo_loss(new, new.detach(), advantages, mask, weights), new)
    # what lies in the padding must not matter
    noise = torch.where(mask, new, torch.full_like(new, 50.0))
    return {
        "lengths": lengths,
        "old": old.tolist(),
        "new": new.tolist(),
        "sigma": sigma,
        "advantages": advantages.tolist(),
        "weights": weights.tolist(),
        "loss": loss.item(),
        "loss_with_noise_in_padding": grpo_loss(noise, old, advantages, mask, weights).item(),
        "gradient": gradient.tolist(),
        "plain": grpo_loss(new, old, advantages, mask).item(),
        "uniform": grpo_loss(new, old, advantages, mask, sigma_weights(uniform, mask)).item(),
        "group_advantages": group_advantages([1.0, 0.0, 1.0, 1.0, 0.0], ["a", "a", "a", "b", "c"]).tolist(),
        "batches": [
            [row["n"] for row in batch]
            for batch in batches(
                [json.dumps({"n": n, "group": "aabbbc"[n], "reward": None if n == 3 else 1}) for n in range(6)], 2
            )
        ],
    }


def weights():
    prompt_first = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]])
    return {
        "behind_a_prompt": sigma_weights([[0.5, 0.25, 0.25], [2.0, -1.0]], prompt_first).tolist(),
        "by_gain": sigma_weights([[0.5, 0.25, 0.25], [2.0, -1.0]], prompt_first, [3.0, None]).tolist(),
        "cut": error(lambda: sigma_weights([[0.5, 0.5], [1.0]], torch.tensor([[1, 1], [1, 1]]))),
    }


def forward(path):
    """The small Llama's log-probabilities of scored traces beside the stored ones; and a checkpoint written and read."""
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    model = SmallLlama(POLICY)
    with torch.no_grad():
        logprobs, mask = model.completion_logprobs(
            [row["prompt_ids"] for row in rows], [row["completion_ids"] for row in rows]
        )
    stored = padded([row["logprobs"] for row in rows], mask.shape[1])
    copy = os.path.join(os.path.dirname(path), "copy.safetensors")
    write_safetensors(copy, model.weights)
    again = read_safetensors(copy)
    return {
        "off": ((logprobs - stored) * mask).abs().max().item(),
        "tokens": int(mask.sum()),
        "same": all(torch.equal(again[name], tensor) for name, tensor in model.weights.items()),
    }


ROWS = [
    {"id": "i", "prompt": "p", "completion": "c", "group": "g", "reward": r, "prompt_ids": [1, 2], "completion_ids": c, "logprobs": lp, "sigma": s}
    for r, c, lp, s in ((1.0, [7, 8, 9], [-1.0, -2.0, -3.0], [0.5, -0.25, 0.75]), (0.0, [5], [-0.5], [1.0]))
]


def trl(dumps):
    class GRPOTrainer:
        """Pads and scores as TRL does, with the traces that `rollout_func` brings; merges what else that returns."""

        def __init__(self, model=None, args=None, reward_funcs=None, train_dataset=(), rollout_func=None):
            self.args, self.train_dataset, self.rollout_func = args, train_dataset, rollout_func
            trained.append(self)

        def train(self):
            self.out = [
                self._generate_and_score_completions([dict(example) for _ in range(self.args.num_generations)])
                for example in self.train_dataset
            ]

        def _generate_and_score_completions(self, inputs):
            found = self.rollout_func([example["prompt"] for example in inputs], self)
            for i, example in enumerate(inputs):
                for name in set(found) - {"prompt_ids", "completion_ids", "logprobs"}:
                    example[name] = found[name][i]
            width = max(map(len, found["completion_ids"]))
            return {
                "completion_ids": torch.tensor([ids + [0] * (width - len(ids)) for ids in found["completion_ids"]]),
                "advantages": torch.tensor([2.0, -4.0] * (len(inputs) // 2)),
                "sampling_per_token_logps": padded(found["logprobs"], width),
            }

    trained = []
    module("trl", GRPOTrainer=GRPOTrainer, GRPOConfig=types.SimpleNamespace)
    module("datasets", Dataset=types.SimpleNamespace(from_list=list))
    import trl_sigma

    trainer = trl_sigma.SigmaGRPOTrainer()
    trainer.rollout_func = trl_sigma.Replay(ROWS)
    inputs = [{"prompt": "p"}, {"prompt": "p"}]
    out = trainer._generate_and_score_completions(inputs)
    rewards = trl_sigma.stored_reward(["", ""], reward=[example["reward"] for example in inputs])
    again = trainer.rollout_func(["p", "p", "p"], trainer)["completion_ids"]
    found = []
    for path in dumps:
        trl_sigma.main("checkpoint", path)
        found.append(
            [
                {name: batch[name].tolist() for name in ("completion_ids", "advantages", "old_per_token_logps")}
                for batch in trained[-1].out
            ]
        )
    return {
        "dumps": found,
        "advantages": out["advantages"].tolist(),
        "old": out["old_per_token_logps"].tolist(),
        "rewards": rewards,
        "again": again,
    }


def verl(dumps, scratch):
    registered = {}

    def compute_grpo_outcome_advantage(token_level_rewards, response_mask, index, norm_adv_by_std_in_grpo):
        scores = token_level_rewards.sum(-1)
        groups = [i for i in index]
        mean = torch.stack([scores[torch.tensor([g == mine for g in groups])].mean() for mine in groups])
        advantages = (scores - mean)[:, None] * response_mask
        return advantages, advantages

    def register_adv_est(name):
        return lambda function: registered.setdefault(name, function)

    class AgentLoopOutput(types.SimpleNamespace):
        pass

    plain = []
    core = {
        "compute_grpo_outcome_advantage": compute_grpo_outcome_advantage,
        "register_adv_est": register_adv_est,
        "get_adv_estimator_fn": registered.__getitem__,
    }
    module("verl.trainer.ppo.core_algos", **core)
    module("verl.trainer.ppo.ray_trainer", compute_advantage=lambda data, adv_estimator, **_: plain.append(adv_estimator))
    module("verl.experimental.agent_loop.agent_loop", AgentLoopBase=object, AgentLoopOutput=AgentLoopOutput)
    import verl_sigma

    verl_sigma.install()

    def batch_of(outputs):
        """As verl makes it of what an agent loop has given back; every row is a prompt of its own."""
        width = max(len(output.response_ids) for output in outputs)
        mask = torch.tensor([output.response_mask + [0] * (width - len(output.response_mask)) for output in outputs])
        scores = torch.zeros(len(outputs), width)
        for i, output in enumerate(outputs):
            scores[i, len(output.response_ids) - 1] = output.reward_score  # where verl puts it
        return types.SimpleNamespace(
            batch={"token_level_rewards": scores, "response_mask": mask},
            non_tensor_batch={
                "uid": list(range(len(outputs))),
                "sigma": [output.extra_fields["sigma"] for output in outputs],
                "group": [output.extra_fields["group"] for output in outputs],
            },
        )

    def replayed(rows):
        return [asyncio.run(verl_sigma.Replay().run({}, raw_prompt=[], **row)) for row in rows]

    data = batch_of(replayed(ROWS))
    compute_advantage = sys.modules["verl.trainer.ppo.ray_trainer"].compute_advantage
    compute_advantage(data, adv_estimator="grpo_sigma", config={})
    compute_advantage(data, adv_estimator="gae")
    found = []
    for path in dumps:
        written = rows_for_verl(verl_sigma, path, scratch)
        outputs = replayed(written)
        trained = batch_of(outputs)
        compute_advantage(trained, adv_estimator="grpo_sigma", config={})
        found.append(
            {
                "rows": written,
                "advantages": trained.batch["advantages"].tolist(),
                "logprobs": [output.response_logprobs for output in outputs],
                "ids": [[output.prompt_ids, output.response_ids] for output in outputs],
            }
        )
    return {
        "dumps": found,
        "advantages": data.batch["advantages"].tolist(),
        "returns": data.batch["returns"].tolist(),
        "others": plain,
        "registered": list(registered),
    }


def rows_for_verl(verl_sigma, scored, scratch):
    """What `--rows` writes, read as verl does: JSON lines, and Parquet where the scored file is Parquet."""
    if not scored.endswith(".parquet"):
        verl_sigma.write_rows(scored, scratch + ".json")
        with open(scratch + ".json", encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    import pyarrow.parquet

    verl_sigma.write_rows(scored, scratch + ".parquet")
    return pyarrow.parquet.read_table(scratch + ".parquet").to_pylist()


def openrlhf(path):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in ROWS)
    os.environ["RREDCOT_SCORED"] = path

    class RemoteExperienceMaker:
        def compute_advantages_and_returns(self, experiences):
            for experience, advantage in zip(experiences, (0.5, -0.5)):
                experience.advantages = advantage * experience.action_mask.float()
            return experiences

    module("openrlhf.trainer.ppo_utils.experience_maker", RemoteExperienceMaker=RemoteExperienceMaker)
    module("openrlhf.utils.agent", AgentExecutorBase=object)
    import openrlhf_sigma

    openrlhf_sigma.install()
    executor = openrlhf_sigma.AgentExecutor()
    responses = [asyncio.run(executor.execute("p", "g", None, 100, None, None)) for _ in range(3)]

    def experience(response):
        """As OpenRLHF makes it: actions count from the second token."""
        tokens = response["observation_tokens"]
        (start, end), *_ = response["action_ranges"]
        actions = [int(start <= at < end) for at in range(len(tokens))]
        # one place of padding, as beside a longer trace
        return types.SimpleNamespace(
            sequences=torch.tensor([tokens + [0]]),
            attention_mask=torch.tensor([[1] * len(tokens) + [0]]),
            action_mask=torch.tensor([actions[1:] + [0]]),
        )

    maker = RemoteExperienceMaker()
    done = maker.compute_advantages_and_returns([experience(response) for response in responses[:2]])
    unknown = experience({"observation_tokens": [1, 2, 3], "action_ranges": [(2, 3)]})
    return {
        "advantages": [e.advantages.tolist()[0] for e in done],
        "rewards": [response["reward"] for response in responses],
        "log_probs": responses[0]["rollout_log_probs"],
        "label": error(lambda: asyncio.run(executor.execute("p", "h", None, 100, None, None))),
        "unknown": error(lambda: maker.compute_advantages_and_returns([unknown])),
    }


if __name__ == "__main__":
    scored, scratch, *dumps = sys.argv[1:]
    results = {
        "losses": losses(),
        "weights": weights(),
        "forward": forward(scored),
        "trl": trl(dumps),
        "verl": verl(dumps, scratch),
        "openrlhf": openrlhf(scratch),
    }
    print(json.dumps(results))
